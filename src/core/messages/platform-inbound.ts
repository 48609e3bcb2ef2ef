// A message as a platform tells it, made into one of ours: what it answers is looked up, whether it is meant for the agent is
// decided, and its chat is remembered. All in the transaction that records it.
import type { Tx } from '../../store/engine.ts'
import { integer, query } from '../../store/statement.ts'
import { chats, upsertChat } from '../chats/chats.ts'
import { findOutbound, hasOutboundInTopic } from '../delivery/outbox.ts'
import type { WriteContext } from '../turns/rounds.ts'
import { turns } from '../turns/turns.ts'
import type { Envelope } from './envelopes.ts'
import { type RecordedInbound, recordInbound } from './inbound.ts'
import { findInbound } from './inbox.ts'
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
  /** Said by the agent's own account. */
  readonly is_from_me?: boolean | undefined
}

/** How much of what is answered is told again. */
const EXCERPT = 1000
const REACTIONS = ['like', 'dislike'] as const
/** A reaction keeps its verb, so that a route can tell it from words; what is not trusted is never made more than that. */
const KEPT_VERBS: readonly string[] = [...REACTIONS, 'untrusted', 'join', 'mention']

/** Nothing where it was said by the agent itself: that is here already, and would be an answer to itself. */
export async function receiveFromPlatform(
  tx: Tx,
  speaking: WriteContext,
  arriving: PlatformInbound,
): Promise<RecordedInbound | undefined> {
  const { jid, sender, content, link_context, verb = 'message', is_from_me, topic: own, ...told } = arriving
  if (is_from_me || (await isOwnEcho(tx, arriving))) return undefined
  const answered = told.reply_to_id === undefined ? undefined : await answeredBy(tx, jid, told.reply_to_id)
  const topic = own || answered?.message.topic
  const isMeant = answered?.isOurs || (topic !== undefined && (await isOurTopic(tx, jid, topic)))
  await remember(tx, arriving)
  return recordInbound(tx, speaking, {
    jid,
    sender,
    content,
    topic,
    link_context,
    // On a platform, the folder's own rules decide.
    reach: 'all',
    envelope: {
      ...told,
      verb: isMeant && !KEPT_VERBS.includes(verb) ? 'mention' : verb,
      reply_to_text: told.reply_to_text ?? excerpt(answered?.message),
      reply_to_sender: told.reply_to_sender ?? answered?.message.sender,
    },
  })
}

/** A platform may tell the agent what the agent has said. */
async function isOwnEcho(tx: Tx, { jid, platform_id }: PlatformInbound): Promise<boolean> {
  return platform_id !== undefined && (await findOutbound(tx, platform_id, jid)) !== undefined
}

/** Chats are compared too: an id of ours that is used elsewhere tells nothing of what was said here. */
async function answeredBy(
  tx: Tx,
  jid: string,
  id: string,
): Promise<{ readonly message: Message; readonly isOurs: boolean } | undefined> {
  const said = await findOutbound(tx, id, jid)
  const seq = said?.message_seq ?? (await findInbound(tx, id, jid))?.message_seq ?? (await filedAs(tx, jid, id))
  const message = seq === undefined ? undefined : await messages.find(tx, { seq, jid })
  return message && { message, isOurs: said !== undefined }
}

/** One that came a moment ago may not be routed yet. */
async function filedAs(tx: Tx, jid: string, platform_id: string): Promise<number | undefined> {
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

/** Written only where something is new: most messages tell nothing of their chat. */
async function remember(tx: Tx, { jid, source, chat_name: name, is_group }: PlatformInbound): Promise<void> {
  const known = await chats.find(tx, { jid })
  const told = Object.entries({ source, name, is_group }).filter(([, value]) => value !== undefined)
  const news = told.filter(([key, value]) => known?.[key as 'source' | 'name' | 'is_group'] !== value)
  if (news.length > 0) await upsertChat(tx, jid, Object.fromEntries(news))
}

/** By emoji, and by the names that some platforms have for them. */
const DISLIKES = ['👎', '💩', '😡', '🤬', '💔', '🤮', '😢']
const DISLIKE_NAMES = ['-1', 'thumbsdown', 'poop', 'hankey', 'rage', 'cursing_face', 'broken_heart', 'vomiting', 'cry']

/** What a reaction says: a skin tone and colons around a name make no difference. */
export function reactionVerb(reaction: string): (typeof REACTIONS)[number] {
  const plain = reaction.replace(/[\u{1f3fb}-\u{1f3ff}\ufe0f]/gu, '').replace(/^:|(::skin-tone-\d)?:?$/g, '')
  return DISLIKES.includes(plain) || DISLIKE_NAMES.includes(plain) ? 'dislike' : 'like'
}
