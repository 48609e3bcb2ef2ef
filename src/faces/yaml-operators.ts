// Whether a manifest takes the last operator away: allowed, because the host can give it back, but not unsaid.
import { acl, aclMembership } from '../core/acl.ts'
import { OPERATOR } from '../core/membership.ts'
import type { Row } from './yaml-shape.ts'

/** The rows of one named resource, as they stand and as the manifest has them. */
export interface Turn {
  readonly before: readonly Row[]
  readonly after: readonly Row[]
}

/** `turnOf` answers for a table that the manifest names. */
export function operatorWarnings(turnOf: (table: string) => Turn | undefined): string[] {
  const [rights, members] = [turnOf(acl.name), turnOf(aclMembership.name)]
  return [
    ...(rights && isLost(rights, hasPower)
      ? [`${OPERATOR} no longer has * on **: operators can do nothing that other rows do not allow them`]
      : []),
    ...(members && isLost(members, hasMember)
      ? [`${OPERATOR} has no members any more: svc group <instance> grant <sub> '**' makes one`]
      : []),
  ]
}

function isLost({ before, after }: Turn, has: (rows: readonly Row[]) => boolean): boolean {
  return has(before) && !has(after)
}

function hasPower(rows: readonly Row[]): boolean {
  const power: Row = { principal: OPERATOR, action: '*', scope: '**', effect: 'allow', params: '', predicate: '' }
  return rows.some((row) => Object.entries(power).every(([column, value]) => row[column] === value))
}

/** A role among the members counts for whoever is a member of it. The set grows while it is walked. */
function hasMember(rows: readonly Row[]): boolean {
  const membersOf = Map.groupBy(rows, ({ role }) => role)
  const roles = new Set<unknown>([OPERATOR])
  for (const role of roles) {
    for (const { subject } of membersOf.get(role) ?? []) {
      if (!String(subject).startsWith('role:')) return true
      roles.add(subject)
    }
  }
  return false
}
