// Receives a message from a platform: looks up the message that it replies to, decides whether it is meant for the agent,
// and updates its chat, in the transaction that records it.
import type { Tx } from '../../store/engine.ts'
import { integer, query } from '../../store/statement.ts'
import { chats, upsertChat } from '../chats/chats.ts'
import { findOutbound, hasOutboundInTopic } from '../delivery/outbox.ts'
import type { WriteContext } from '../turns/rounds.ts'
import { turns } from '../turns/turns.ts'
import type { Envelope } from './envelopes.ts'
import { type RecordedInbound, recordInbound } from './inbound.ts'
import { findInbound } from './inbox.ts'
import { isDeleted } from './message-changes.ts'
import { decodeContent, type Message, messages } from './messages.ts'

export interface PlatformInbound
  extends Pick<
    Envelope,
    | 'platform_id'
    | 'source'
    | 'sender_name'
    | 'reply_to_id'
    | 'reply_to_text'
    | 'reply_to_sender'
    | 'forwarded_from'
    | 'chat_name'
    | 'is_group'
    | 'attachments'
    | 'sent_at'
  > {
  readonly jid: string
  readonly sender: string
  readonly content: string
  readonly topic?: string | undefined
  readonly verb?: string | undefined
  readonly link_context?: string | undefined
  /** Sent by the agent's own account. */
  readonly is_from_me?: boolean | undefined
}

/** Characters of the replied-to message that are kept. */
const EXCERPT = 1000
const REACTIONS = ['like', 'dislike'] as const
/** Verbs that never become a mention: routes match reactions, and `untrusted` must not be raised. */
const KEPT_VERBS: readonly string[] = [...REACTIONS, 'untrusted', 'join', 'mention']

/** Undefined for the agent's own messages: they are recorded already, and the agent must not answer itself. */
export async function receiveFromPlatform(
  tx: Tx,
  context: WriteContext,
  inbound: PlatformInbound,
): Promise<RecordedInbound | undefined> {
  const { jid, sender, content, link_context, verb = 'message', is_from_me, topic: own, ...envelope } = inbound
  if (is_from_me || (await isOwnEcho(tx, inbound))) return undefined
  const repliedTo = envelope.reply_to_id === undefined ? undefined : await findReplied(tx, jid, envelope.reply_to_id)
  const topic = own || repliedTo?.message.topic
  const isAddressed = repliedTo?.isOurs || (topic !== undefined && (await isOurTopic(tx, jid, topic)))
  await updateChat(tx, inbound)
  return recordInbound(tx, context, {
    jid,
    sender,
    content,
    topic,
    link_context,
    // On a platform, only the folder's own rules limit it.
    reach: 'all',
    envelope: {
      ...envelope,
      verb: isAddressed && !KEPT_VERBS.includes(verb) ? 'mention' : verb,
      reply_to_text: repliedTo?.isDeleted ? '' : (envelope.reply_to_text ?? excerpt(repliedTo?.message)),
      reply_to_sender: envelope.reply_to_sender ?? repliedTo?.message.sender,
    },
  })
}

/** Some platforms deliver the agent's own messages to it. */
async function isOwnEcho(tx: Tx, { jid, platform_id }: PlatformInbound): Promise<boolean> {
  return platform_id !== undefined && (await findOutbound(tx, platform_id, jid)) !== undefined
}

/** Only messages of the same chat count, so an id of another chat reveals nothing. */
async function findReplied(
  tx: Tx,
  jid: string,
  id: string,
): Promise<{ readonly message: Message; readonly isOurs: boolean; readonly isDeleted: boolean } | undefined> {
  const sent = await findOutbound(tx, id, jid)
  const seq = sent?.message_seq ?? (await findInbound(tx, id, jid))?.message_seq ?? (await findUnrouted(tx, jid, id))
  const message = seq === undefined ? undefined : await messages.find(tx, { seq, jid })
  return message && { message, isOurs: sent !== undefined, isDeleted: await isDeleted(tx, message.seq) }
}

/** A recent message may not be routed yet, so it has no inbox row. */
async function findUnrouted(tx: Tx, jid: string, platform_id: string): Promise<number | undefined> {
  const sql = 'select message_seq from envelopes where jid = $1 and platform_id = $2'
  const [envelope] = await query(tx, { message_seq: integer }, sql, [jid, platform_id])
  return envelope?.message_seq
}

async function isOurTopic(tx: Tx, jid: string, topic: string): Promise<boolean> {
  return (await hasOutboundInTopic(tx, jid, topic)) || (await turns.find(tx, { id: topic, jid })) !== undefined
}

function excerpt(message: Message | undefined): string | undefined {
  return message && [...decodeContent(message.content)].slice(0, EXCERPT).join('').replaceAll('\u0000', '')
}

/** Writes only if a field has changed, which is rare. */
async function updateChat(tx: Tx, { jid, source, chat_name: name, is_group }: PlatformInbound): Promise<void> {
  const known = await chats.find(tx, { jid })
  const changed = Object.entries({ source, name, is_group }).filter(
    ([key, value]) => value !== undefined && known?.[key as 'source' | 'name' | 'is_group'] !== value,
  )
  if (changed.length > 0) await upsertChat(tx, jid, Object.fromEntries(changed))
}

const DISLIKES = ['👎', '💩', '😡', '🤬', '💔', '🤮', '😢']
const DISLIKE_NAMES = ['-1', 'thumbsdown', 'poop', 'hankey', 'rage', 'cursing_face', 'broken_heart', 'vomiting', 'cry']

/** Accepts an emoji or a platform's name for it; ignores skin tones and colons around a name. */
export function reactionVerb(reaction: string): (typeof REACTIONS)[number] {
  const plain = reaction.replace(/[\u{1f3fb}-\u{1f3ff}\ufe0f]/gu, '').replace(/^:|(::skin-tone-\d)?:?$/g, '')
  return DISLIKES.includes(plain) || DISLIKE_NAMES.includes(plain) ? 'dislike' : 'like'
}
