// Access rows. REST and agents may read them; only the command line and the dashboard write them.
import { z } from 'zod'
import { Acl, acl } from '../core/access/acl.ts'
import { creatorOf } from '../core/access/caller.ts'
import { unmatchableReason } from '../core/access/policy.ts'
import { Folder, line } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import {
  INSTANCE_SCOPE,
  mustHaveTool,
  readableFolderFilter,
  requireHost,
  requireToolForAgents,
} from '../registry/authorization.ts'
import { ascending, listPage, listSchema, Paging, UNPAGED } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const Grant = z.object({
  principal: Acl.shape.principal,
  action: Acl.shape.action,
  scope: Acl.shape.scope,
  effect: Acl.shape.effect.default('allow'),
  params: Acl.shape.params.default(''),
  predicate: Acl.shape.predicate.default(''),
})

/** The folder of a scope that names one folder or subtree. */
function baseOf(scope: string): string | undefined {
  const base = scope.replace(/(^|\/)\*\*?$/, '')
  return base === '' || /[*?[\\]/.test(base) ? undefined : base
}

export const aclResource = defineResource({
  of: acl,
  title: 'Acl',
  servedBy: 'routd',
  exported: {
    check: (rows) => rows.map((row) => unmatchableReason(row)).find((fault) => fault !== undefined),
    fill: (ctx, row, current) => ({ ...row, granted_at: row.granted_at ?? current?.granted_at ?? ctx.now }),
  },
  verbs: (table) => ({
    list: defineVerb({
      http: 'GET /',
      isReadOnly: true,
      tool: 'list_acl',
      tiers: { max: 1, granted: 1 },
      when: 'See who may do what in a folder.',
      input: Paging.extend({ scope: line(255).optional().describe('Only rows of exactly this scope') }),
      toolInput: z.strictObject({ folder: Folder }).transform(({ folder }) => ({ ...UNPAGED, scope: folder })),
      toolReply: (reply, { scope }) => ({ folder: scope, acl: reply.acl }),
      output: listSchema(table, 'acl'),
      authorize: async (ctx, { scope }) => {
        if (ctx.caller.kind === 'agent') await mustHaveTool(ctx, scope ?? ctx.caller.folder)
        else await requireToolForAgents(ctx)
      },
      run: async (ctx, { scope, limit, after }) => {
        const maySee = await readableFolderFilter(ctx)
        // For an agent that names a scope, `authorize` has checked it, which may be outside its own subtree.
        const isAuthorized = ctx.caller.kind === 'agent' && scope !== undefined
        return listPage(ctx, table, 'acl', {
          where: scope === undefined ? {} : { scope },
          order: ascending('principal', 'action', 'scope', 'params', 'predicate', 'effect'),
          limit,
          after,
          ...(isAuthorized ? {} : { keep: (row) => maySee(baseOf(row.scope) ?? INSTANCE_SCOPE) }),
        })
      },
    }),

    /** Granting twice changes nothing; `added` tells whether the row is new. */
    grant: defineVerb({
      input: Grant,
      output: z.object({ added: z.boolean() }),
      authorize: requireHost,
      auditInput: (input, { added }) => (added ? input : undefined),
      run: async (ctx, row) => {
        const fault = unmatchableReason(row)
        if (fault) refuse('invalid', fault)
        return {
          added: await table.insertIfMissing(ctx.tx, {
            ...row,
            granted_by: creatorOf(ctx.caller),
            granted_at: ctx.now,
          }),
        }
      },
    }),

    ungrant: defineVerb({
      input: Grant,
      authorize: requireHost,
      run: async (ctx, row) => {
        const { principal, action, scope } = row
        if ((await table.remove(ctx.tx, row)) === 0)
          refuse('not_found', `${principal} has no grant of ${action} on ${scope}`)
      },
    }),
  }),
})
