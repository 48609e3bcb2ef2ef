// Access to chats: an agent needs the tool on its own folder, and the chat must be within its reach. See
// docs/decisions.md#containment.
import { isToolDenied, needsApproval } from '../core/access/policy.ts'
import { mayReachFolder, type ToolTiers } from '../core/access/tiers.ts'
import { routeTokens } from '../core/links/route-tokens.ts'
import { isOtherVisitorChat, isVisitorChat } from '../core/links/visitor-chats.ts'
import { findChatFolder, hasRouteInto } from '../core/routing/chat-folder.ts'
import { findLiveEngagement } from '../core/routing/engagements.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { hasTool, INSTANCE_SCOPE, mustHaveTool } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'

/** `authorize` of a tool that names a chat. Rules match the chat as `jid`, whatever the argument is called. */
export function requireChatAccess<I>(jidOf: (input: I) => string) {
  return async (ctx: Context, input: I): Promise<void> => mustReachChat(ctx, jidOf(input))
}

export async function mustReachChat(ctx: Context, jid: string): Promise<void> {
  const { caller, tool } = ctx
  const params = { ...ctx.params, jid }
  const owner = await findChatFolder(ctx.tx, jid, ctx.routes)
  if (caller.kind !== 'agent') return mustHaveTool({ ...ctx, params }, owner ?? INSTANCE_SCOPE)
  await mustHaveTool({ ...ctx, params }, caller.folder)
  if (!(await isInTurn(ctx, jid)))
    refuse('forbidden', `${tool}: not permitted in ${jid}, because visitors may use it only in their own chat`)
  if (owner !== undefined && isToolDenied(await ctx.policy(), caller.folder, { tool, scope: owner, params }))
    refuse('forbidden', `${tool}: not permitted in ${jid}`)
  if (await isInReach(ctx, caller.folder, jid, owner)) return
  refuse(
    'forbidden',
    owner === undefined
      ? `${tool}: the chat ${jid} has no route in this instance`
      : `${tool}: the chat ${jid} belongs to a folder outside ${caller.folder}`,
  )
}

/** A delegated or `/root` turn answers in another folder's chat and must not change who owns it. */
export async function mustNotBeGuestTurn(ctx: Context): Promise<void> {
  const turn = await ctx.turn()
  if (turn?.is_guest)
    refuse('forbidden', `${ctx.tool}: not permitted in a turn that answers in a chat of another folder`)
}

/** As the tool `send` declares them. */
export const SEND_TIERS: ToolTiers = { granted: 2 }

/** Why the caller may not send messages to a chat; undefined if they may. With a folder, its agent outside of a turn. */
export async function findSendFault(ctx: Context, jid: string, folder?: string): Promise<string | undefined> {
  const params = { chatJid: jid, jid }
  const asAgent = {
    caller: { kind: 'agent', folder: folder ?? '' },
    reach: 'work',
    turn: async () => undefined,
  } as const
  const sending = { ...ctx, tool: 'send', tiers: SEND_TIERS, params, ...(folder === undefined ? {} : asAgent) }
  try {
    await mustReachChat(sending, jid)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'forbidden') return error.message
    throw error
  }
  const isHeld =
    folder !== undefined && needsApproval(await ctx.policy(), folder, { tool: 'send', scope: folder, params })
  return isHeld ? 'send: held until an operator approves it' : undefined
}

/** Whether the caller may read a message of the chat in order to relay it elsewhere. */
export async function canReachChat(ctx: Context, jid: string): Promise<boolean> {
  const owner = await findChatFolder(ctx.tx, jid, ctx.routes)
  const { caller } = ctx
  return caller.kind === 'agent' ? isInReach(ctx, caller.folder, jid, owner) : hasTool(ctx, owner ?? INSTANCE_SCOPE)
}

/** A turn of reach `chat` may use only its own chat. */
async function isInTurn(ctx: Context, jid: string): Promise<boolean> {
  if (ctx.reach === 'chat') return (await ctx.turn())?.jid === jid
  return !(await otherVisitors(ctx))(jid)
}

/** Which chats are of other visitors than the one of this turn. With reach `all` a turn sees them. */
export async function otherVisitors(ctx: Context): Promise<(jid: string) => boolean> {
  if (ctx.reach === 'all') return () => false
  const own = (await ctx.turn())?.jid
  return (jid) => isOtherVisitorChat(own, jid)
}

/** For messages to a chat: that of a link which keeps visitors apart has no readers. */
export async function mustHaveReaders(ctx: Context, jid: string): Promise<void> {
  if (!jid.startsWith('web:') || isVisitorChat(jid) || (await ctx.turn())?.jid === jid) return
  if ((await routeTokens.find(ctx.tx, { jid }))?.visitors !== 'apart') return
  refuse(
    'conflict',
    `nobody could read a message in ${jid}, because its link keeps visitors apart`,
    `name the chat of one visitor, ${jid}~…, as in the messages of the visitor`,
  )
}

async function isInReach(ctx: Context, folder: string, jid: string, owner: string | undefined): Promise<boolean> {
  if (!(await isInTurn(ctx, jid))) return false
  if (owner !== undefined && mayReachFolder(folder, owner)) return true
  if (mayReachFolder(folder, INSTANCE_SCOPE)) return true
  // A delegated turn answers in the chat of another folder.
  if ((await ctx.turn())?.jid === jid) return true
  return hasRouteInto(ctx.tx, jid, folder, ctx.routes)
}

interface ConversationOwner {
  readonly isOwn: boolean
  readonly engaged: string | undefined
  /** Undefined for a chat without a route. */
  readonly owner: string | undefined
}

/** Who owns a conversation: the folder that is engaged in it, or the one that the chat is routed to, which may take it back. */
export async function findConversationOwner(
  ctx: Context,
  { jid, topic, folder }: { readonly jid: string; readonly topic: string; readonly folder: string },
): Promise<ConversationOwner> {
  const engaged = await findLiveEngagement(ctx.tx, jid, topic, ctx.clock.now())
  const home = await findChatFolder(ctx.tx, jid, ctx.routes)
  const owner = engaged ?? home
  // A chat without a route belongs to the folder whose turn answers in it.
  const isOwn = owner === undefined ? (await ctx.turn())?.jid === jid : engaged === folder || home === folder
  return { isOwn, engaged, owner }
}
