// Who may start a direct chat with an account of a platform, before its routes count. See docs/decisions.md#direct-chats.
import type { Tx } from '../../store/engine.ts'
import { hasGrant } from '../access/policy.ts'
import { platformOf } from '../delivery/channel.ts'
import { channelAccounts } from '../delivery/channel-accounts.ts'
import { DEFAULT_DIRECT_MODE } from '../delivery/platform-accounts.ts'
import { onboarding } from '../people/onboarding.ts'
import { openPairing } from '../people/pairing-codes.ts'
import type { ChatMessageContext, ChatOwner } from './chat-owner.ts'
import { isRouteOfChat } from './route-table.ts'
import { type RoutingContext, type RoutingDecision, TEXT_VERBS } from './routing-decision.ts'

/** Ends a message of a direct chat that its sender may not start; undefined if it is routed like any other. */
export async function refuseDirectChat(
  tx: Tx,
  context: RoutingContext,
  chatMessage: ChatMessageContext,
  owner: ChatOwner | undefined,
): Promise<RoutingDecision | undefined> {
  const { row, chat, placement } = chatMessage
  const { jid } = row.message
  if (row.envelope?.is_group ?? chat?.is_group ?? false) return undefined
  const account = await channelAccounts.find(tx, { account: platformOf(jid) })
  if (!account) return undefined
  const mode = account.settings.dm ?? DEFAULT_DIRECT_MODE
  if (mode === 'open' || (mode !== 'off' && (await isKnown(tx, context, chatMessage, owner)))) return undefined
  if (mode === 'pairing') return pair(tx, context, chatMessage)
  const reason =
    mode === 'off' ? 'the account takes no direct chats' : 'the account takes direct chats of known people only'
  return { ...placement, kind: 'end', outcome: 'silent', reason }
}

/** A route names the chat, the agent wrote first, or the person has been approved or has rights. */
async function isKnown(
  tx: Tx,
  { policy }: RoutingContext,
  { row, matchedRoute, placement }: ChatMessageContext,
  owner: ChatOwner | undefined,
): Promise<boolean> {
  const { jid, sender } = row.message
  if (owner && !owner.isByRoute) return true
  if (matchedRoute && (matchedRoute.target.kind !== 'folder' || isRouteOfChat(matchedRoute.route))) return true
  if (placement.verb === 'untrusted') return false
  return hasGrant(policy, sender) || (await onboarding.find(tx, { jid }))?.status === 'approved'
}

async function pair(
  tx: Tx,
  { writeContext, greeting = GREETING }: RoutingContext,
  { row, now, placement }: ChatMessageContext,
): Promise<RoutingDecision> {
  const { jid, sender } = row.message
  // Anyone can write in the name of an untrusted sender, who would get the code.
  const code = TEXT_VERBS.includes(placement.verb)
    ? await openPairing(tx, writeContext.random, { jid, sender, now })
    : undefined
  const reply = code === undefined ? undefined : `${greeting} ${pairingText(code)}`
  const reason = 'the person is not known yet, and an operator approves their pairing code'
  return { ...placement, kind: 'end', outcome: 'onboarding', reason, ...(reply === undefined ? {} : { reply }) }
}

const GREETING = 'Hello! I do not know you yet.'

function pairingText(code: string): string {
  return `Send the code ${code} to the person who runs this account. It is valid for an hour.`
}
