// Adds role memberships. Cycles are refused.
import { refuse } from '../../lib/refusal.ts'
import { isGlob } from '../../lib/text/glob.ts'
import type { Tx } from '../../store/engine.ts'
import { aclMembership } from '../access/acl.ts'
import { findCycle } from '../access/policy.ts'
import { tierOf } from '../access/tiers.ts'

export const MEMBER_ROLE = 'role:member'

interface NewMembership {
  readonly subject: string
  readonly role: string
  readonly by: string
  readonly now: string
}

/** Members are looked up by name, so a glob would grant nothing. */
export function memberFault(subject: string): string | undefined {
  if (!/^[^\s:/]+:\S/.test(subject)) return 'must look like provider:id, folder:<path> or role:<name>'
  return isGlob(subject) ? 'must be one member, not a glob' : undefined
}

/** Returns false if the membership exists. */
export async function addMembership(tx: Tx, { subject, role, by, now }: NewMembership): Promise<boolean> {
  const fault = memberFault(subject)
  if (fault) refuse('invalid', `${JSON.stringify(subject)} ${fault}`)
  if (!/^role:\S/.test(role)) refuse('invalid', 'role must look like role:<name>')
  const cycle = findCycle(await aclMembership.list(tx), { subject, role })
  if (cycle) refuse('conflict', `this membership would create a cycle: ${cycle.join(' → ')}`)
  return aclMembership.insertIfMissing(tx, { subject, role, added_by: by, added_at: now })
}

/** Groups of tiers 1 and 2 get the member role. See docs/decisions.md#role-member. */
export async function grantMemberRole(tx: Tx, folder: string, by: string, now: string): Promise<void> {
  const tier = tierOf(folder)
  if (tier === 1 || tier === 2) await addMembership(tx, { subject: `folder:${folder}`, role: MEMBER_ROLE, by, now })
}
