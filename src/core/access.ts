// The one evaluator of rights, over acl rows, memberships and the rules of the tiers. It reads no store: whoever asks
// hands it the rows, and a failed read of them is a refusal there (decision A4).
import { compileSegments, compileText, covers, isGlob, MAX_PATTERN, type Matcher, mayMeet } from '../lib/glob.ts'
import { claimsOf } from './caller.ts'
import {
  type Claims,
  type Condition,
  conditionsHold,
  parseConditions,
  parseRule,
  ruleMatches,
  ruleMatchesName,
} from './rules.ts'
import { ancestry, bracketFault, defaultRules, reaches, tierOf } from './tiers.ts'
import { folderFault } from './values.ts'

export type { Claims } from './rules.ts'

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

export interface Verdict {
  allow: boolean
  /** One line for an operator: the row or rule that decided, or what is missing. */
  reason: string
}

/** A person, a service, or an agent as `folder:<path>`. */
export interface Asker {
  principal: string
  claims: Claims
}

/** A scope that is a glob asks for all of it: an allow must cover it whole, a deny that may touch it refuses. */
export interface Question {
  action: string
  scope: string
  params?: Claims
}

export interface ToolQuestion {
  tool: string
  scope: string
  params?: Claims
}

/** Compiled once, asked often. It does not follow later changes of the rows. */
export interface Policy {
  holdings(principal: string): Holdings
}

/** All that one principal has: itself and its roles, and their rows by action. */
interface Holdings {
  readonly principals: ReadonlySet<string>
  readonly byAction: ReadonlyMap<string, Held>
  /** Those of them whose action is a glob of tools, such as `mcp:issue_*`. */
  readonly toolGlobs: readonly ToolGlob[]
}

interface ToolGlob {
  readonly matches: Matcher
  readonly held: Held
}

/** Rows of one action, in the order of their text, so that the order in the store changes no reason. */
interface Held {
  readonly rows: Row[]
  readonly byScope: Map<string, Row[]>
  readonly globs: Row[]
}

interface Row {
  readonly principal: string
  readonly isWild: boolean
  readonly matches: Matcher
  readonly action: string
  readonly scope: string
  readonly inScope: Matcher
  readonly deny: boolean
  readonly params: readonly Condition[]
  readonly predicate: readonly Condition[]
  /** For reasons: `github:1 admin on team/**`. */
  readonly text: string
}

const OPERATOR = 'role:operator'
const EVERYTHING = '**'
const KNOWN_ACTION = /^(?:\*|admin|interact|assume|(?:hold:)?mcp:[A-Za-z0-9_.*]+)$/
const TOOL_GLOB = /^(?:hold:)?mcp:(?!\*$).*\*/
/** Anonymous visitors are principals too, and anyone can be a new one: so what is remembered of them has an end. */
const MAX_REMEMBERED = 4096

const DEFAULTS = ([0, 1, 2, 3] as const).map((tier) => defaultRules(tier).flatMap((text) => parseRule(text) ?? []))

export function compilePolicy(rows: readonly AclRow[], memberships: readonly Membership[]): Policy {
  const compiled = rows.map(compileRow).filter((row) => typeof row !== 'string')
  const wild = compiled.filter((row) => row.isWild)
  const plain = Map.groupBy(
    compiled.filter((row) => !row.isWild),
    (row) => row.principal,
  )
  const roles = rolesBySubject(memberships)
  const remembered = new Map<string, Holdings>()

  function gather(principal: string): Holdings {
    const principals = expand(roles, principal)
    const own = [...principals].flatMap((name) => plain.get(name) ?? [])
    const shared = wild.filter((row) => [...principals].some(row.matches))
    const byAction = index([...own, ...shared])
    return { principals, byAction, toolGlobs: [...byAction].flatMap(toolGlobOf) }
  }

  return {
    holdings(principal) {
      const known = remembered.get(principal)
      if (known) return known
      if (remembered.size >= MAX_REMEMBERED) remembered.clear()
      const holdings = gather(principal)
      remembered.set(principal, holdings)
      return holdings
    },
  }
}

/** No folder at all is everything (`INSTANCE`). */
function placeOf(scope: string): string {
  return scope === '' ? 'the instance' : scope
}

/** The acl rows alone: a deny wins, and without any row the answer is no. */
export function judge(policy: Policy, asker: Asker, question: Question): Verdict {
  const row = decide(policy.holdings(asker.principal), question, asker.claims)
  if (!row) return refused(`no row allows ${question.action} on ${placeOf(question.scope)}`)
  return row.deny ? refused(`denied by acl: ${row.text}`) : allowed(`allowed by acl: ${row.text}`)
}

/**
 * An agent's call (decisions A2 to A5): the bracket first, then the last matching of the tier's rules, the folder's
 * allow rows and its deny rows, in that order.
 */
export function judgeTool(policy: Policy, folder: string, question: ToolQuestion): Verdict {
  const { tool, scope, params = {} } = question
  const tier = tierOf(folder)
  const fault = bracketFault(tool, tier)
  if (fault) return refused(fault)
  const row = decideForAgent(policy, folder, { action: `mcp:${tool}`, scope, params })
  if (row) return { allow: !row.deny, reason: `${ruleText(row)} is the last matching rule: ${row.text}` }
  const rule = DEFAULTS[tier]?.findLast((candidate) => ruleMatches(candidate, tool, params))
  if (!rule) return refused(`no rule of tier ${tier} and no row allows ${tool} on ${placeOf(scope)}`)
  if (!reaches(folder, scope))
    return refused(`${placeOf(scope)} is out of the reach of ${folder}, and no row allows ${tool} there`)
  return { allow: !rule.deny, reason: `${rule.text} is the last matching rule: default of tier ${tier}` }
}

/** Decision A4: a tool is listed when something allows its name, somewhere and with some parameters. */
export function isToolListed(policy: Policy, folder: string, tool: string): boolean {
  const tier = tierOf(folder)
  if (bracketFault(tool, tier)) return false
  if (DEFAULTS[tier]?.some((rule) => !rule.deny && ruleMatchesName(rule, tool))) return true
  return agentRows(policy, folder, tool).some((row) => !row.deny)
}

/** The same with the rules that name the tool, which the agent is told. */
export function toolListing(policy: Policy, folder: string, tool: string): { listed: boolean; rules: string[] } {
  const defaults = (DEFAULTS[tierOf(folder)] ?? []).filter((rule) => ruleMatchesName(rule, tool))
  const rows = agentRows(policy, folder, tool)
  const granted = rows.filter((row) => !row.deny)
  const denied = rows.filter((row) => row.deny)
  const texts = [...defaults.map((rule) => rule.text), ...[...granted, ...denied].map(ruleText)]
  // The same rule from the tier and from a role is one rule to the agent that reads it.
  return { listed: isToolListed(policy, folder, tool), rules: [...new Set(texts)] }
}

/** Whether a row takes the tool away from an agent there; where none does, its own rules reach down (decision L4). */
export function isToolDenied(policy: Policy, folder: string, { tool, scope, params = {} }: ToolQuestion): boolean {
  return decideForAgent(policy, folder, { action: `mcp:${tool}`, scope, params })?.deny ?? false
}

/** Whether an operator must approve the call first. Such a row grants nothing, and one that denies it lifts it. */
export function awaitsApproval(policy: Policy, folder: string, { tool, scope, params = {} }: ToolQuestion): boolean {
  return decideForAgent(policy, folder, { action: `hold:mcp:${tool}`, scope, params })?.deny === false
}

/** What `toolListing` asks, for a person or a service: they have acl rows alone. */
export function isToolHeld(policy: Policy, { principal, claims }: Asker, tool: string): boolean {
  const rows = rowsOf(policy.holdings(principal), `mcp:${tool}`)
  return rows.some((row) => !row.deny && conditionsHold(row.predicate, claims))
}

/** A deny of a part narrows what an operator may do there, but only a deny of everything takes the standing away. */
export function isOperator(policy: Policy, principal: string): boolean {
  const held = policy.holdings(principal)
  const rows = rowsOf(held, 'admin').filter((row) => row.scope === EVERYTHING && holds(row, {}, {}))
  if (rows.some((row) => row.deny)) return false
  return held.principals.has(OPERATOR) || rows.length > 0
}

/** The scope globs that the asker administers, without those that a deny takes away whole. */
export function administered(policy: Policy, asker: Asker): string[] {
  const rows = rowsOf(policy.holdings(asker.principal), 'admin').filter((row) => holds(row, {}, asker.claims))
  const denied = rows.filter((row) => row.deny)
  const scopes = rows.filter((row) => !row.deny && !denied.some((deny) => covers(deny.scope, row.scope)))
  return [...new Set(scopes.map((row) => row.scope))].sort()
}

/** The way from the subject through the role back to itself, if adding this membership would close one. */
export function findCycle(memberships: readonly Membership[], added: Membership): string[] | undefined {
  const roles = rolesBySubject(memberships)
  const cameFrom = new Map([[added.role, added.subject]])
  for (const name of cameFrom.keys()) {
    if (name === added.subject) return wayTo(added, cameFrom)
    for (const role of roles.get(name) ?? []) if (!cameFrom.has(role)) cameFrom.set(role, name)
  }
  return undefined
}

/** Why this row can never match, in a sentence; such a row is left out of every verdict. */
export function deadRow(row: AclRow): string | undefined {
  const compiled = compileRow(row)
  return typeof compiled === 'string' ? compiled : undefined
}

/** The row, or the sentence that says why there is none. */
function compileRow(row: AclRow): Row | string {
  const { principal, action, scope, effect } = row
  const matches = principalMatcher(principal)
  if (!matches) return `the principal "${principal}" is neither ** nor namespace:name, such as github:42 or folder:team`
  if (!KNOWN_ACTION.test(action))
    return `the action "${action}" is none of *, admin, interact, assume, mcp:<tool> and hold:mcp:<tool>, where <tool> may hold *`
  const inScope = compileSegments(scope)
  if (!inScope) return `the scope "${scope}" is no path glob`
  if (scope.split('/').includes('')) return `the scope "${scope}" has an empty segment, and no folder has one`
  const alien = scope.split('/').find((segment) => !isGlob(segment) && folderFault(segment))
  if (alien !== undefined) return `the scope "${scope}" has the segment "${alien}", which no folder can have`
  if (effect !== 'allow' && effect !== 'deny') return `the effect "${String(effect)}" is neither allow nor deny`
  const params = plainConditions(row.params)
  if (!params) return `the params "${row.params}" are no comma list of name or name=glob`
  const predicate = plainConditions(row.predicate)
  if (!predicate) return `the predicate "${row.predicate}" is no comma list of name or name=glob`
  const text = `${principal} ${action}${inParentheses(params)} on ${scope}${inParentheses(predicate, ' if ')}`
  const isWild = isGlob(principal)
  return { principal, isWild, matches, action, scope, inScope, deny: effect === 'deny', params, predicate, text }
}

/** Acl rows have no negation: what a row leaves open is left open by leaving it out. */
function plainConditions(list: string): Condition[] | undefined {
  const conditions = parseConditions(list)
  return conditions?.some((condition) => condition.negated) ? undefined : conditions
}

function inParentheses(conditions: readonly Condition[], before = ''): string {
  return conditions.length === 0 ? '' : `${before}(${conditions.map((condition) => condition.text).join(',')})`
}

/** Split at the first colon: one segment of namespace, then a path. */
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

function rolesBySubject(memberships: readonly Membership[]): Map<string, string[]> {
  const roles = new Map<string, string[]>()
  for (const { subject, role } of memberships) {
    const known = roles.get(subject)
    if (known) known.push(role)
    else roles.set(subject, [role])
  }
  return roles
}

/** A set may grow while it is walked, and holds each name once: so a cycle that slipped into the store ends too. */
function expand(roles: ReadonlyMap<string, readonly string[]>, principal: string): Set<string> {
  const names = new Set([principal])
  for (const name of names) for (const role of roles.get(name) ?? []) names.add(role)
  return names
}

function wayTo(added: Membership, cameFrom: ReadonlyMap<string, string>): string[] {
  const way = [added.subject]
  let name = cameFrom.get(added.subject)
  while (name !== undefined && name !== added.subject) {
    way.unshift(name)
    name = cameFrom.get(name)
  }
  return [added.subject, ...way]
}

function index(rows: readonly Row[]): Map<string, Held> {
  const byAction = new Map<string, Held>()
  const sorted = [...rows].sort((a, b) => (a.text < b.text ? -1 : 1))
  for (const [action, ofAction] of Map.groupBy(sorted, (row) => row.action)) {
    const named = ofAction.filter((row) => isNamed(row.scope))
    const globs = ofAction.filter((row) => !isNamed(row.scope))
    byAction.set(action, { rows: ofAction, byScope: Map.groupBy(named, (row) => row.scope), globs })
  }
  return byAction
}

/** A folder, a folder's subtree, or everything: nearly all scopes are one of these. */
function isNamed(scope: string): boolean {
  return scope === EVERYTHING || !isGlob(scope.replace(/\/\*\*$/, ''))
}

/** The lattice, read upwards: the actions of a row that contain the one asked for. */
function actionsAbove(action: string): readonly string[] {
  // To hold is no right: whoever may do everything is not held in everything.
  if (action.startsWith('hold:')) return [action, 'hold:mcp:*']
  if (action === 'mcp:*') return ['mcp:*', 'admin', '*']
  if (action.startsWith('mcp:')) return [action, 'mcp:*', 'admin', '*']
  if (action === 'interact') return ['interact', 'admin', '*']
  return action === '*' ? ['*'] : [action, '*']
}

/** `mcp:*` is part of the lattice itself and needs no matching. */
function toolGlobOf([action, held]: readonly [string, Held]): ToolGlob[] {
  const matches = TOOL_GLOB.test(action) ? compileText(action) : undefined
  return matches ? [{ matches, held }] : []
}

/** The rows of this action: under its name, under one that contains it, or under a glob. */
function heldOf({ byAction, toolGlobs }: Holdings, action: string): Held[] {
  const found: Held[] = []
  for (const above of actionsAbove(action)) {
    const held = byAction.get(above)
    if (held) found.push(held)
  }
  for (const { matches, held } of toolGlobs) if (!found.includes(held) && matches(action)) found.push(held)
  return found
}

/** The row that decides: a deny if one applies, else an allow. */
function decide(holdings: Holdings, question: Question, claims: Claims): Row | undefined {
  const { action, scope, params = {} } = question
  const find = isGlob(scope) ? rowsOnAll(scope) : rowsOnOne(scope)
  let found: Row | undefined
  for (const held of heldOf(holdings, action)) {
    for (const row of find(held)) {
      if ((found && !row.deny) || !holds(row, params, claims)) continue
      if (row.deny) return row
      found = row
    }
  }
  return found
}

/** A folder is named by its own text and by the subtrees around it: looked up, those need no matching. */
function rowsOnOne(scope: string): (held: Held) => readonly Row[] {
  const around = ancestry(scope).filter((folder) => folder.length < MAX_PATTERN)
  const names = [scope, EVERYTHING, ...around.map((folder) => `${folder}/**`)]
  return (held) => {
    // The empty scope is the instance and no folder: a `*` for all top-level folders must not cover it.
    const rows = scope === '' ? [] : held.globs.filter((row) => row.inScope(scope))
    for (const name of names) {
      const named = held.byScope.get(name)
      if (named) rows.push(...named)
    }
    return rows
  }
}

function rowsOnAll(glob: string): (held: Held) => readonly Row[] {
  return (held) => held.rows.filter((row) => (row.deny ? mayMeet(row.scope, glob) : covers(row.scope, glob)))
}

function holds(row: Row, params: Claims, claims: Claims): boolean {
  return conditionsHold(row.params, params) && conditionsHold(row.predicate, claims)
}

/** All rows whose action is or contains this one, in the order of their text. */
function rowsOf(held: Holdings, action: string): Row[] {
  const rows = heldOf(held, action).flatMap((of) => of.rows)
  return rows.sort((a, b) => (a.text < b.text ? -1 : 1))
}

function agentHoldings(policy: Policy, folder: string): Holdings {
  return policy.holdings(`folder:${folder}`)
}

function decideForAgent(policy: Policy, folder: string, question: Question): Row | undefined {
  const held = agentHoldings(policy, folder)
  // Most folders have nothing but the rules of their tier.
  return held.byAction.size === 0 ? undefined : decide(held, question, claimsOf({ kind: 'agent', folder }))
}

/** The rows of a folder that name the tool. */
function agentRows(policy: Policy, folder: string, tool: string): Row[] {
  const held = agentHoldings(policy, folder)
  if (held.byAction.size === 0) return []
  const claims = claimsOf({ kind: 'agent', folder })
  return rowsOf(held, `mcp:${tool}`).filter((row) => conditionsHold(row.predicate, claims))
}

/** An acl row in the rule grammar. */
function ruleText(row: Row): string {
  const name = row.action.startsWith('mcp:') ? row.action.slice('mcp:'.length) : '*'
  return `${row.deny ? '!' : ''}${name}${inParentheses(row.params)}`
}

function allowed(reason: string): Verdict {
  return { allow: true, reason }
}

function refused(reason: string): Verdict {
  return { allow: false, reason }
}
