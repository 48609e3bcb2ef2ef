// Explains rights: what a principal may do in a folder, who may administer or use a folder, and what removing a grant or a
// membership takes away. All by the evaluator in policy.ts.
import { isGlob } from '../../lib/text/glob.ts'
import type { Tx } from '../../store/engine.ts'
import { acl, aclMembership } from './acl.ts'
import { claimsOf } from './caller.ts'
import {
  type AccessDecision,
  type AccessSubject,
  type AclRow,
  checkAccess,
  checkToolAccess,
  compilePolicy,
  type DeclaredTiers,
  isOperator,
  type Membership,
  needsApproval,
  OPERATOR_ROLE,
  type Policy,
} from './policy.ts'

/** The actions that are not tools. */
const ACTIONS = ['admin', 'interact'] as const

export interface ExplainedAction extends AccessDecision {
  readonly action: string
}

export interface ExplainedTool extends AccessDecision {
  readonly tool: string
  /** An operator must approve each call. */
  readonly held: boolean
}

/** `folder:<path>` is the agent of a folder. */
export function agentFolderOf(principal: string): string | undefined {
  return /^folder:(.+)$/s.exec(principal)?.[1]
}

/** The subject of a principal that is not calling now. A role has no claims. */
export function subjectOfPrincipal(principal: string): AccessSubject {
  const folder = agentFolderOf(principal)
  if (folder !== undefined) return { principal, claims: claimsOf({ kind: 'agent', folder }) }
  if (principal.startsWith('role:')) return { principal, claims: {} }
  const kind = principal.startsWith('service:') ? 'service' : 'person'
  return { principal, claims: claimsOf({ kind, sub: principal }) }
}

export function explainActions(policy: Policy, principal: string, scope: string): ExplainedAction[] {
  const subject = subjectOfPrincipal(principal)
  return ACTIONS.map((action) => ({ action, ...checkAccess(policy, subject, { action, scope }) }))
}

/** Without arguments: a row with params applies only to some calls, so it does not count. */
export function explainTools(
  policy: Policy,
  principal: string,
  scope: string,
  tools: readonly DeclaredTiers[],
): ExplainedTool[] {
  const folder = agentFolderOf(principal)
  const subject = subjectOfPrincipal(principal)
  return tools.map(({ tool, tiers }) => {
    if (folder === undefined)
      return { tool, held: false, ...checkAccess(policy, subject, { action: `mcp:${tool}`, scope }) }
    const decision = checkToolAccess(policy, folder, { tool, tiers, scope })
    return { tool, held: decision.allow && needsApproval(policy, folder, { tool, scope }), ...decision }
  })
}

export interface FolderUser {
  readonly principal: string
  readonly may: 'administer' | 'use'
  readonly is_operator: boolean
  readonly reason: string
}

/** Undefined if a row denies what another allows. */
export function explainFolderUser(policy: Policy, principal: string, folder: string): FolderUser | undefined {
  const subject = subjectOfPrincipal(principal)
  const of = { principal, is_operator: isOperator(policy, principal) }
  const admin = checkAccess(policy, subject, { action: 'admin', scope: folder })
  if (admin.allow) return { ...of, may: 'administer', reason: admin.reason }
  const interact = checkAccess(policy, subject, { action: 'interact', scope: folder })
  return interact.allow ? { ...of, may: 'use', reason: interact.reason } : undefined
}

/** The acl rows and memberships of the store. */
export interface RightsRows {
  readonly grants: readonly AclRow[]
  readonly memberships: readonly Membership[]
}

export async function readRights({ tx }: { readonly tx: Tx }): Promise<RightsRows> {
  return { grants: await acl.list(tx), memberships: await aclMembership.list(tx) }
}

/** Sentences for the person who removes a row: whether an instance loses its last operator, or a folder its last administrator. */
export function removalWarnings(before: RightsRows, after: RightsRows, folder: string | undefined): string[] {
  const [old, next] = [before, after].map(({ grants, memberships }) => compilePolicy(grants, memberships))
  if (!old || !next) return []
  return [
    ...(hasOperatorAmong(old) && !hasOperatorAmong(next)
      ? [
          "This removes the last operator: only the command line on the host can add one, with svc group <instance> grant <sub> '**'.",
        ]
      : []),
    ...(folder !== undefined && hasAdministrator(old, folder) && !hasAdministrator(next, folder)
      ? [`This removes the last administrator of ${folder}: only operators can administer it then.`]
      : []),
  ]
}

function hasOperatorAmong(policy: Policy): boolean {
  return policy.principalsOn('').some((principal) => isPersonName(principal) && isOperator(policy, principal))
}

function hasAdministrator(policy: Policy, folder: string): boolean {
  return policy
    .principalsOn(folder)
    .some(
      (principal) =>
        isPersonName(principal) &&
        !isOperator(policy, principal) &&
        explainFolderUser(policy, principal, folder)?.may === 'administer',
    )
}

/** A glob may match no person. */
function isPersonName(principal: string): boolean {
  return !isGlob(principal) && agentFolderOf(principal) === undefined
}

/** Whether a person or an agent is a member of the operators; roles can be members too. */
export function hasOperatorMember(memberships: readonly Membership[]): boolean {
  const membersOf = Map.groupBy(memberships, ({ role }) => role)
  const roles = new Set([OPERATOR_ROLE])
  // The loop also visits roles that it adds to the set.
  for (const role of roles) {
    for (const { subject } of membersOf.get(role) ?? []) {
      if (!subject.startsWith('role:')) return true
      roles.add(subject)
    }
  }
  return false
}
