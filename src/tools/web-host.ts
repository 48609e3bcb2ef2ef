// Tools that bind a host name to the published pages of a folder.
import { lstat } from 'node:fs/promises'
import { z } from 'zod'
import { ROOT_FOLDER } from '../core/access/tiers.ts'
import { groupDirs, type Layout } from '../core/layout.ts'
import { bindWebHost, mustNotBeInstanceHost, unbindWebHost, WebHost, webHostOf } from '../core/links/web-hosts.ts'
import { Folder, FolderOrRoot } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { actingFolder, mustHaveTool, requireInstanceTool } from '../registry/authorization.ts'
import { mustFindGroup } from '../registry/crud.ts'
import { defineTool } from '../registry/tool.ts'

async function mustBeDirectory(layout: Layout, folder: string): Promise<void> {
  const found = await lstat(groupDirs(layout, folder).home).catch(() => undefined)
  if (!found?.isDirectory()) refuse('not_found', `there is no directory ${folder} in the groups area`)
}

export const webHostTools = [
  defineTool({
    name: 'get_web_host',
    tiers: { max: 1, granted: 1 },
    when: 'Get the host name that serves the published pages of your folder; empty if there is none.',
    isReadOnly: true,
    input: z.object({ folder: Folder.optional().describe('Default: yours; only the root may name another') }),
    output: z.object({ hostname: z.string(), folder: Folder }),
    authorize: async (ctx, { folder }) => {
      const own = await actingFolder(ctx)
      if (own !== ROOT_FOLDER && folder !== undefined && folder !== own)
        refuse('forbidden', `${ctx.tool}: not permitted on ${folder}: only the root may name another folder`)
      await mustHaveTool(ctx, folder ?? own)
    },
    run: async (ctx, { folder: named }) => {
      const folder = named ?? (await actingFolder(ctx))
      await mustFindGroup(ctx, folder)
      return { hostname: (await webHostOf(ctx.tx, folder)) ?? '', folder }
    },
  }),

  defineTool({
    name: 'set_web_host',
    tiers: { max: 0 },
    when: 'Serve the published pages of a folder under a host name, or stop it. Returns all host names and their folders.',
    key: ['hostname'],
    input: WebHost.extend({
      folder: FolderOrRoot.describe(
        'A directory of the groups area, such as team/support; empty unbinds the host name',
      ),
    }),
    output: z.record(z.string(), z.string()),
    authorize: requireInstanceTool,
    prepare: async ({ host: { engine, layout } }, { folder }) => {
      if (folder === '') return
      if (layout) await mustBeDirectory(layout, folder)
      else await engine.read((tx) => mustFindGroup({ tx }, folder))
    },
    run: (ctx, { hostname, folder }) => {
      if (folder === '') return unbindWebHost(ctx.tx, hostname)
      mustNotBeInstanceHost(ctx, hostname)
      return bindWebHost(ctx.tx, hostname, folder)
    },
  }),
]
