// Roles: who is a member of what. Self edges and cycles are refused where they are written.
import { isGlob } from '../lib/glob.ts'
import { refuse } from '../lib/refusal.ts'
import type { Tx } from '../store/engine.ts'
import { findCycle } from './access.ts'
import { aclMembership } from './acl.ts'
import { tierOf } from './tiers.ts'

export const OPERATOR = 'role:operator'
export const MEMBER = 'role:member'

export interface NewMembership {
  subject: string
  role: string
  by: string
  now: string
}

/** Why nobody can ever be this member, or nothing. Members are looked up by name: a glob would look granted and grant nothing. */
export function memberFault(subject: string): string | undefined {
  if (!/^[^\s:/]+:\S/.test(subject)) return 'must look like provider:id, folder:<path> or role:<name>'
  return isGlob(subject) ? 'must name one member: a role has no globs' : undefined
}

/** Whether it was new. */
export async function addMembership(tx: Tx, { subject, role, by, now }: NewMembership): Promise<boolean> {
  const fault = memberFault(subject)
  if (fault) refuse('invalid', `${JSON.stringify(subject)} ${fault}`)
  if (!role.startsWith('role:')) refuse('invalid', 'role must look like role:<name>')
  const cycle = findCycle(await aclMembership.list(tx), { subject, role })
  if (cycle) refuse('conflict', `that would be a circle: ${cycle.join(' → ')}`)
  return aclMembership.insertIfMissing(tx, { subject, role, added_by: by, added_at: now })
}

/** A new group's agent may speak, unless it is the root or a stranger (decision A8). */
export async function admitGroup(tx: Tx, folder: string, by: string, now: string): Promise<void> {
  const tier = tierOf(folder)
  if (tier === 1 || tier === 2) await addMembership(tx, { subject: `folder:${folder}`, role: MEMBER, by, now })
}
