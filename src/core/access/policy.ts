// Evaluates access rights from acl rows, role memberships and the default rules of tiers. It does not read the store;
// acl.ts passes the rows in. See docs/decisions.md#rules-of-a-folder.
import {
  compileSegments,
  compileText,
  isGlob,
  MAX_PATTERN,
  type Matcher,
  patternCovers,
  patternsMayOverlap,
} from '../../lib/text/glob.ts'
import { folderFault } from '../values.ts'
import { claimsOf } from './caller.ts'
import { type Claims, type Condition, conditionsHold, parseConditions } from './rules.ts'
import {
  defaultRule,
  mayReachFolder,
  ROOT_FOLDER,
  selfAndAncestors,
  type ToolTiers,
  tierFault,
  tierOf,
} from './tiers.ts'

export interface AclRow {
  principal: string
  action: string
  scope: string
  effect: 'allow' | 'deny'
  params: string
  predicate: string
}

export interface Membership {
  subject: string
  role: string
}

export interface AccessDecision {
  allow: boolean
  /** For operators: the row or rule that decided, or which one is missing. */
  reason: string
}

/** A person, a service, or an agent as `folder:<path>`. */
export interface AccessSubject {
  principal: string
  claims: Claims
}

/** If the scope is a glob, an allow row must cover all of it, and a deny row that may overlap it denies. */
export interface AccessRequest {
  action: string
  scope: string
  params?: Claims
}

export interface ToolAccessRequest {
  tool: string
  scope: string
  params?: Claims
}

/** A tool's name and the `tiers` of its declaration. */
export interface DeclaredTiers {
  readonly tool: string
  readonly tiers: ToolTiers
}

export interface Policy {
  grantsOf(principal: string): PrincipalGrants
  /** Everyone whom a row allows to administer or use the folder, before denials: roles as their members, globs as they are. */
  principalsOn(folder: string): string[]
}

/** The rows of a principal and its roles. */
interface PrincipalGrants {
  readonly principals: ReadonlySet<string>
  readonly byAction: ReadonlyMap<string, ActionRows>
  /** Rows whose action is a tool glob, such as `mcp:issue_*`. */
  readonly toolGlobs: readonly ToolGlob[]
}

interface ToolGlob {
  readonly matches: Matcher
  readonly actionRows: ActionRows
}

/** Rows of one action, sorted by text so that reasons do not depend on their order in the store. */
interface ActionRows {
  readonly rows: CompiledRow[]
  /** Rows whose scope is a folder, a subtree or everything; others are in `globs`. */
  readonly byScope: Map<string, CompiledRow[]>
  readonly globs: CompiledRow[]
}

interface CompiledRow {
  readonly principal: string
  readonly isWild: boolean
  readonly matches: Matcher
  readonly action: string
  readonly scope: string
  readonly inScope: Matcher
  readonly isDeny: boolean
  readonly params: readonly Condition[]
  readonly predicate: readonly Condition[]
  /** For reasons: `github:1 admin on team/**`. */
  readonly text: string
}

export const OPERATOR_ROLE = 'role:operator'
const EVERYTHING = '**'
const KNOWN_ACTION = /^(?:\*|admin|interact|assume|(?:hold:)?mcp:[A-Za-z0-9_.*]+)$/
const TOOL_GLOB = /^(?:hold:)?mcp:(?!\*$).*\*/
/** Bounds the cache: every anonymous visitor is a principal. */
const MAX_CACHED_PRINCIPALS = 4096

export function compilePolicy(rows: readonly AclRow[], memberships: readonly Membership[]): Policy {
  const compiled = rows.map(compileRow).filter((row) => typeof row !== 'string')
  const wild = compiled.filter((row) => row.isWild)
  const plain = Map.groupBy(
    compiled.filter((row) => !row.isWild),
    (row) => row.principal,
  )
  const bySubject = Map.groupBy(memberships, ({ subject }) => subject)
  const cache = new Map<string, PrincipalGrants>()

  function collectGrants(principal: string): PrincipalGrants {
    const principals = expandRoles(bySubject, principal)
    const own = [...principals].flatMap((name) => plain.get(name) ?? [])
    const shared = wild.filter((row) => [...principals].some(row.matches))
    const byAction = groupByAction([...own, ...shared])
    return { principals, byAction, toolGlobs: [...byAction].flatMap(compileToolGlob) }
  }

  const allowRows = lazily(() =>
    indexRows(compiled.filter((row) => !row.isDeny && /^(?:\*|admin|interact)$/.test(row.action))),
  )
  const membersOf = lazily(() => Map.groupBy(memberships, ({ role }) => role))

  return {
    principalsOn(folder) {
      const names = new Set(rowsForFolder(folder)(allowRows()).map((row) => row.principal))
      // Iterating a growing set also visits the roles that are members.
      for (const name of names) for (const { subject } of membersOf().get(name) ?? []) names.add(subject)
      return [...names].filter((name) => !name.startsWith('role:')).sort()
    },
    grantsOf(principal) {
      const cached = cache.get(principal)
      if (cached) return cached
      if (cache.size >= MAX_CACHED_PRINCIPALS) cache.clear()
      const grants = collectGrants(principal)
      cache.set(principal, grants)
      return grants
    },
  }
}

/** The empty scope is the instance (`INSTANCE_SCOPE`). */
function describeScope(scope: string): string {
  return scope === '' ? 'the instance' : scope
}

/** By acl rows only. A deny row wins; without a matching row access is denied. */
export function checkAccess(policy: Policy, subject: AccessSubject, request: AccessRequest): AccessDecision {
  const row = findDecidingRow(policy.grantsOf(subject.principal), request, subject.claims)
  if (!row) return refused(`no row allows ${request.action} on ${describeScope(request.scope)}`)
  return { allow: !row.isDeny, reason: `${row.isDeny ? 'denied' : 'allowed'} by acl: ${row.text}` }
}

/** Checks the tier bracket of the tool; then the last match of tier rules, allow rows and deny rows decides, in that order. */
export function checkToolAccess(
  policy: Policy,
  folder: string,
  request: ToolAccessRequest & DeclaredTiers,
): AccessDecision {
  const { tool, tiers, scope, params = {} } = request
  const tier = tierOf(folder)
  const fault = tierFault(tool, tiers, tier)
  if (fault) return refused(fault)
  const row = decideForAgent(policy, folder, { action: `mcp:${tool}`, scope, params })
  if (row) return { allow: !row.isDeny, reason: `${ruleText(row)} is the last matching rule: ${row.text}` }
  const rule = defaultRule(tool, tiers, tier)
  if (!rule) return refused(`no rule of tier ${tier} and no row allows ${tool} on ${describeScope(scope)}`)
  if (!mayReachFolder(folder, scope))
    return refused(`${describeScope(scope)} is out of the reach of ${folder}, and no row allows ${tool} there`)
  return { allow: true, reason: `${rule} is the last matching rule: default of tier ${tier}` }
}

/** Whether a rule or row allows the tool for some scope and parameters. Such a tool exists for the agent, even if rows deny it. */
export function isToolListed(policy: Policy, folder: string, { tool, tiers }: DeclaredTiers): boolean {
  const tier = tierOf(folder)
  if (tierFault(tool, tiers, tier)) return false
  if (defaultRule(tool, tiers, tier)) return true
  return agentRows(policy, folder, tool).some((row) => !row.isDeny)
}

/**
 * A tool is listed if some call of it may be allowed: a rule or row that allows it is not covered by a row that denies it whatever
 * the parameters. Also returns the rules that name the tool, for its description.
 */
export function toolListing(
  policy: Policy,
  folder: string,
  declared: DeclaredTiers,
): { listed: boolean; rules: string[] } {
  const { tool, tiers } = declared
  const tierRule = defaultRule(tool, tiers, tierOf(folder))
  const rows = agentRows(policy, folder, tool)
  const granted = rows.filter((row) => !row.isDeny)
  const denied = rows.filter((row) => row.isDeny)
  const texts = [...(tierRule === undefined ? [] : [tierRule]), ...[...granted, ...denied].map(ruleText)]
  const reach = folder === ROOT_FOLDER ? EVERYTHING : `${folder}/**`
  const allowed = [...(tierRule === undefined ? [] : [reach]), ...granted.map((row) => row.scope)]
  const isOpen = (scope: string): boolean =>
    !denied.some((row) => row.params.length === 0 && patternCovers(row.scope, scope))
  // The tier and a role may grant the same rule.
  return { listed: isToolListed(policy, folder, declared) && allowed.some(isOpen), rules: [...new Set(texts)] }
}

/** Whether an acl row denies the tool to the agent in this scope. */
export function isToolDenied(policy: Policy, folder: string, { tool, scope, params = {} }: ToolAccessRequest): boolean {
  return decideForAgent(policy, folder, { action: `mcp:${tool}`, scope, params })?.isDeny ?? false
}

/** Whether an operator must approve the call. A `hold:` row grants nothing; a denied one cancels the hold. */
export function needsApproval(
  policy: Policy,
  folder: string,
  { tool, scope, params = {} }: ToolAccessRequest,
): boolean {
  return decideForAgent(policy, folder, { action: `hold:mcp:${tool}`, scope, params })?.isDeny === false
}

/** Like `isToolListed`, for people and services, which have only acl rows. */
export function isToolGranted(policy: Policy, { principal, claims }: AccessSubject, tool: string): boolean {
  const rows = rowsOf(policy.grantsOf(principal), `mcp:${tool}`)
  return rows.some((row) => !row.isDeny && conditionsHold(row.predicate, claims))
}

/** Only a deny row for everything removes operator status; other deny rows only narrow it. */
export function isOperator(policy: Policy, principal: string): boolean {
  const grants = policy.grantsOf(principal)
  const rows = rowsOf(grants, 'admin').filter((row) => row.scope === EVERYTHING && rowApplies(row, {}, {}))
  if (rows.some((row) => row.isDeny)) return false
  return grants.principals.has(OPERATOR_ROLE) || rows.length > 0
}

/** The roles of a principal, also those of its roles. */
export function rolesOf(policy: Policy, principal: string): string[] {
  return [...policy.grantsOf(principal).principals].filter((name) => name !== principal).sort()
}

/** Whether a row allows this person something. Rows for everyone (`**`) do not count: they also match strangers. */
export function hasGrant(policy: Policy, principal: string): boolean {
  const { byAction } = policy.grantsOf(principal)
  return [...byAction.values()].some(({ rows }) => rows.some((row) => !row.isDeny && row.principal !== EVERYTHING))
}

/** Whether a row denies the subject anything within the scope: then it must not give others what it lacks itself. */
export function isRestrictedWithin(policy: Policy, { principal, claims }: AccessSubject, scope: string): boolean {
  const { byAction } = policy.grantsOf(principal)
  return [...byAction.values()].some(({ rows }) =>
    rows.some((row) => row.isDeny && patternsMayOverlap(row.scope, scope) && conditionsHold(row.predicate, claims)),
  )
}

/** The scope globs that the subject administers, without those fully denied. */
export function administeredScopes(policy: Policy, subject: AccessSubject): string[] {
  return allowedScopes(policy, subject, 'admin')
}

/** The scope globs on which the subject may do this, without those fully denied. */
export function allowedScopes(policy: Policy, subject: AccessSubject, action: string): string[] {
  const rows = rowsOf(policy.grantsOf(subject.principal), action).filter((row) => rowApplies(row, {}, subject.claims))
  const denied = rows.filter((row) => row.isDeny)
  const scopes = rows.filter((row) => !row.isDeny && !denied.some((deny) => patternCovers(deny.scope, row.scope)))
  return [...new Set(scopes.map((row) => row.scope))].sort()
}

/** Whether a person is an operator or administers a folder: the dashboard is for them. */
export function administersAny(policy: Policy, sub: string): boolean {
  const subject = { principal: sub, claims: claimsOf({ kind: 'person', sub }) }
  return isOperator(policy, sub) || administeredScopes(policy, subject).length > 0
}

/** The cycle that adding this membership would create, from the subject back to itself. */
export function findCycle(memberships: readonly Membership[], added: Membership): string[] | undefined {
  const bySubject = Map.groupBy(memberships, ({ subject }) => subject)
  const paths = new Map([[added.role, [added.subject, added.role]]])
  for (const [name, path] of paths) {
    if (name === added.subject) return path
    for (const { role } of bySubject.get(name) ?? []) if (!paths.has(role)) paths.set(role, [...path, role])
  }
  return undefined
}

/** Why this row can never match; such rows are ignored. */
export function unmatchableReason(row: AclRow): string | undefined {
  const compiled = compileRow(row)
  return typeof compiled === 'string' ? compiled : undefined
}

/** Returns the compiled row, or why it can never match. */
function compileRow(row: AclRow): CompiledRow | string {
  const { principal, action, scope, effect } = row
  const matches = principalMatcher(principal)
  if (!matches) return `the principal "${principal}" is neither ** nor namespace:name, such as github:42 or folder:team`
  if (!KNOWN_ACTION.test(action))
    return `the action "${action}" is none of *, admin, interact, assume, mcp:<tool> and hold:mcp:<tool>, where <tool> may contain *`
  const inScope = compileSegments(scope)
  if (!inScope) return `the scope "${scope}" is not a path glob`
  if (scope.split('/').includes('')) return `the scope "${scope}" has an empty segment`
  const invalid = scope.split('/').find((segment) => !isGlob(segment) && folderFault(segment))
  if (invalid !== undefined)
    return `the scope "${scope}" has the segment "${invalid}", which is not a valid folder name`
  if (effect !== 'allow' && effect !== 'deny') return `the effect "${String(effect)}" is neither allow nor deny`
  const params = plainConditions(row.params)
  if (!params) return `the params "${row.params}" are not a comma-separated list of name or name=glob`
  const predicate = plainConditions(row.predicate)
  if (!predicate) return `the predicate "${row.predicate}" is not a comma-separated list of name or name=glob`
  const text = `${principal} ${action}${inParentheses(params)} on ${scope}${inParentheses(predicate, ' if ')}`
  const isWild = isGlob(principal)
  return { principal, isWild, matches, action, scope, inScope, isDeny: effect === 'deny', params, predicate, text }
}

/** Acl rows do not support negated conditions. */
function plainConditions(list: string): Condition[] | undefined {
  const conditions = parseConditions(list)
  return conditions?.some((condition) => condition.isNegated) ? undefined : conditions
}

function inParentheses(conditions: readonly Condition[], before = ''): string {
  return conditions.length === 0 ? '' : `${before}(${conditions.map((condition) => condition.text).join(',')})`
}

/** A principal glob is `<namespace>:<path>`, split at the first colon. */
function principalMatcher(pattern: string): Matcher | undefined {
  if (pattern === EVERYTHING) return () => true
  const [space, rest] = splitPrincipal(pattern)
  if (!space || !rest || space.includes('/') || space === EVERYTHING) return undefined
  const matchesSpace = compileSegments(space)
  const matchesRest = compileSegments(rest)
  if (!matchesSpace || !matchesRest) return undefined
  return (principal) => {
    const [givenSpace, given] = splitPrincipal(principal)
    return Boolean(givenSpace && given && matchesSpace(givenSpace) && matchesRest(given))
  }
}

function splitPrincipal(principal: string): [space: string, rest?: string] {
  const colon = principal.indexOf(':')
  return colon < 0 ? [principal] : [principal.slice(0, colon), principal.slice(colon + 1)]
}

/** Iterating a growing set visits each name once, so this terminates even if the store contains a cycle. */
function expandRoles(bySubject: ReadonlyMap<string, readonly Membership[]>, principal: string): Set<string> {
  const names = new Set([principal])
  for (const name of names) for (const { role } of bySubject.get(name) ?? []) names.add(role)
  return names
}

function groupByAction(rows: readonly CompiledRow[]): Map<string, ActionRows> {
  const byAction = new Map<string, ActionRows>()
  const sorted = [...rows].sort((a, b) => (a.text < b.text ? -1 : 1))
  for (const [action, ofAction] of Map.groupBy(sorted, (row) => row.action)) byAction.set(action, indexRows(ofAction))
  return byAction
}

function indexRows(rows: CompiledRow[]): ActionRows {
  const named = rows.filter((row) => isIndexable(row.scope))
  const globs = rows.filter((row) => !isIndexable(row.scope))
  return { rows, byScope: Map.groupBy(named, (row) => row.scope), globs }
}

/** Most processes never need it. */
function lazily<T>(create: () => T): () => T {
  let created: { readonly value: T } | undefined
  return () => {
    created ??= { value: create() }
    return created.value
  }
}

/** A folder, a subtree or everything, as nearly all scopes are: such rows are found by map lookup. */
function isIndexable(scope: string): boolean {
  return scope === EVERYTHING || !isGlob(scope.replace(/\/\*\*$/, ''))
}

/** Actions of rows that include the requested action. */
function includingActions(action: string): readonly string[] {
  // A hold is not a right: `*` does not include it.
  if (action.startsWith('hold:')) return [action, 'hold:mcp:*']
  if (action === 'mcp:*') return ['mcp:*', 'admin', '*']
  if (action.startsWith('mcp:')) return [action, 'mcp:*', 'admin', '*']
  if (action === 'interact') return ['interact', 'admin', '*']
  return action === '*' ? ['*'] : [action, '*']
}

/** `includingActions` handles `mcp:*`. */
function compileToolGlob([action, actionRows]: readonly [string, ActionRows]): ToolGlob[] {
  const matches = TOOL_GLOB.test(action) ? compileText(action) : undefined
  return matches ? [{ matches, actionRows }] : []
}

function actionRowsOf({ byAction, toolGlobs }: PrincipalGrants, action: string): ActionRows[] {
  const found: ActionRows[] = []
  for (const name of includingActions(action)) {
    const actionRows = byAction.get(name)
    if (actionRows) found.push(actionRows)
  }
  for (const { matches, actionRows } of toolGlobs)
    if (!found.includes(actionRows) && matches(action)) found.push(actionRows)
  return found
}

/** Returns a matching deny row if there is one, otherwise a matching allow row. */
function findDecidingRow(grants: PrincipalGrants, request: AccessRequest, claims: Claims): CompiledRow | undefined {
  const { action, scope, params = {} } = request
  const findRows = isGlob(scope) ? rowsForGlob(scope) : rowsForFolder(scope)
  let found: CompiledRow | undefined
  for (const actionRows of actionRowsOf(grants, action)) {
    for (const row of findRows(actionRows)) {
      if ((found && !row.isDeny) || !rowApplies(row, params, claims)) continue
      if (row.isDeny) return row
      found = row
    }
  }
  return found
}

/** Looks up the folder and its enclosing subtrees by name and matches only the remaining globs. */
function rowsForFolder(scope: string): (of: ActionRows) => readonly CompiledRow[] {
  const ancestors = selfAndAncestors(scope).filter((folder) => folder.length < MAX_PATTERN)
  const names = [scope, EVERYTHING, ...ancestors.map((folder) => `${folder}/**`)]
  return ({ byScope, globs }) => {
    // The empty scope is the instance: `*`, which matches all top-level folders, must not cover it.
    const rows = scope === '' ? [] : globs.filter((row) => row.inScope(scope))
    for (const name of names) rows.push(...(byScope.get(name) ?? []))
    return rows
  }
}

function rowsForGlob(glob: string): (of: ActionRows) => readonly CompiledRow[] {
  return ({ rows }) =>
    rows.filter((row) => (row.isDeny ? patternsMayOverlap(row.scope, glob) : patternCovers(row.scope, glob)))
}

function rowApplies(row: CompiledRow, params: Claims, claims: Claims): boolean {
  return conditionsHold(row.params, params) && conditionsHold(row.predicate, claims)
}

/** All rows whose action includes this one, sorted by text. */
function rowsOf(grants: PrincipalGrants, action: string): CompiledRow[] {
  const rows = actionRowsOf(grants, action).flatMap((actionRows) => actionRows.rows)
  return rows.sort((a, b) => (a.text < b.text ? -1 : 1))
}

function decideForAgent(policy: Policy, folder: string, request: AccessRequest): CompiledRow | undefined {
  const grants = policy.grantsOf(`folder:${folder}`)
  // Most folders have only the rules of their tier.
  return grants.byAction.size === 0 ? undefined : findDecidingRow(grants, request, claimsOf({ kind: 'agent', folder }))
}

function agentRows(policy: Policy, folder: string, tool: string): CompiledRow[] {
  const grants = policy.grantsOf(`folder:${folder}`)
  if (grants.byAction.size === 0) return []
  const claims = claimsOf({ kind: 'agent', folder })
  return rowsOf(grants, `mcp:${tool}`).filter((row) => conditionsHold(row.predicate, claims))
}

/** An acl row in the grammar of grant rules. */
function ruleText(row: CompiledRow): string {
  const name = row.action.startsWith('mcp:') ? row.action.slice('mcp:'.length) : '*'
  return `${row.isDeny ? '!' : ''}${name}${inParentheses(row.params)}`
}

function refused(reason: string): AccessDecision {
  return { allow: false, reason }
}
