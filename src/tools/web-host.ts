// The host name that shows a folder's published pages.
import { lstat } from 'node:fs/promises'
import { z } from 'zod'
import { groups } from '../core/groups.ts'
import { groupDirs, type Layout } from '../core/layout.ts'
import { ROOT } from '../core/tiers.ts'
import { Folder, FolderOrRoot } from '../core/values.ts'
import { bindWebHost, unbindWebHost, WebHost, webHostOf } from '../core/web-hosts.ts'
import { refuse } from '../lib/refusal.ts'
import type { Context } from '../registry/context.ts'
import { INSTANCE, mustHaveTool, ownFolder } from '../registry/needs.ts'
import { hotTool } from '../registry/tool.ts'
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
  hotTool({
    name: 'get_web_host',
    when: 'See under which host name the published pages of your folder are shown; empty when there is none.',
    reads: true,
    input: z.object({ folder: Folder.optional().describe('Yours unless said; only the root may ask for another') }),
    output: z.object({ hostname: z.string(), folder: Folder }),
    needs: async (ctx, { folder }) => {
      const own = await ownFolder(ctx)
      if (own !== ROOT && folder !== undefined && folder !== own)
        refuse('forbidden', `${ctx.tool}: not permitted on ${folder}: only your own folder may be asked for`)
      await mustHaveTool(ctx, folder ?? own)
    },
    run: async (ctx, { folder: named }) => {
      const folder = named ?? (await ownFolder(ctx))
      await mustBeGroup(ctx.tx, folder)
      return { hostname: (await webHostOf(ctx.tx, folder)) ?? '', folder }
    },
  }),

  hotTool({
    name: 'set_web_host',
    when: 'Show the published pages of a folder under a host name, or no longer. Answers with all host names and their folders.',
    key: ['hostname'],
    input: WebHost.extend({
      folder: FolderOrRoot.describe(
        'A directory of the groups area, such as team/support; empty takes the host name back',
      ),
    }),
    output: z.record(z.string(), z.string()),
    // The whole map is the instance's.
    needs: (ctx) => mustHaveTool(ctx, INSTANCE),
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
