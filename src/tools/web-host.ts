// The host name that shows a folder's published pages.
import { lstat } from 'node:fs/promises'
import { z } from 'zod'
import { ROOT_FOLDER } from '../core/access/tiers.ts'
import { groups } from '../core/groups/groups.ts'
import { groupDirs, type Layout } from '../core/layout.ts'
import { bindWebHost, unbindWebHost, WebHost, webHostOf } from '../core/links/web-hosts.ts'
import { Folder, FolderOrRoot } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { actingFolder, INSTANCE_SCOPE, mustHaveTool } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'
import type { Tx } from '../store/engine.ts'

async function mustBeDirectory(layout: Layout, folder: string): Promise<void> {
  const found = await lstat(groupDirs(layout, folder).home).catch(() => undefined)
  if (!found?.isDirectory()) refuse('not_found', `there is no directory ${folder} in the groups area`)
}

async function mustBeGroup(tx: Tx, folder: string): Promise<void> {
  if (!(await groups.find(tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
}

/** Bound, the host of the instance would show one folder's pages in the place of its links. */
function mustBeOthers({ webBase }: Context, hostname: string): void {
  const { host, hostname: name } = new URL(webBase)
  if (hostname === host || hostname === name)
    refuse('conflict', `${hostname} is the host of this instance (WEB_HOST)`, 'bind another host name')
}

export const webHostTools = [
  defineTool({
    name: 'get_web_host',
    tiers: { max: 1, granted: 1 },
    when: 'See under which host name the published pages of your folder are shown; empty when there is none.',
    isReadOnly: true,
    input: z.object({ folder: Folder.optional().describe('Yours unless said; only the root may ask for another') }),
    output: z.object({ hostname: z.string(), folder: Folder }),
    authorize: async (ctx, { folder }) => {
      const own = await actingFolder(ctx)
      if (own !== ROOT_FOLDER && folder !== undefined && folder !== own)
        refuse('forbidden', `${ctx.tool}: not permitted on ${folder}: only your own folder may be asked for`)
      await mustHaveTool(ctx, folder ?? own)
    },
    run: async (ctx, { folder: named }) => {
      const folder = named ?? (await actingFolder(ctx))
      await mustBeGroup(ctx.tx, folder)
      return { hostname: (await webHostOf(ctx.tx, folder)) ?? '', folder }
    },
  }),

  defineTool({
    name: 'set_web_host',
    tiers: { max: 0 },
    when: 'Show the published pages of a folder under a host name, or no longer. Answers with all host names and their folders.',
    key: ['hostname'],
    input: WebHost.extend({
      folder: FolderOrRoot.describe(
        'A directory of the groups area, such as team/support; empty takes the host name back',
      ),
    }),
    output: z.record(z.string(), z.string()),
    // The whole map is the instance's.
    authorize: (ctx) => mustHaveTool(ctx, INSTANCE_SCOPE),
    prepare: async ({ host: { engine, layout } }, { folder }) => {
      if (folder === '') return
      if (layout) await mustBeDirectory(layout, folder)
      else await engine.read((tx) => mustBeGroup(tx, folder))
    },
    run: (ctx, { hostname, folder }) => {
      if (folder === '') return unbindWebHost(ctx.tx, hostname)
      mustBeOthers(ctx, hostname)
      return bindWebHost(ctx.tx, hostname, folder)
    },
  }),
]
