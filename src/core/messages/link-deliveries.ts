// Posts of links that an administrator causes or looks at: a test, a replay, and the list of earlier deliveries.
import { hash } from 'node:crypto'
import { z } from 'zod'
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { bytes, integer, oneOf, optional, query, text } from '../../store/statement.ts'
import { defaultReach } from '../access/reach.ts'
import type { RouteToken } from '../links/route-tokens.ts'
import { type Visitors, visitorPart } from '../links/visitor-chats.ts'
import { legacyLinkFolder } from '../routing/chat-folder.ts'
import type { WriteContext } from '../turns/rounds.ts'
import { type RecordedInbound, recordInbound } from './inbound.ts'
import { InboxState, inbox } from './inbox.ts'
import { appendLinkPost } from './link-inbound.ts'
import { contentStart, decodeContent, type Message, messages } from './messages.ts'

/** The sender of a visitor who has not signed in. See docs/decisions.md#sender-of-a-link. */
export function anonymousSender(tokenHash: string, client: string): string {
  return `anon:${hash('sha256', `${tokenHash}\n${client}`, 'hex').slice(0, 12)}`
}

/** No visitor can have this key, because it is too short. */
const TEST_VISITOR = 'test'

export const TEST_TEXT = 'This is a test of this link, sent by an administrator. Nothing has to be done.'

/** Appends a test as a visitor or the source of the link would. Undefined if the link does not exist any more. */
export async function postLinkTest(
  tx: Tx,
  context: WriteContext,
  { jid, token_hash, source_label, visitors }: z.output<typeof RouteToken>,
): Promise<Pick<RecordedInbound, 'id' | 'keys'> | undefined> {
  const { clock, random, dialect } = context
  const id = uuidv7(clock, random)
  const link = Buffer.from(token_hash).toString('latin1')
  const isHook = jid.startsWith('hook:')
  const keys = await appendLinkPost(tx, dialect, {
    id,
    link,
    old_target: legacyLinkFolder(jid) ?? null,
    sender: isHook ? (source_label ?? hookSourceOf(jid)) : anonymousSender(link, 'test'),
    topic: null,
    content: Buffer.from(isHook ? JSON.stringify({ test: true, message: TEST_TEXT }) : TEST_TEXT),
    content_type: isHook ? 'application/json' : null,
    created_at: timestamp(clock.now()),
    visitor: visitors === 'apart' ? visitorPart(TEST_VISITOR) : null,
    hasRound: !isHook,
    reach: null,
    event: null,
  })
  return keys && { id, keys }
}

/** The source in the JID of a hook that was minted before the column existed. */
export function hookSourceOf(jid: string): string {
  return jid.slice(jid.lastIndexOf('/') + 1).replace(/^hook:/, '')
}

/** Records the message again, with the context and the reach that it arrived with, even if its link was revoked since. */
export async function replayLinkMessage(tx: Tx, context: WriteContext, message: Message): Promise<RecordedInbound> {
  const { jid, sender, content, topic, target_folder, content_type, link_context, event, turn_id, client_context } =
    message
  const { reach = defaultReach(jid) } = message
  return recordInbound(tx, context, {
    jid,
    sender,
    content,
    reach,
    topic,
    target_folder,
    content_type,
    link_context,
    client_context,
    event,
    hasRound: turn_id !== undefined,
  })
}

/** A received message by its id. */
export async function findReceivedMessage(tx: Tx, id: string): Promise<Message | undefined> {
  const row = await inbox.find(tx, { id })
  if (row) return messages.find(tx, { seq: row.message_seq })
  const columns = messages.columns.join(', ')
  const [message] = await query(
    tx,
    messages.decode,
    `select ${columns} from messages
     where seq > (select last_seq from routing where id = 1) and id = $1 and direction = 'in'`,
    [id],
  )
  return message
}

export const LinkDelivery = z.object({
  id: z.string().describe('Id of the message'),
  created_at: z.string(),
  sender: z.string(),
  text: z.string().describe('Beginning of its text'),
  state: InboxState,
  reason: z.string().optional(),
  has_context: z.boolean().describe('Whether it arrived with a context'),
  at: z.int().describe('Position in the list'),
})
export type LinkDelivery = z.output<typeof LinkDelivery>

const TEXT_BYTES = 300

const DELIVERY = {
  id: text,
  created_at: text,
  sender: text,
  content: bytes,
  state: optional(oneOf(InboxState.options)),
  reason: optional(text),
  has_context: integer,
  at: integer,
}

interface DeliveriesRequest {
  readonly jid: string
  readonly folder: string
  readonly visitors: Visitors | undefined
  readonly limit: number
  readonly before?: number | undefined
}

const DELIVERIES = `select m.id, m.created_at, m.sender, ${contentStart(TEXT_BYTES)} as content, i.state, i.reason,
  case when m.link_context is null then 0 else 1 end as has_context, `
const OF_CHAT = `${DELIVERIES} e.seq as at
  from chat_events e join messages m on m.seq = e.message_seq left join inbox i on i.message_seq = m.seq
  where e.jid = $1 and e.seq < $2 and e.kind = 'message' and m.direction = 'in' and m.target_folder = $3
  order by e.seq desc limit $4`
/** In the order of the folder's messages, because those of one link are in many chats. */
const OF_VISITORS = `${DELIVERIES} i.message_seq as at
  from inbox i join messages m on m.seq = i.message_seq
  where substr(i.jid, 1, length($1)) = $1 and i.message_seq < $2 and i.folder = $3
  order by i.message_seq desc limit $4`

/** Messages that arrived through a link for this folder, newest first, before the position `before`. */
export async function listLinkDeliveries(
  tx: Tx,
  { jid, folder, visitors, limit, before }: DeliveriesRequest,
): Promise<LinkDelivery[]> {
  const [sql, name] = visitors === 'apart' ? [OF_VISITORS, jid + visitorPart(undefined)] : [OF_CHAT, jid]
  const rows = await query(tx, DELIVERY, sql, [name, before ?? Number.MAX_SAFE_INTEGER, folder, limit])
  return rows.map(({ content, state = 'waiting', has_context, ...row }) => ({
    ...row,
    state,
    has_context: has_context === 1,
    // `substr` may have split the last character.
    text: decodeContent(content).replace(/\ufffd$/, ''),
  }))
}
