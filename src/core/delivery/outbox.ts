// The outbox: what is said is recorded before it is sent, and its row tells how far that has come. Only whoever holds a row
// sends it; what has a dedupe key is never delivered twice, and what has none is never tried again when its end is unclear.
import { z } from 'zod'
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute, flag, integer, query, queryOne, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { appendChatEvent } from '../chats/chat-events.ts'
import { chats } from '../chats/chats.ts'
import { envelopes } from '../messages/envelopes.ts'
import { lockMessageOrder } from '../messages/messages.ts'
import { engage, setLastReply } from '../routing/engagements.ts'
import { addFrames, notifyStreams, type WriteContext } from '../turns/rounds.ts'
import type { TurnRules } from '../turns/turn-rules.ts'
import { ChatName, Folder, Timestamp } from '../values.ts'
import { isLinkChat, SENDING_ACTIONS } from './channel.ts'

export const OutboxState = z.enum(['pending', 'sending', 'sent', 'failed', 'unknown'])
export type OutboxState = z.output<typeof OutboxState>

export const OutboxRow = z.object({
  message_seq: z.int(),
  id: z.string().describe('The id of the message, and its dedupe key'),
  jid: ChatName,
  topic: z.string().describe('The main one is the empty text'),
  folder: Folder.optional().describe('Who said it; absent for what the instance says'),
  turn_id: z.string().optional(),
  channel: z.string().optional().describe('The channel that it must go by'),
  action: z.enum(SENDING_ACTIONS),
  payload: z.string().describe('What the action needs besides the content, as JSON'),
  engages: z.boolean().describe('Whether the chat stays with the folder when it is sent'),
  state: OutboxState,
  attempts: z.int(),
  next_at: z.int().describe('Not before, in milliseconds since 1970'),
  fence: z.int(),
  leased_until: z.int(),
  platform_id: z.string().optional(),
  error: z.string().optional(),
  created_at: Timestamp,
  updated_at: Timestamp,
})
export type OutboxRow = z.output<typeof OutboxRow>

/** What stands in a topic of a chat that is no link's. */
const SPOKEN_ON_PLATFORM = `topic <> '' and substr(jid, 1, 4) <> 'web:' and substr(jid, 1, 5) <> 'hook:'`

export const outbox = new Table({
  name: 'outbox',
  row: OutboxRow,
  key: 'message_seq',
  storage: [
    `create table outbox (
       message_seq bigint primary key, id text not null, jid text not null, topic text not null, folder text,
       turn_id text, channel text, action text not null, payload text not null, engages boolean not null,
       state text not null, attempts integer not null, next_at bigint not null, fence integer not null,
       leased_until bigint not null, platform_id text, error text, created_at text not null, updated_at text not null)`,
    'create unique index outbox_of_id on outbox (id)',
    `create index outbox_open on outbox (next_at) where state in ('pending', 'sending')`,
    'create index outbox_of_platform on outbox (jid, platform_id) where platform_id is not null',
    'create index outbox_of_turn on outbox (turn_id) where turn_id is not null',
    `create index outbox_open_of_chat on outbox (jid, message_seq) where state in ('pending', 'sending')`,
    `create index outbox_of_topic on outbox (jid, topic) where topic <> ''`,
    `create index outbox_not_sent on outbox (message_seq) where state in ('failed', 'unknown')`,
    // Only messages from platforms are looked up by topic; most rows are answers in chats of links.
    'drop index outbox_of_topic',
    `create index outbox_of_topic on outbox (jid, topic) where ${SPOKEN_ON_PLATFORM}`,
    `create index outbox_open_written on outbox (updated_at) where state in ('pending', 'sending')`,
  ],
})

/** Something that a folder, or the instance, says. */
export interface OutboundMessage {
  readonly jid: string
  /** The topic of the chat; the main one is the empty text. */
  readonly topic: string
  /** Absent for what the instance itself says. */
  readonly folder?: string | undefined
  /** The turn it is said in. Its rounds of this chat get a frame. */
  readonly turn_id?: string | undefined
  readonly kind?: 'message' | 'status' | undefined
  readonly content: string
  readonly action?: OutboxRow['action'] | undefined
  readonly payload?: object | undefined
  readonly channel?: string | undefined
  /** Whether the chat stays with the folder for a while; what a schedule says does not. */
  readonly engages?: boolean | undefined
  /** Held by whoever records it, who delivers it at once; else the sweep does. */
  readonly leaseMs?: number | undefined
}

export interface RecordedOutbound {
  readonly seq: number
  readonly id: string
  /** With it, `settle` tells how it went. */
  readonly fence: number
  readonly isDelivered: boolean
  /** Whom it concerns, for the signals of this process. */
  readonly keys: readonly string[]
}

/** The name that the instance itself speaks under. */
export const INSTANCE_SENDER = 'svc'

/**
 * The folder of the chat: the holder of a link sees all messages of its chat, of any sender. An answer belongs to the folder that
 * was asked: meanwhile, the chat may belong to another folder.
 */
const SAY = `insert into messages (id, jid, target_folder, direction, kind, sender, topic, turn_id, content, created_at)
  values ($1, $2, coalesce(
    (select m.target_folder from turns t join messages m on m.seq = t.last_seq and m.jid = $2 where t.id = $7),
    (select target_folder from route_tokens where jid = $2 limit 1), $3), 'out', $4, $5, $6, $7, $8, $9)
  returning seq`

/** Records what is said; in a link's chat that delivers it too. */
export async function recordOutbound(
  tx: Tx,
  speaking: WriteContext,
  rules: Pick<TurnRules, 'engagementMs'>,
  out: OutboundMessage,
): Promise<RecordedOutbound> {
  const { dialect, clock, random } = speaking
  await lockMessageOrder(tx, dialect)
  const { jid, topic, folder, turn_id, kind = 'message', content, action = 'send', engages = true } = out
  const [id, now] = [uuidv7(clock, random), clock.now()]
  const created_at = timestamp(now)
  const isDelivered = isLinkChat(jid) || !jid.includes(':')
  const inTopic = topic === '' ? undefined : topic
  const { seq } = await queryOne(tx, { seq: integer }, SAY, [
    id,
    jid,
    folder ?? null,
    kind,
    folder ?? INSTANCE_SENDER,
    inTopic ?? null,
    turn_id ?? null,
    Buffer.from(content),
    created_at,
  ])
  const answered = turn_id === undefined ? [] : await addFrames(tx, { turn_id, jid, message_seq: seq })
  await appendChatEvent(tx, { jid, kind, message_seq: seq, turn_id: answered.at(-1) ?? turn_id, topic: inTopic })
  const isHeld = !isDelivered && out.leaseMs !== undefined && !(await hasEarlier(tx, jid, now))
  await outbox.insert(tx, {
    message_seq: seq,
    id,
    jid,
    topic,
    folder,
    turn_id,
    channel: out.channel ?? (isDelivered ? undefined : (await chats.find(tx, { jid }))?.source),
    action,
    payload: JSON.stringify(out.payload ?? {}),
    engages: engages && rules.engagementMs > 0,
    state: isDelivered ? 'sent' : isHeld ? 'sending' : 'pending',
    attempts: isHeld ? 1 : 0,
    next_at: now,
    fence: isHeld ? 1 : 0,
    leased_until: isHeld ? now + (out.leaseMs ?? 0) : 0,
    created_at,
    updated_at: created_at,
  })
  if (turn_id !== undefined && kind === 'message')
    await execute(tx, `update turns set replies = replies + 1 where id = $1 and state = 'running'`, [turn_id])
  if (isDelivered) {
    await setLastReply(tx, jid, topic, id)
    await notifyStreams(tx, dialect, answered.at(-1) ?? id, jid)
  } else if (!isHeld) {
    // The process that sends may be another one.
    await notifyStreams(tx, dialect, id, jid)
  }
  return { seq, id, fence: isHeld ? 1 : 0, isDelivered, keys: [...answered, jid] }
}

/** What is said in a chat is sent in that order; but what has not gone for so long holds up nobody any more. */
const IN_ORDER_MS = 600_000

async function hasEarlier(tx: Tx, jid: string, now: number): Promise<boolean> {
  const rows = await query(
    tx,
    {},
    `select 1 as one from outbox where jid = $1 and state in ('pending', 'sending') and created_at > $2 limit 1`,
    [jid, timestamp(now - IN_ORDER_MS)],
  )
  return rows.length > 0
}

/** How a try went. `again` puts it back for later, `unknown` leaves it to people: it may have arrived. */
export type DeliveryOutcome =
  | { readonly state: 'sent'; readonly platform_id?: string | undefined }
  | { readonly state: 'failed' | 'unknown'; readonly error: string }
  | { readonly state: 'again'; readonly error: string; readonly at: number }

/**
 * Says how the try with this fence went; false when another process has the row. What is sent engages the folder there: a message
 * that has not arrived takes no chat over.
 */
export async function settleDelivery(
  tx: Tx,
  speaking: WriteContext,
  rules: Pick<TurnRules, 'engagementMs'>,
  { seq, fence }: { readonly seq: number; readonly fence: number },
  settled: DeliveryOutcome,
): Promise<boolean> {
  const updated_at = timestamp(speaking.clock.now())
  const patch =
    settled.state === 'sent'
      ? { state: 'sent' as const, platform_id: settled.platform_id, error: undefined }
      : settled.state === 'again'
        ? { state: 'pending' as const, error: settled.error, next_at: settled.at }
        : { state: settled.state, error: settled.error }
  const held = { message_seq: seq, fence, state: 'sending' as const }
  if ((await outbox.update(tx, held, { ...patch, leased_until: 0, updated_at })) === 0) return false
  if (settled.state !== 'sent') return true
  const row = await outbox.find(tx, { message_seq: seq })
  if (row?.engages && row.folder !== undefined) {
    const { jid, topic, folder } = row
    await engage(tx, { jid, topic, folder, until: speaking.clock.now() + rules.engagementMs })
  }
  if (row && settled.platform_id !== undefined) {
    const { jid, topic } = row
    await setLastReply(tx, jid, topic, settled.platform_id)
    await envelopes.insertIfMissing(tx, {
      message_seq: seq,
      jid,
      platform_id: settled.platform_id,
      verb: 'message',
      depth: 0,
    })
  }
  return true
}

/** How the error of a row begins that waits for an adapter. */
export const NO_ADAPTER = 'no adapter has'

/** An adapter of these chats is there now: what has waited for one is due at once. */
export async function wakeWaiting(tx: Tx, jidPrefixes: readonly string[], now: number): Promise<void> {
  const chats = jidPrefixes.map((_, at) => `jid like $${at + 4} escape '\\'`).join(' or ')
  await execute(
    tx,
    `update outbox set next_at = $1, updated_at = $3 where state in ('pending', 'sending') and state = 'pending'
       and next_at > $1 and error like $2 and (${chats})`,
    [now, `${NO_ADAPTER}%`, timestamp(now), ...jidPrefixes.map((prefix) => `${prefix.replace(/[\\%_]/g, '\\$&')}%`)],
  )
}

/** What may be claimed: it is due, and nothing of its chat is before it. Said so that the index of what is open serves. */
const DUE = `from outbox o
  where o.state in ('pending', 'sending') and o.next_at <= $1 and (o.state = 'pending' or o.leased_until <= $1)
    and not exists (select 1 from outbox e where e.jid = o.jid and e.message_seq < o.message_seq
      and e.state in ('pending', 'sending') and e.created_at > $2)`

/** So far the clocks of two machines on one store may differ. */
const SKEW_MS = 10_000
/** How many rows are put right in one transaction. */
const SHIFTED_AT_ONCE = 500

/** Open rows that were written at a time still to come: the clock was set back since. */
const WRITTEN_AHEAD = `from outbox a where a.state in ('pending', 'sending') and a.updated_at > `

/** Whether there is anything to claim, or to put right: asked often, so it writes nothing. */
export async function hasDue(tx: Tx, now: number): Promise<boolean> {
  const sql = `select exists (select 1 ${DUE}) or exists (select 1 ${WRITTEN_AHEAD} $3) as is_due`
  const row = await queryOne(tx, { is_due: flag }, sql, [now, timestamp(now - IN_ORDER_MS), timestamp(now + SKEW_MS)])
  return row.is_due
}

/** Pauses and leases last as long as they were set for, also after the clock was set back. */
async function shiftAhead(tx: Tx, now: number): Promise<void> {
  const rows = await query(
    tx,
    { message_seq: integer, updated_at: text },
    `select a.message_seq, a.updated_at ${WRITTEN_AHEAD} $1 order by a.updated_at desc limit ${SHIFTED_AT_ONCE}`,
    [timestamp(now + SKEW_MS)],
  )
  for (const { message_seq, updated_at } of rows)
    await execute(
      tx,
      `update outbox set next_at = next_at - $2, updated_at = $3,
         leased_until = case when leased_until > 0 then leased_until - $2 else 0 end where message_seq = $1`,
      [message_seq, Date.parse(updated_at) - now, timestamp(now)],
    )
}

/**
 * Takes what is due, of each chat the first: what waits, and what a process that died was sending. Of the latter,
 * `isUnclear` says that it may have been sent.
 */
export async function claimOutbox(
  tx: Tx,
  { now, forMs, limit }: { readonly now: number; readonly forMs: number; readonly limit: number },
): Promise<(OutboxRow & { readonly isUnclear: boolean })[]> {
  await shiftAhead(tx, now)
  const due = await query(
    tx,
    { message_seq: integer, state: text },
    `select o.message_seq, o.state ${DUE} order by o.message_seq limit $3`,
    [now, timestamp(now - IN_ORDER_MS), limit],
  )
  const claimed: (OutboxRow & { isUnclear: boolean })[] = []
  for (const { message_seq, state } of due) {
    const [row] = await query(
      tx,
      outbox.decode,
      `update outbox set state = 'sending', fence = fence + 1, attempts = attempts + 1, leased_until = $2,
         updated_at = $3
       where message_seq = $1 returning ${outbox.columns.join(', ')}`,
      [message_seq, now + forMs, timestamp(now)],
    )
    if (row) claimed.push({ ...row, isUnclear: state === 'sending' })
  }
  return claimed
}

/** A message that was said, by its own id or by the id that its platform gave it in this chat. */
export async function findOutbound(tx: Tx, id: string, jid?: string): Promise<OutboxRow | undefined> {
  return (await outbox.find(tx, { id })) ?? (jid === undefined ? undefined : outbox.find(tx, { jid, platform_id: id }))
}

/** Whether something was said in this topic of a platform's chat. */
export async function hasOutboundInTopic(tx: Tx, jid: string, topic: string): Promise<boolean> {
  const rows = await query(
    tx,
    {},
    `select 1 as one from outbox where jid = $1 and topic = $2 and ${SPOKEN_ON_PLATFORM} limit 1`,
    [jid, topic],
  )
  return rows.length > 0
}
