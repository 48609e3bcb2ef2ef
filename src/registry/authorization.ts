// Access checks for the `authorize` functions of verbs. All of them use the evaluator in core/access/policy.ts.
import { type Caller, claimsOf, principalOf } from '../core/access/caller.ts'
import {
  type AccessDecision,
  type AccessSubject,
  administeredScopes,
  checkAccess,
  checkToolAccess,
  isOperator,
  isRestrictedWithin,
  isToolDenied,
  isToolGranted,
} from '../core/access/policy.ts'
import { mayReachFolder, ROOT_FOLDER } from '../core/access/tiers.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { compileSegments, isGlob } from '../lib/text/glob.ts'
import type { Context } from './context.ts'

/** The scope of the whole instance. It is not a folder, so only `**` covers it. */
export const INSTANCE_SCOPE = ''

/** A query over more subtrees than this is not faster than one over all rows. */
const MAX_ROOTS = 50

/** `authorize` is required, so an open verb has to name this explicitly. */
export function allowAnyone(): void {}

/** Only for callers with access to the data directory; bearers and tool sockets are refused. */
export function requireHost(ctx: Context): void {
  if (ctx.caller.kind !== 'host') refuse('forbidden', `${ctx.tool} is for the command line on the host`)
}

/** What decides which folders a caller administers. */
export type AdministrationContext = Pick<Context, 'caller' | 'tool' | 'params' | 'policy'>

type Check<I> = (ctx: Context, input: I) => boolean | Promise<boolean>

/** An `authorize` function for operators; the mark lets a test require a row for each such verb. */
export interface OperatorRule<I> {
  (ctx: Context, input: I): Promise<void>
  readonly isForOperators: true
}

/** The command line, and on pages of the dashboard a person who passes the check. All other faces are refused. */
export function operatorWho<I>(isAllowed: Check<I>): OperatorRule<I> {
  const authorize = async (ctx: Context, input: I): Promise<void> => {
    if (ctx.caller.kind === 'host') return
    if (!isAtDashboard(ctx)) requireHost(ctx)
    // One text for all reasons: it must not reveal to which folder a row belongs, nor whether there is one.
    if (!(await isAllowed(ctx, input)))
      refuse('forbidden', `${ctx.tool}: not permitted: you do not administer this, or it does not exist`)
  }
  return Object.assign(authorize, { isForOperators: true } as const)
}

/** See docs/decisions.md#dashboard-rights. `folderOf` may look a row up; INSTANCE_SCOPE needs an operator. */
export function operatorOn<I>(folderOf: (input: I, ctx: Context) => string | Promise<string>): OperatorRule<I> {
  return operatorWho(async (ctx, input) => canOperate(ctx, await folderOf(input, ctx)))
}

export const requireOperator = operatorOn(() => INSTANCE_SCOPE)

/** For verbs that change who has which rights: an operator from whom a row takes something could get it back with them. */
export const requireUnrestrictedOperator = operatorWho((ctx) => canOperateUnrestricted(ctx, '**'))

/** Whether the person is an operator from whom no row takes anything within the scope. */
export async function canOperateUnrestricted(ctx: Context, scope: string): Promise<boolean> {
  if (!(await canOperate(ctx, INSTANCE_SCOPE))) return false
  return !isRestrictedWithin(await ctx.policy(), subjectOf(ctx.caller), scope)
}

/** Whether the person administers the folder; for the instance, whether they are an operator. */
export async function canOperate(ctx: AdministrationContext, folder: string): Promise<boolean> {
  if (folder === INSTANCE_SCOPE && !isOperator(await ctx.policy(), principalOf(ctx.caller))) return false
  return isAdmin(ctx, folder)
}

/** Whether the call is one of the command line or of an operator. */
export async function isByOperator(ctx: AdministrationContext): Promise<boolean> {
  return ctx.caller.kind === 'host' || (await canOperate(ctx, INSTANCE_SCOPE))
}

/** The face `dash` is set only after a session was authenticated. */
function isAtDashboard({ caller, face }: Context): boolean {
  return face === 'dash' && caller.kind === 'person' && caller.session !== undefined
}

/** The caller must have this verb's tool on the scope, by rule (an agent) or by acl row (a person). */
export function requireTool<I>(scopeOf: (input: I) => string) {
  return (ctx: Context, input: I): Promise<void> => mustHaveTool(ctx, scopeOf(input))
}

/** The caller must have the tool on the whole instance. */
export const requireInstanceTool = requireTool(() => INSTANCE_SCOPE)

/** The caller must have the tool on the folder that it acts from. */
export async function requireToolOnOwnFolder(ctx: Context): Promise<void> {
  await mustHaveTool(ctx, await actingFolder(ctx))
}

/** For lists that are filtered by caller: an agent needs the tool, a person only has to be signed in. */
export async function requireToolForAgents(ctx: Context): Promise<void> {
  if (ctx.caller.kind === 'agent') await mustHaveTool(ctx, ctx.caller.folder)
}

export async function mustHaveTool(ctx: Context, scope: string): Promise<void> {
  const { allow, reason } = (await createAccessCheck(ctx))(scope)
  if (!allow) refuse('forbidden', `${ctx.tool}: not permitted${scope ? ` on ${scope}` : ''} (${reason})`)
}

/** Answered like a row that does not exist. The audit log has the denial. */
export class HiddenRowRefusal extends Refusal {
  readonly denial: string

  constructor(missing: string, denial: string) {
    super('not_found', missing)
    this.name = 'HiddenRowRefusal'
    this.denial = denial
  }
}

export interface RowLabels {
  /** Names the row in errors: `task 5`. */
  readonly label: string
  /** The error if the row does not exist; default: `there is no <label>`. */
  readonly missing?: string
}

/**
 * Like `mustHaveTool` for a row that is named by its key; `scope` is its folder, or undefined if there is no row. A row that the
 * caller cannot list is answered like a missing one. The error does not reveal the folder.
 */
export async function mustHaveToolForRow(
  ctx: Context,
  scope: string | undefined,
  { label, missing = `there is no ${label}` }: RowLabels,
): Promise<void> {
  if (scope !== undefined && (await hasTool(ctx, scope))) return
  // An agent without the tool on its own folder gets the ordinary reason.
  if (ctx.caller.kind === 'agent') await mustHaveTool(ctx, ctx.caller.folder)
  if (scope === undefined) refuse('not_found', missing)
  const denial = `${ctx.tool}: not permitted on ${label}`
  // Lists have other arguments, which rules may match.
  const isListed = await isAdmin({ ...ctx, tool: ctx.listTool, params: {} }, scope)
  throw isListed ? new Refusal('forbidden', denial) : new HiddenRowRefusal(missing, denial)
}

export async function hasTool(ctx: Context, scope: string): Promise<boolean> {
  return (await createAccessCheck(ctx))(scope).allow
}

async function createAccessCheck(ctx: Context): Promise<(scope: string) => AccessDecision> {
  const { caller, tool, tiers, params } = ctx
  if (caller.kind === 'host') return () => ({ allow: true, reason: 'the host may' })
  const policy = await ctx.policy()
  if (caller.kind === 'agent') return (scope) => checkToolAccess(policy, caller.folder, { tool, tiers, scope, params })
  const subject = subjectOf(caller)
  return (scope) => checkAccess(policy, subject, { action: `mcp:${tool}`, scope, params })
}

export function subjectOf(caller: Caller): AccessSubject {
  return { principal: principalOf(caller), claims: claimsOf(caller) }
}

/** Whether the caller administers the folder, or every folder that a glob matches. */
export async function isAdmin(ctx: AdministrationContext, folder: string): Promise<boolean> {
  return (await adminFilter(ctx))(folder)
}

/**
 * The folders that the caller may administer with this tool. An agent with the tool administers its own subtree (see
 * docs/decisions.md#listing-links), except where a row denies the tool.
 */
export async function adminFilter(ctx: AdministrationContext): Promise<(folder: string) => boolean> {
  const { caller, tool, params } = ctx
  if (caller.kind === 'host') return () => true
  const policy = await ctx.policy()
  const subject = subjectOf(caller)
  return memoize((folder) => {
    if (caller.kind === 'agent')
      return (
        mayReachFolder(caller.folder, folder) && !isToolDenied(policy, caller.folder, { tool, scope: folder, params })
      )
    return ['admin', `mcp:${tool}`].every(
      (action) => checkAccess(policy, subject, { action, scope: folder, params }).allow,
    )
  })
}

/**
 * For tables that also have rows of the instance. A caller with the tool on the instance reads those and every folder that no
 * row denies; other callers read the folders that they administer.
 */
export async function readableFolderFilter(ctx: Context): Promise<(folder: string) => boolean> {
  const [check, mayAdmin] = [await createAccessCheck(ctx), await adminFilter(ctx)]
  if (!check(INSTANCE_SCOPE).allow) return (folder) => folder !== INSTANCE_SCOPE && mayAdmin(folder)
  return memoize((folder) => check(folder).allow)
}

function memoize(isAllowed: (folder: string) => boolean): (folder: string) => boolean {
  const cache = new Map<string, boolean>()
  return (folder) => {
    const result = cache.get(folder) ?? isAllowed(folder)
    cache.set(folder, result)
    return result
  }
}

/** Roots of the subtrees that contain every folder the caller administers; undefined if that can be any folder. */
export async function administeredRoots(ctx: AdministrationContext): Promise<string[] | undefined> {
  const { caller } = ctx
  if (caller.kind === 'host') return undefined
  if (caller.kind === 'agent') return mayReachFolder(caller.folder, INSTANCE_SCOPE) ? undefined : [caller.folder]
  return rootsOf(administeredScopes(await ctx.policy(), subjectOf(caller)))
}

/** Roots of the subtrees that contain every folder of these globs; undefined if that can be any folder. */
export function rootsOf(globs: readonly string[]): string[] | undefined {
  const roots = new Set(globs.map(globBase))
  return roots.has('') || roots.size > MAX_ROOTS ? undefined : [...roots]
}

/** The part of a folder glob before its first segment with a wildcard. */
export function globBase(glob: string): string {
  const segments = glob.split('/')
  const wild = segments.findIndex((segment) => /[*?[\\]/.test(segment))
  return (wild < 0 ? segments : segments.slice(0, wild)).join('/')
}

/**
 * The folder that the caller acts from: for a person with several, the deepest one that covers `target`. See
 * docs/decisions.md#minting-links.
 */
export async function actingFolder(ctx: Context, target?: string): Promise<string> {
  const { caller } = ctx
  if (caller.kind === 'agent') return caller.folder
  if (caller.kind === 'host') return ROOT_FOLDER
  if (caller.kind === 'person' && caller.folder !== undefined) return caller.folder
  const policy = await ctx.policy()
  if (isOperator(policy, principalOf(caller))) return ROOT_FOLDER
  const scopes = administeredScopes(policy, subjectOf(caller))
  const folders = [...new Set(scopes.map((scope) => scope.replace(/\/\*\*$/, '')))]
  const [only] = folders
  if (folders.length === 1 && only !== undefined && !isGlob(only)) return only
  if (folders.length === 0 && !isToolGranted(policy, subjectOf(caller), ctx.tool))
    return refuse('forbidden', `${ctx.tool}: not permitted: no row allows it, and you administer no folder`)
  if (folders.length === 0)
    return refuse(
      'invalid',
      'you administer no folder',
      'ask for a bearer of one folder: svc bearer <instance> <sub> --folder <folder>',
    )
  if (target === undefined)
    return refuse(
      'invalid',
      'you administer several folders and your bearer names none of them',
      'name target_folder, or ask for a bearer of one folder: svc bearer <instance> <sub> --folder <folder>',
    )
  return deepestCovering(target, folders) ?? refuse('forbidden', `${ctx.tool}: you do not administer ${target}`)
}

/** The deepest of the folders that is the target or above it; a glob that matches the target counts as the target. */
function deepestCovering(target: string, folders: readonly string[]): string | undefined {
  const covering = folders.flatMap((folder) => {
    if (isGlob(folder)) return compileSegments(folder)?.(target) ? [target] : []
    return mayReachFolder(folder, target) ? [folder] : []
  })
  // The root is above every folder, whatever its name.
  const depth = (folder: string): number => (folder === ROOT_FOLDER ? 0 : folder.length)
  return covering.sort((a, b) => depth(b) - depth(a))[0]
}

/** Whether the caller administers every folder that the glob matches. */
export async function canAdministerGlob(ctx: Context, glob: string): Promise<boolean> {
  const { caller } = ctx
  if (caller.kind === 'agent' && !mayReachFolder(caller.folder, globBase(glob))) return false
  return isAdmin(ctx, glob)
}
