// Role memberships. Only the command line and the dashboard write them.
import { z } from 'zod'
import { AclMembership, aclMembership, RemovalEffects } from '../core/access/acl.ts'
import { creatorOf } from '../core/access/caller.ts'
import { findCycle } from '../core/access/policy.ts'
import { addMembership, memberFault } from '../core/people/role-membership.ts'
import { refuse } from '../lib/refusal.ts'
import { requireOperator, requireUnrestrictedOperator } from '../registry/authorization.ts'
import { ascending, listPage, listSchema, Paging } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const MembershipKey = AclMembership.pick({ subject: true, role: true })
type Membership = z.output<typeof AclMembership>

export const aclMembershipResource = defineResource({
  of: aclMembership,
  title: 'AclMembership',
  servedBy: 'routd',
  exported: {
    check: findMembershipFault,
    fill: (ctx, row, current) => ({ ...row, added_at: row.added_at ?? current?.added_at ?? ctx.now }),
  },
  verbs: (table) => ({
    list: defineVerb({
      isReadOnly: true,
      input: Paging.extend({ subject: AclMembership.shape.subject.optional().describe('Only roles of this member') }),
      output: listSchema(table, 'acl_membership'),
      authorize: requireOperator,
      run: (ctx, { subject, ...paging }) =>
        listPage(ctx, table, 'acl_membership', {
          where: subject === undefined ? {} : { subject },
          order: ascending('subject', 'role'),
          ...paging,
        }),
    }),

    add: defineVerb({
      input: MembershipKey,
      output: z.object({ added: z.boolean() }),
      authorize: requireUnrestrictedOperator,
      auditInput: (input, { added }) => (added ? input : undefined),
      run: async (ctx, { subject, role }) => ({
        added: await addMembership(ctx.tx, { subject, role, by: creatorOf(ctx.caller), now: ctx.now }),
      }),
    }),

    /** What `remove` takes away: sentences for the person who asks. */
    remove_effects: defineVerb({
      isReadOnly: true,
      input: MembershipKey,
      output: RemovalEffects,
      authorize: requireUnrestrictedOperator,
      run: async (ctx, { subject, role }) => {
        const { readRights, removalWarnings } = await import('../core/access/explanation.ts')
        const before = await readRights(ctx)
        const memberships = before.memberships.filter((each) => each.subject !== subject || each.role !== role)
        return { warnings: removalWarnings(before, { ...before, memberships }, undefined) }
      },
    }),

    remove: defineVerb({
      input: MembershipKey,
      authorize: requireUnrestrictedOperator,
      run: async (ctx, membership) => {
        if ((await table.remove(ctx.tx, membership)) === 0)
          refuse('not_found', `${membership.subject} is not a member of ${membership.role}`)
      },
    }),
  }),
})

function findMembershipFault(rows: readonly Membership[]): string | undefined {
  const roleEdges: Membership[] = []
  for (const row of rows) {
    const fault = memberFault(row.subject)
    if (fault) return `${row.subject} ${fault}`
    if (!/^role:\S/.test(row.role)) return `${row.role} is not a role: it must look like role:<name>`
    // Only memberships of roles can form a cycle, and there are few of them.
    if (!row.subject.startsWith('role:')) continue
    const cycle = findCycle(roleEdges, row)
    if (cycle) return `memberships form a cycle: ${cycle.join(' → ')}`
    roleEdges.push(row)
  }
  return undefined
}
