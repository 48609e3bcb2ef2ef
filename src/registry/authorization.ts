// Who may: the answers that `needs` is made of. One evaluator stands behind all of them.

import { claimsOf, principalOf } from '../core/access/caller.ts'
import {
  type AccessDecision,
  administeredScopes,
  checkAccess,
  checkToolAccess,
  isOperator,
  isToolDenied,
} from '../core/access/policy.ts'
import { mayReachFolder, ROOT_FOLDER } from '../core/access/tiers.ts'
import { refuse } from '../lib/refusal.ts'
import { compileSegments, isGlob } from '../lib/text/glob.ts'
import type { Context } from './context.ts'

/** The scope of what belongs to the whole instance: no folder, so only `**` covers it. */
export const INSTANCE_SCOPE = ''

/** A query over more subtrees than this is no faster than one over everything. */
const MAX_BASES = 50

/** Written out, so that nobody gets there by forgetting. */
export function allowAnyone(): void {}

/** Only whoever has the data directory: no bearer and no socket reaches this verb. */
export function hostOnly(ctx: Context): void {
  if (ctx.caller.kind !== 'host') refuse('forbidden', `${ctx.tool} is for the command line on the host`)
}

/** The caller holds this verb's tool on the scope, by rule (an agent) or by acl row (a person). */
export function requireTool<I>(scopeOf: (input: I, ctx: Context) => string) {
  return (ctx: Context, input: I): Promise<void> => mustHaveTool(ctx, scopeOf(input, ctx))
}

/** For lists that show each caller its own: an agent needs the tool, a person only a name; the list's filter does the rest. */
export async function requireToolForAgents(ctx: Context): Promise<void> {
  if (ctx.caller.kind === 'agent') await mustHaveTool(ctx, ctx.caller.folder)
}

export async function mustHaveTool(ctx: Context, scope: string): Promise<void> {
  const verdict = await verdictOf(ctx, scope)
  if (!verdict.allow)
    refuse('forbidden', `${ctx.tool}: not permitted${scope ? ` on ${scope}` : ''} (${verdict.reason})`)
}

/**
 * The same for the folder of a row that the caller named by its key. Whose row it is, is told to nobody who may not use
 * it: else anyone with a bearer could read off folder by folder what is where.
 */
export async function mustHaveToolOver(ctx: Context, scope: string, what: string): Promise<void> {
  if (await hasTool(ctx, scope)) return
  // What an agent has not even at home is refused for what it is.
  if (ctx.caller.kind === 'agent') await mustHaveTool(ctx, ctx.caller.folder)
  refuse('forbidden', `${ctx.tool}: not permitted on ${what}`)
}

export async function hasTool(ctx: Context, scope: string): Promise<boolean> {
  return (await verdictOf(ctx, scope)).allow
}

async function verdictOf(ctx: Context, scope: string): Promise<AccessDecision> {
  return (await verdicts(ctx))(scope)
}

async function verdicts(ctx: Context): Promise<(scope: string) => AccessDecision> {
  const { caller, tool, tiers, params } = ctx
  if (caller.kind === 'host') return () => ({ allow: true, reason: 'the host may' })
  const policy = await ctx.policy()
  if (caller.kind === 'agent') return (scope) => checkToolAccess(policy, caller.folder, { tool, tiers, scope, params })
  const asker = { principal: principalOf(caller), claims: claimsOf(caller) }
  return (scope) => checkAccess(policy, asker, { action: `mcp:${tool}`, scope, params })
}

/** `admin` on the folder, or on all that a folder glob names. */
export async function isAdmin(ctx: Context, folder: string): Promise<boolean> {
  return (await adminFilter(ctx))(folder)
}

/**
 * The folders that the caller may administer with this tool, judged once per folder. Once a tool is granted, a folder is
 * admin of itself and of what lies below it (decision L4), but a row that denies the tool there still wins.
 */
export async function adminFilter(ctx: Context): Promise<(folder: string) => boolean> {
  const { caller, tool, params } = ctx
  if (caller.kind === 'host') return () => true
  const policy = await ctx.policy()
  const asker = { principal: principalOf(caller), claims: claimsOf(caller) }
  const judged = (folder: string): boolean => {
    if (caller.kind === 'agent')
      return (
        mayReachFolder(caller.folder, folder) && !isToolDenied(policy, caller.folder, { tool, scope: folder, params })
      )
    return ['admin', `mcp:${tool}`].every(
      (action) => checkAccess(policy, asker, { action, scope: folder, params }).allow,
    )
  }
  return memoized(judged)
}

/**
 * The folders whose rows the caller may read where rows can be the instance's too: what they administer, and whoever has
 * the tool everywhere all but what a row denies. The instance's own rows are for the latter.
 */
export async function readableFolderFilter(ctx: Context): Promise<(folder: string) => boolean> {
  const [verdict, mayAdmin] = [await verdicts(ctx), await adminFilter(ctx)]
  if (!verdict(INSTANCE_SCOPE).allow) return (folder) => folder !== INSTANCE_SCOPE && mayAdmin(folder)
  return memoized((folder) => verdict(folder).allow)
}

function memoized(judged: (folder: string) => boolean): (folder: string) => boolean {
  const known = new Map<string, boolean>()
  return (folder) => {
    const verdict = known.get(folder) ?? judged(folder)
    known.set(folder, verdict)
    return verdict
  }
}

/** Folders that hold, with what lies below them, all that the caller administers; nothing when that can be anywhere. */
export async function administeredRoots(ctx: Context): Promise<string[] | undefined> {
  const { caller } = ctx
  if (caller.kind === 'host') return undefined
  if (caller.kind === 'agent') return mayReachFolder(caller.folder, INSTANCE_SCOPE) ? undefined : [caller.folder]
  const scopes = administeredScopes(await ctx.policy(), { principal: principalOf(caller), claims: claimsOf(caller) })
  const bases = new Set(scopes.map(globBase))
  return bases.has('') || bases.size > MAX_BASES ? undefined : [...bases]
}

/** The folder that all matches of a glob lie in or below: everything before the first segment with a wildcard. */
export function globBase(glob: string): string {
  const segments = glob.split('/')
  const wild = segments.findIndex((segment) => /[*?[\\]/.test(segment))
  return (wild < 0 ? segments : segments.slice(0, wild)).join('/')
}

/**
 * The folder that a caller acts from (decision L2). Of several that a person administers, it is the deepest that covers
 * `target`.
 */
export async function actingFolder(ctx: Context, target?: string): Promise<string> {
  const { caller } = ctx
  if (caller.kind === 'agent') return caller.folder
  if (caller.kind === 'host') return 'main'
  if (caller.kind === 'person' && caller.folder !== undefined) return caller.folder
  const policy = await ctx.policy()
  if (isOperator(policy, principalOf(caller))) return 'main'
  const scopes = administeredScopes(policy, { principal: principalOf(caller), claims: claimsOf(caller) })
  const folders = [...new Set(scopes.map((scope) => scope.replace(/\/\*\*$/, '')))]
  const [only] = folders
  if (folders.length === 1 && only !== undefined && !isGlob(only)) return only
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
  return deepestAround(target, folders) ?? refuse('forbidden', `${ctx.tool}: you do not administer ${target}`)
}

/** Of folders and folder globs, the deepest that the target is or lies below; a glob that matches it means the target. */
function deepestAround(target: string, folders: readonly string[]): string | undefined {
  const around = folders.flatMap((folder) => {
    if (isGlob(folder)) return compileSegments(folder)?.(target) ? [target] : []
    return mayReachFolder(folder, target) ? [folder] : []
  })
  // The root is above every folder, whatever its name.
  const depth = (folder: string): number => (folder === ROOT_FOLDER ? 0 : folder.length)
  return around.sort((a, b) => depth(b) - depth(a))[0]
}

/** Whether the caller's authority covers everything that a folder glob names. */
export async function canAdministerGlob(ctx: Context, glob: string): Promise<boolean> {
  const { caller } = ctx
  if (caller.kind === 'agent' && !mayReachFolder(caller.folder, globBase(glob))) return false
  return isAdmin(ctx, glob)
}
