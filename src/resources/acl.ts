// Access rows. REST and agents may read them; only the command line and the dashboard write them.
import { z } from 'zod'
import { Acl, acl, RemovalEffects } from '../core/access/acl.ts'
import { creatorOf } from '../core/access/caller.ts'
import { type AclRow, checkAccess, isRestrictedWithin, unmatchableReason } from '../core/access/policy.ts'
import { Folder, line } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import {
  canAdministerGlob,
  canOperateUnrestricted,
  INSTANCE_SCOPE,
  mustHaveTool,
  operatorOn,
  operatorWho,
  readableFolderFilter,
  requireToolForAgents,
  subjectOf,
} from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { ascending, listPage, listSchema, mustFindGroup, Paging, UNPAGED } from '../registry/crud.ts'
import { defineResource, defineVerb, toolArguments } from '../registry/resource.ts'

const Grant = z.object({
  principal: Acl.shape.principal,
  action: Acl.shape.action,
  scope: Acl.shape.scope,
  effect: Acl.shape.effect.default('allow'),
  params: Acl.shape.params,
  predicate: Acl.shape.predicate,
})

/**
 * A person grants and takes back rights that they have themselves, within what they administer. Rows that deny, hold or use a
 * glob of tools may concern the rights of others, so they need an operator.
 */
async function mayGrant(ctx: Context, { action, scope, effect }: z.output<typeof Grant>): Promise<boolean> {
  if (await canOperateUnrestricted(ctx, scope)) return true
  if (effect === 'deny' || !/^(?:admin|interact|mcp:[\w.]+)$/.test(action)) return false
  const [policy, subject] = [await ctx.policy(), subjectOf(ctx.caller)]
  if (isRestrictedWithin(policy, subject, scope)) return false
  return (await canAdministerGlob(ctx, scope)) && checkAccess(policy, subject, { action, scope }).allow
}

const GRANT_KEY = ['principal', 'action', 'scope', 'effect', 'params', 'predicate'] as const

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
      input: Paging.extend({
        scope: line(255).optional().describe('Only rows of exactly this scope'),
        principal: Acl.shape.principal.optional().describe('Only rows of exactly this principal'),
      }),
      toolInput: toolArguments({ folder: Folder }, ({ folder }) => ({ ...UNPAGED, scope: folder })),
      toolReply: (reply, { scope }) => ({ folder: scope, acl: reply.acl }),
      output: listSchema(table, 'acl'),
      authorize: async (ctx, { scope }) => {
        if (ctx.caller.kind === 'agent') await mustHaveTool(ctx, scope ?? ctx.caller.folder)
        else await requireToolForAgents(ctx)
      },
      run: async (ctx, { scope, principal, limit, after }) => {
        const maySee = await readableFolderFilter(ctx)
        // For an agent that names a scope, `authorize` has checked it, which may be outside its own subtree.
        const isAuthorized = ctx.caller.kind === 'agent' && scope !== undefined
        return listPage(ctx, table, 'acl', {
          where: { ...(scope === undefined ? {} : { scope }), ...(principal === undefined ? {} : { principal }) },
          order: ascending('principal', 'action', 'scope', 'params', 'predicate', 'effect'),
          limit,
          after,
          ...(isAuthorized ? {} : { keep: (row) => maySee(baseOf(row.scope) ?? INSTANCE_SCOPE) }),
        })
      },
    }),

    /** Rows that concern a folder, also by a glob, with what each means. Only for the command line and the dashboard. */
    of_folder: defineVerb({
      isReadOnly: true,
      input: z.object({ folder: Folder }),
      output: z.object({
        grants: z.array(
          Acl.extend({
            meaning: z.string(),
            is_last_admin: z.boolean().describe('Whether only operators administer the folder without it'),
          }),
        ),
      }),
      authorize: operatorOn(({ folder }) => folder),
      run: async (ctx, { folder }) => {
        const { explainGrant, isLastAdministrator, listFolderGrants } = await import('../core/access/folder-grants.ts')
        await mustFindGroup(ctx, folder)
        const rows = await listFolderGrants(ctx.tx, folder)
        const grants = rows.map((row) => ({
          ...row,
          meaning: explainGrant(row),
          is_last_admin: isLastAdministrator(row, rows, folder),
        }))
        return { grants }
      },
    }),

    /** Granting twice changes nothing; `added` tells whether the row is new. */
    grant: defineVerb({
      input: Grant,
      output: z.object({ added: z.boolean() }),
      authorize: operatorWho(mayGrant),
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

    /** What `ungrant` takes away: sentences for the person who asks. */
    ungrant_effects: defineVerb({
      isReadOnly: true,
      input: Grant,
      output: RemovalEffects,
      authorize: operatorWho(mayGrant),
      run: async (ctx, row) => {
        const { readRights, removalWarnings } = await import('../core/access/explanation.ts')
        const before = await readRights(ctx)
        const isOther = (each: AclRow) => GRANT_KEY.some((column) => each[column] !== row[column])
        const after = { ...before, grants: before.grants.filter(isOther) }
        return { warnings: removalWarnings(before, after, baseOf(row.scope)) }
      },
    }),

    ungrant: defineVerb({
      input: Grant,
      authorize: operatorWho(mayGrant),
      run: async (ctx, row) => {
        const { principal, action, scope } = row
        if ((await table.remove(ctx.tx, row)) === 0)
          refuse('not_found', `${principal} has no grant of ${action} on ${scope}`)
      },
    }),
  }),
})
