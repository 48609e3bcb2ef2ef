// Warns when a manifest removes the last operator. That is allowed, because the command line on the host can add one.
import { acl, aclMembership } from '../../core/access/acl.ts'
import { hasOperatorMember } from '../../core/access/explanation.ts'
import { OPERATOR_ROLE } from '../../core/access/policy.ts'
import type { ManifestRow } from './manifest-resource.ts'

/** The rows of a resource in the store and after the manifest is applied. */
interface BeforeAndAfter {
  readonly before: readonly ManifestRow[]
  readonly after: readonly ManifestRow[]
}

/** `changesOf` returns undefined for a table that the manifest does not name. */
export function operatorWarnings(changesOf: (table: string) => BeforeAndAfter | undefined): string[] {
  const [grants, memberships] = [changesOf(acl.name), changesOf(aclMembership.name)]
  return [
    ...(grants && isLost(grants, hasOperatorGrant)
      ? [`${OPERATOR_ROLE} no longer has * on **: operators may do only what other rows allow`]
      : []),
    ...(memberships && isLost(memberships, hasOperator)
      ? [`${OPERATOR_ROLE} no longer has members: add one with svc group <instance> grant <sub> '**'`]
      : []),
  ]
}

function isLost({ before, after }: BeforeAndAfter, has: (rows: readonly ManifestRow[]) => boolean): boolean {
  return has(before) && !has(after)
}

const OPERATOR_GRANT: ManifestRow = {
  principal: OPERATOR_ROLE,
  action: '*',
  scope: '**',
  effect: 'allow',
  params: '',
  predicate: '',
}

function hasOperatorGrant(rows: readonly ManifestRow[]): boolean {
  return rows.some((row) => Object.entries(OPERATOR_GRANT).every(([column, value]) => row[column] === value))
}

function hasOperator(rows: readonly ManifestRow[]): boolean {
  return hasOperatorMember(rows.map(({ subject, role }) => ({ subject: String(subject), role: String(role) })))
}
