// Role memberships. The command line and the dashboard write them; no agent and no bearer does.
import { z } from 'zod'
import { AclMembership, aclMembership } from '../core/access/acl.ts'
import { creatorOf } from '../core/access/caller.ts'
import { findCycle } from '../core/access/policy.ts'
import { addMembership, memberFault } from '../core/people/role-membership.ts'
import { refuse } from '../lib/refusal.ts'
import { requireHost } from '../registry/authorization.ts'
import { listPage, listSchema, Paging } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const Edge = AclMembership.pick({ subject: true, role: true })
type Membership = z.output<typeof AclMembership>

export const aclMembershipResource = defineResource({
  of: aclMembership,
  title: 'AclMembership',
  servedBy: 'routd',
  exported: {
    check: describeCycle,
    fill: (ctx, row, current) => ({ ...row, added_at: row.added_at ?? current?.added_at ?? ctx.now }),
  },
  verbs: (table) => ({
    list: defineVerb({
      isReadOnly: true,
      input: Paging,
      output: listSchema(table, 'acl_membership'),
      authorize: requireHost,
      run: (ctx, paging) =>
        listPage(ctx, table, 'acl_membership', {
          order: [
            ['subject', 'asc'],
            ['role', 'asc'],
          ],
          ...paging,
        }),
    }),

    add: defineVerb({
      input: Edge,
      output: z.object({ added: z.boolean() }),
      authorize: requireHost,
      auditInput: (input, { added }) => (added ? input : undefined),
      run: async (ctx, { subject, role }) => ({
        added: await addMembership(ctx.tx, { subject, role, by: creatorOf(ctx.caller), now: ctx.now }),
      }),
    }),

    remove: defineVerb({
      input: Edge,
      authorize: requireHost,
      run: async (ctx, edge) => {
        if ((await table.remove(ctx.tx, edge)) === 0)
          refuse('not_found', `${edge.subject} is no member of ${edge.role}`)
      },
    }),
  }),
})

function describeCycle(rows: readonly Membership[]): string | undefined {
  const before: Membership[] = []
  for (const row of rows) {
    const fault = memberFault(row.subject)
    if (fault) return `${row.subject} ${fault}`
    if (!row.role.startsWith('role:')) return `${row.role} is no role: it must look like role:<name>`
    // Only a role is both a member and has members: nobody else can close a circle, and there are many of them.
    if (!row.subject.startsWith('role:')) continue
    const cycle = findCycle(before, row)
    if (cycle) return `memberships go in a circle: ${cycle.join(' → ')}`
    before.push(row)
  }
  return undefined
}
