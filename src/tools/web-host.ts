// The host name that shows a folder's published pages.
import { z } from 'zod'
import { groups } from '../core/groups.ts'
import { ROOT } from '../core/tiers.ts'
import { Folder } from '../core/values.ts'
import { bindWebHost, WebHost, webHostOf } from '../core/web-hosts.ts'
import { refuse } from '../lib/refusal.ts'
import { INSTANCE, mustHaveTool, ownFolder } from '../registry/needs.ts'
import { hotTool } from '../registry/tool.ts'

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
      if (!(await groups.find(ctx.tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
      return { hostname: (await webHostOf(ctx.tx, folder)) ?? '', folder }
    },
  }),

  hotTool({
    name: 'set_web_host',
    when: 'Show the published pages of a folder under a host name. Answers with all host names and their folders.',
    key: ['hostname'],
    input: WebHost,
    output: z.record(z.string(), z.string()),
    // The whole map is the instance's.
    needs: (ctx) => mustHaveTool(ctx, INSTANCE),
    run: (ctx, { hostname, folder }) => bindWebHost(ctx.tx, hostname, folder),
  }),
]
