// Access rows. Over REST and for agents they are read; the command line and the dashboard write them.
import { z } from 'zod'
import { Acl, acl, aclFault } from '../core/acl.ts'
import { makerOf } from '../core/caller.ts'
import { Folder, line } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { EVERYTHING, listing, Paging, pageOf } from '../registry/crud.ts'
import { hostOnly, INSTANCE, listed, mustHaveTool, sightOf } from '../registry/needs.ts'
import { resource, verb } from '../registry/resource.ts'

const Grant = z.object({
  principal: Acl.shape.principal,
  action: Acl.shape.action,
  scope: Acl.shape.scope,
  effect: Acl.shape.effect.default('allow'),
  params: Acl.shape.params.default(''),
  predicate: Acl.shape.predicate.default(''),
})

/** The folder that a scope is about, if it is about one subtree. */
function baseOf(scope: string): string | undefined {
  const base = scope.replace(/(^|\/)\*\*?$/, '')
  return base === '' || /[*?[\\]/.test(base) ? undefined : base
}

export const aclResource = resource({
  of: acl,
  title: 'Acl',
  servedBy: 'routd',
  exported: {
    check: (rows) => rows.map((row) => aclFault(row)).find((fault) => fault !== undefined),
    fill: (ctx, row, current) => ({ ...row, granted_at: row.granted_at ?? current?.granted_at ?? ctx.now }),
  },
  verbs: (table) => ({
    list: verb({
      http: 'GET /',
      reads: true,
      tool: 'list_acl',
      when: 'See who may do what in a folder.',
      input: Paging.extend({ scope: line(255).optional().describe('Only rows of exactly this scope') }),
      toolInput: z.strictObject({ folder: Folder }).transform(({ folder }) => ({ ...EVERYTHING, scope: folder })),
      toolReply: (reply, { scope }) => ({ folder: scope, acl: reply.acl }),
      output: listing(table, 'acl'),
      needs: async (ctx, { scope }) => {
        if (ctx.caller.kind === 'agent') await mustHaveTool(ctx, scope ?? ctx.caller.folder)
        else await listed(ctx)
      },
      run: async (ctx, { scope, limit, after }) => {
        const maySee = await sightOf(ctx)
        // An agent that names a folder has been let to it, be it by a grant that leads out of its own reach.
        const isJudged = ctx.caller.kind === 'agent' && scope !== undefined
        return pageOf(ctx, table, 'acl', {
          where: scope === undefined ? {} : { scope },
          order: [
            ['principal', 'asc'],
            ['action', 'asc'],
            ['scope', 'asc'],
            ['params', 'asc'],
            ['predicate', 'asc'],
            ['effect', 'asc'],
          ],
          limit,
          after,
          ...(isJudged ? {} : { keep: (row) => maySee(baseOf(row.scope) ?? INSTANCE) }),
        })
      },
    }),

    /** Whether it is new: granting twice changes nothing. */
    grant: verb({
      input: Grant,
      output: z.object({ added: z.boolean() }),
      needs: hostOnly,
      audited: (input, { added }) => (added ? input : undefined),
      run: async (ctx, row) => {
        const fault = aclFault(row)
        if (fault) refuse('invalid', fault)
        return {
          added: await table.insertIfMissing(ctx.tx, { ...row, granted_by: makerOf(ctx.caller), granted_at: ctx.now }),
        }
      },
    }),

    ungrant: verb({
      input: Grant,
      needs: hostOnly,
      run: async (ctx, row) => {
        const { principal, action, scope } = row
        if ((await table.remove(ctx.tx, row)) === 0)
          refuse('not_found', `${principal} has no grant of ${action} on ${scope}`)
      },
    }),
  }),
})
