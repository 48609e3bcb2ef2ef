// Who may speak in, act on or read a chat: the tool must be granted at home, and the chat within reach (decision A5).
import { isToolDenied } from '../core/access/policy.ts'
import { mayReachFolder } from '../core/access/tiers.ts'
import { findChatFolder, hasRouteInto } from '../core/routing/chat-folder.ts'
import { refuse } from '../lib/refusal.ts'
import { hasTool, INSTANCE_SCOPE, mustHaveTool } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'

/** `needs` of a tool that names a chat. Rules see it as `jid`, whatever the argument is called. */
export function requireChatAccess<I>(jidOf: (input: I) => string) {
  return async (ctx: Context, input: I): Promise<void> => mustReachChat(ctx, jidOf(input))
}

export async function mustReachChat(ctx: Context, jid: string): Promise<void> {
  const { caller, tool } = ctx
  const about: Context = { ...ctx, params: { ...ctx.params, jid } }
  const owner = await findChatFolder(ctx.tx, jid, ctx.routes)
  if (caller.kind !== 'agent') return mustHaveTool(about, owner ?? INSTANCE_SCOPE)
  await mustHaveTool(about, caller.folder)
  if (!(await isInTurn(ctx, jid)))
    refuse('forbidden', `${tool}: not permitted in ${jid}, because visitors may use it in their own chat alone`)
  if (
    owner !== undefined &&
    isToolDenied(await ctx.policy(), caller.folder, { tool, scope: owner, params: about.params })
  )
    refuse('forbidden', `${tool}: not permitted in ${jid}`)
  if (await isInReach(ctx, caller.folder, jid, owner)) return
  refuse(
    'forbidden',
    owner === undefined
      ? `${tool}: the chat ${jid} has no route in this instance`
      : `${tool}: the chat ${jid} belongs to a folder outside ${caller.folder}`,
  )
}

/** A turn that answers in another folder's chat, delegated or asked for with `/root`, takes nothing over there. */
export async function mustNotBeGuestTurn(ctx: Context): Promise<void> {
  const turn = await ctx.turn()
  if (turn?.is_guest)
    refuse('forbidden', `${ctx.tool}: not permitted in a turn that answers in a chat of another folder`)
}

/** Whether what was said in the chat may be taken from it, whatever the rules say of the chat that it goes to. */
export async function canReachChat(ctx: Context, jid: string): Promise<boolean> {
  const owner = await findChatFolder(ctx.tx, jid, ctx.routes)
  const { caller } = ctx
  return caller.kind === 'agent' ? isInReach(ctx, caller.folder, jid, owner) : hasTool(ctx, owner ?? INSTANCE_SCOPE)
}

/** Whether an agent may have to do with the chat, whatever the tool. */
export async function isChatInReach(ctx: Context, jid: string): Promise<boolean> {
  const { caller } = ctx
  if (caller.kind !== 'agent') return true
  return isInReach(ctx, caller.folder, jid, await findChatFolder(ctx.tx, jid, ctx.routes))
}

/** A turn of reach `chat` has to do with its own chat and no other. */
async function isInTurn(ctx: Context, jid: string): Promise<boolean> {
  return ctx.reach !== 'chat' || (await ctx.turn())?.jid === jid
}

async function isInReach(ctx: Context, folder: string, jid: string, owner: string | undefined): Promise<boolean> {
  if (!(await isInTurn(ctx, jid))) return false
  if (owner !== undefined && mayReachFolder(folder, owner)) return true
  if (mayReachFolder(folder, INSTANCE_SCOPE)) return true
  // Whoever is asked may answer: a delegated question comes from a chat of another folder.
  if ((await ctx.turn())?.jid === jid) return true
  return hasRouteInto(ctx.tx, jid, folder, ctx.routes)
}
