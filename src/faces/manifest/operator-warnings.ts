// Whether a manifest takes the last operator away: allowed, because the host can give it back, but not unsaid.
import { acl, aclMembership } from '../../core/access/acl.ts'
import { OPERATOR_ROLE } from '../../core/access/policy.ts'
import type { ManifestRow } from './manifest-resource.ts'

/** The rows of one named resource, as they stand and as the manifest has them. */
export interface BeforeAndAfter {
  readonly before: readonly ManifestRow[]
  readonly after: readonly ManifestRow[]
}

/** `turnOf` answers for a table that the manifest names. */
export function operatorWarnings(turnOf: (table: string) => BeforeAndAfter | undefined): string[] {
  const [rights, members] = [turnOf(acl.name), turnOf(aclMembership.name)]
  return [
    ...(rights && isLost(rights, hasPower)
      ? [`${OPERATOR_ROLE} no longer has * on **: operators can do nothing that other rows do not allow them`]
      : []),
    ...(members && isLost(members, hasMember)
      ? [`${OPERATOR_ROLE} has no members any more: svc group <instance> grant <sub> '**' makes one`]
      : []),
  ]
}

function isLost({ before, after }: BeforeAndAfter, has: (rows: readonly ManifestRow[]) => boolean): boolean {
  return has(before) && !has(after)
}

function hasPower(rows: readonly ManifestRow[]): boolean {
  const power: ManifestRow = {
    principal: OPERATOR_ROLE,
    action: '*',
    scope: '**',
    effect: 'allow',
    params: '',
    predicate: '',
  }
  return rows.some((row) => Object.entries(power).every(([column, value]) => row[column] === value))
}

/** A role among the members counts for whoever is a member of it. The set grows while it is walked. */
function hasMember(rows: readonly ManifestRow[]): boolean {
  const membersOf = Map.groupBy(rows, ({ role }) => role)
  const roles = new Set<unknown>([OPERATOR_ROLE])
  for (const role of roles) {
    for (const { subject } of membersOf.get(role) ?? []) {
      if (!String(subject).startsWith('role:')) return true
      roles.add(subject)
    }
  }
  return false
}
