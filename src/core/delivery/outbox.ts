// The outbox: every message is recorded before it is sent, and its row tracks the delivery. Only the process with the row's
// lease sends it. An attempt with an unclear end is retried only if the channel deduplicates by key.
import { z } from 'zod'
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute, flag, integer, optional, query, queryOne, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { appendChatEvent } from '../chats/chat-events.ts'
import { chats } from '../chats/chats.ts'
import { findAnswerTarget, isAnswerUrl } from '../links/route-tokens.ts'
import { linkJidOf } from '../links/visitor-chats.ts'
import { envelopes } from '../messages/envelopes.ts'
import { lockMessageOrder } from '../messages/messages.ts'
import { engage, setLastReply } from '../routing/engagements.ts'
import { addFrames, notifyStreams, type WriteContext } from '../turns/rounds.ts'
import type { TurnRules } from '../turns/turn-rules.ts'
import { ChatName, Folder, Timestamp } from '../values.ts'
import { isLinkChat, platformOf, SENDING_ACTIONS, UNREACHABLE } from './channel.ts'

export const OutboxState = z.enum(['pending', 'sending', 'sent', 'failed', 'unknown'])
export type OutboxState = z.output<typeof OutboxState>

export const OutboxRow = z.object({
  message_seq: z.int(),
  id: z.string().describe('Id of the message, and its idempotency key'),
  jid: ChatName,
  topic: z.string().describe('Empty for the main topic'),
  folder: Folder.optional().describe('Folder that sends it; absent for messages of the instance'),
  turn_id: z.string().optional(),
  channel: z.string().optional().describe('Channel that must deliver it'),
  action: z.enum(SENDING_ACTIONS),
  payload: z.string().describe('Further parameters of the action, as JSON'),
  engages: z.boolean().describe('Whether the folder becomes engaged in the chat when it is sent'),
  state: OutboxState,
  attempts: z.int(),
  next_at: z.int().describe('Earliest time of the next attempt, in milliseconds since 1970'),
  fence: z.int(),
  leased_until: z.int(),
  platform_id: z.string().optional(),
  error: z.string().optional(),
  created_at: Timestamp,
  updated_at: Timestamp,
})
export type OutboxRow = z.output<typeof OutboxRow>

/** Rows in a topic of a platform's chat; must match the partial index `outbox_of_topic`. */
const IN_PLATFORM_TOPIC = `topic <> '' and substr(jid, 1, 4) <> 'web:' and substr(jid, 1, 5) <> 'hook:'`

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
    // Only platform messages are looked up by topic, and most rows are answers in chats of links.
    'drop index outbox_of_topic',
    `create index outbox_of_topic on outbox (jid, topic) where ${IN_PLATFORM_TOPIC}`,
    `create index outbox_open_written on outbox (updated_at) where state in ('pending', 'sending')`,
  ],
})

export interface OutboundMessage {
  readonly jid: string
  /** Topic of the chat; empty for the main topic. */
  readonly topic: string
  /** The sender; absent for messages of the instance. */
  readonly folder?: string | undefined
  /** The turn that sends it. The turn's rounds in this chat get a frame. */
  readonly turn_id?: string | undefined
  readonly kind?: 'message' | 'status' | undefined
  readonly content: string
  readonly isPartial?: boolean | undefined
  readonly action?: OutboxRow['action'] | undefined
  readonly payload?: object | undefined
  readonly channel?: string | undefined
  /** Whether the folder becomes engaged in the chat; false for scheduled messages. */
  readonly engages?: boolean | undefined
  /** The webhook whose answer this copy is. */
  readonly answers?: string | undefined
  /** How a file is sent to the chat that its webhook answers to; without it, the copy is text. */
  readonly answerFile?: Pick<OutboundMessage, 'content' | 'payload'> | undefined
  /** Set if the caller delivers it at once; otherwise the outbox worker does. */
  readonly leaseMs?: number | undefined
}

export interface RecordedOutbound {
  readonly seq: number
  readonly id: string
  /** Fence of the caller's lease, for `settleDelivery`; 0 without a lease. */
  readonly fence: number
  readonly isDelivered: boolean
  /** Keys to signal within this process after the commit. */
  readonly keys: readonly string[]
}

/** Sender of messages of the instance itself. */
export const INSTANCE_SENDER = 'svc'

/** The folder of the agent's message in a chat, by these parameters of a statement. */
const targetFolder = ({ jid, turn, link, sender }: Readonly<Record<'jid' | 'turn' | 'link' | 'sender', string>>) =>
  `coalesce(
    (select m.target_folder from turns t join messages m on m.seq = t.last_seq and m.jid = ${jid} where t.id = ${turn}),
    (select target_folder from route_tokens where jid = ${link} limit 1), ${sender})`

/** The folder that a message will have which `recordOutbound` adds. */
export async function findTargetFolder(
  tx: Tx,
  { jid, turn_id, folder }: Pick<OutboundMessage, 'jid' | 'turn_id' | 'folder'>,
): Promise<string | undefined> {
  const sql = `select ${targetFolder({ jid: '$1', turn: '$2', link: '$3', sender: 'cast($4 as text)' })} as folder`
  const values = [jid, turn_id ?? null, linkJidOf(jid), folder ?? null]
  return (await queryOne(tx, { folder: optional(text) }, sql, values)).folder
}

/**
 * `target_folder` is the folder of the question that the turn answers, as the chat may have moved to another folder since;
 * else the folder of the link; else the sender.
 */
const INSERT_MESSAGE = `insert into messages (id, jid, target_folder, direction, kind, sender, topic, turn_id, content, created_at, is_partial)
  values ($1, $2, ${targetFolder({ jid: '$2', turn: '$7', link: '$11', sender: '$3' })}, 'out', $4, $5, $6, $7, $8, $9, $10)
  returning seq`

/**
 * Records a message, which in a link's chat also delivers it. Answers of a webhook that names a URL are delivered there, too; one
 * that names a chat has a copy recorded for it.
 */
export async function recordOutbound(
  tx: Tx,
  context: WriteContext,
  rules: Pick<TurnRules, 'engagementMs'>,
  out: OutboundMessage,
): Promise<RecordedOutbound> {
  const { dialect, clock, random, tracer } = context
  await lockMessageOrder(tx, dialect)
  const { jid, topic, folder, turn_id, kind = 'message', content, action = 'send', engages = true } = out
  const [id, now] = [uuidv7(clock, random), clock.now()]
  const created_at = timestamp(now)
  const answerTo = kind === 'message' ? await findAnswerTarget(tx, jid, turn_id) : undefined
  const isInternal = isLinkChat(jid) || !jid.includes(':')
  const isDelivered = isInternal && !(answerTo !== undefined && isAnswerUrl(answerTo))
  const inTopic = topic === '' ? undefined : topic
  const { seq } = await queryOne(tx, { seq: integer }, INSERT_MESSAGE, [
    id,
    jid,
    folder ?? null,
    kind,
    folder ?? INSTANCE_SENDER,
    inTopic ?? null,
    turn_id ?? null,
    Buffer.from(content),
    created_at,
    out.isPartial ? true : null,
    linkJidOf(jid),
  ])
  const answered = turn_id === undefined ? [] : await addFrames(tx, { turn_id, jid, message_seq: seq })
  await appendChatEvent(tx, { jid, kind, message_seq: seq, turn_id: answered.at(-1) ?? turn_id, topic: inTopic })
  const isLeased = !isInternal && out.leaseMs !== undefined && !(await hasUnsent(tx, jid, now))
  await outbox.insert(tx, {
    message_seq: seq,
    id,
    jid,
    topic,
    folder,
    turn_id,
    channel: out.channel ?? (isInternal ? undefined : (await chats.find(tx, { jid }))?.source),
    action,
    payload: JSON.stringify({ ...out.payload, answers: out.answers }),
    engages: engages && !isInternal && rules.engagementMs > 0,
    state: isDelivered ? 'sent' : isLeased ? 'sending' : 'pending',
    attempts: isLeased ? 1 : 0,
    next_at: now,
    fence: isLeased ? 1 : 0,
    leased_until: isLeased ? now + (out.leaseMs ?? 0) : 0,
    created_at,
    updated_at: created_at,
  })
  if (turn_id !== undefined && kind === 'message' && out.answers === undefined)
    await execute(tx, `update turns set replies = replies + 1 where id = $1 and state = 'running'`, [turn_id])
  if (isDelivered) await setLastReply(tx, jid, topic, id)
  // Readers and the outbox worker may be in other processes.
  if (!isLeased) await notifyStreams(tx, dialect, answered.at(-1) ?? id, jid)
  if (tracer && turn_id !== undefined)
    tx.onCommit(() => tracer.answered({ id, turn_id, jid, kind, folder, startMs: now, endMs: clock.now() }))
  const keys = [...answered, jid]
  if (answerTo !== undefined && isDelivered) keys.push(...(await recordCopy(tx, context, rules, out, answerTo)))
  return { seq, id, fence: isLeased ? 1 : 0, isDelivered, keys }
}

/** The copy of a webhook's answer for the chat that its link names. The outbox worker checks that the folder may send there. */
async function recordCopy(
  tx: Tx,
  context: WriteContext,
  rules: Pick<TurnRules, 'engagementMs'>,
  { jid: answers, folder, turn_id, content, action, isPartial, answerFile }: OutboundMessage,
  jid: string,
): Promise<readonly string[]> {
  const message = answerFile ? { action, ...answerFile } : { content: content || '[file]' }
  const copy = { jid, topic: '', folder, turn_id, isPartial, answers, engages: false, ...message }
  return (await recordOutbound(tx, context, rules, copy)).keys
}

/** Messages of a chat are sent in order, but an unsent message blocks later ones only for this long. */
const IN_ORDER_MS = 600_000

async function hasUnsent(tx: Tx, jid: string, now: number): Promise<boolean> {
  const rows = await query(
    tx,
    {},
    `select 1 as one from outbox where jid = $1 and state in ('pending', 'sending') and created_at > $2 limit 1`,
    [jid, timestamp(now - IN_ORDER_MS)],
  )
  return rows.length > 0
}

/** Result of an attempt. `unknown` is not retried: the message may have arrived, so people decide. */
export type DeliveryOutcome =
  | { readonly state: 'sent'; readonly platform_id?: string | undefined }
  | { readonly state: 'failed' | 'unknown'; readonly error: string }
  | { readonly state: 'retry'; readonly error: string; readonly at: number }

/**
 * Records the outcome of the attempt with this fence; false if another process has the row. Only a message that was sent
 * engages the folder.
 */
export async function settleDelivery(
  tx: Tx,
  { clock }: Pick<WriteContext, 'clock'>,
  rules: Pick<TurnRules, 'engagementMs'>,
  { seq, fence }: { readonly seq: number; readonly fence: number },
  outcome: DeliveryOutcome,
): Promise<boolean> {
  const now = clock.now()
  const patch =
    outcome.state === 'sent'
      ? { state: 'sent' as const, platform_id: outcome.platform_id, error: undefined }
      : outcome.state === 'retry'
        ? { state: 'pending' as const, error: outcome.error, next_at: outcome.at }
        : { state: outcome.state, error: outcome.error }
  const lease = { message_seq: seq, fence, state: 'sending' as const }
  if ((await outbox.update(tx, lease, { ...patch, leased_until: 0, updated_at: timestamp(now) })) === 0) return false
  if (outcome.state !== 'sent') return true
  const row = await outbox.find(tx, { message_seq: seq })
  if (!row) return true
  const { jid, topic, folder } = row
  const { platform_id } = outcome
  if (row.engages && folder !== undefined) await engage(tx, { jid, topic, folder, until: now + rules.engagementMs })
  if (platform_id !== undefined) {
    await setLastReply(tx, jid, topic, platform_id)
    await envelopes.insertIfMissing(tx, { message_seq: seq, jid, platform_id, verb: 'message', depth: 0 })
  }
  return true
}

/** Prefix of the error of rows that wait for an adapter. */
export const NO_ADAPTER = 'no adapter'

/** Makes rows due at once that wait for an adapter of these chats, or because this one could not be reached. */
export async function wakeRowsOfAdapter(
  tx: Tx,
  { name, jid_prefixes }: { readonly name: string; readonly jid_prefixes: readonly string[] },
  now: number,
): Promise<void> {
  const startsWith = (text: string): string => `${text.replace(/[\\%_]/g, '\\$&')}%`
  const isTheirs = jid_prefixes.map((_, at) => `jid like $${at + 5} escape '\\'`).join(' or ')
  await execute(
    tx,
    `update outbox set next_at = $1, updated_at = $4 where state in ('pending', 'sending') and state = 'pending'
       and next_at > $1 and (error like $2 or error like $3 escape '\\') and (${isTheirs})`,
    [now, `${NO_ADAPTER}%`, startsWith(`${name} ${UNREACHABLE}`), timestamp(now), ...jid_prefixes.map(startsWith)],
  )
}

/** Rows that are due and first in their chat. Repeats the condition of the index `outbox_open` so that it is used. */
export const DUE = `from outbox o
  where o.state in ('pending', 'sending') and o.next_at <= $1 and (o.state = 'pending' or o.leased_until <= $1)
    and not exists (select 1 from outbox e where e.jid = o.jid and e.message_seq < o.message_seq
      and e.state in ('pending', 'sending') and e.created_at > $2)`

export const dueValues = (now: number): [number, string] => [now, timestamp(now - IN_ORDER_MS)]

/** Tolerated clock difference between two machines on one store. */
const SKEW_MS = 10_000
const SHIFT_BATCH = 500

/** Open rows with a future `updated_at`: the clock was set back after they were written. */
const WRITTEN_AHEAD = `from outbox a where a.state in ('pending', 'sending') and a.updated_at > `

/** See suspect-deliveries.ts. */
const IS_SUSPECT = `exists (select 1 from suspects s where s.work = 'delivery' and s.id = o.id)`

/**
 * What has no free slot: platforms, each ending with a colon, and webhooks that post an answer. Each has slots of its own, so that
 * one that hangs delays no other.
 */
type BusyKeys = readonly string[]

/** The slots that a row takes while it is sent. */
export function slotKeys(jid: string): string[] {
  return [`${platformOf(jid)}:`, ...(jid.startsWith('hook:') ? [jid] : [])]
}

const slotsOf = (key: string, limit: number): number => (key.endsWith(':') ? limit : 1)

function notBusy(busy: BusyKeys, after: number): string {
  return busy
    .map((key, at) => {
      const value = `$${after + at + 1}`
      return key.endsWith(':') ? ` and substr(o.jid, 1, length(${value})) <> ${value}` : ` and o.jid <> ${value}`
    })
    .join('')
}

/** Whether `claimOutbox` would claim or shift rows. Polled often, so it only reads. */
export async function hasDueRows(tx: Tx, now: number, busy: BusyKeys): Promise<boolean> {
  const isDue = `${DUE} and not ${IS_SUSPECT}${notBusy(busy, 3)}`
  const sql = `select exists (select 1 ${isDue}) or exists (select 1 ${WRITTEN_AHEAD} $3) as is_due`
  const values = [...dueValues(now), timestamp(now + SKEW_MS), ...busy]
  return (await queryOne(tx, { is_due: flag }, sql, values)).is_due
}

/** Shifts back-offs and leases after the clock was set back, so that they keep their duration. */
async function shiftAhead(tx: Tx, now: number): Promise<void> {
  const rows = await query(
    tx,
    { message_seq: integer, updated_at: text },
    `select a.message_seq, a.updated_at ${WRITTEN_AHEAD} $1 order by a.updated_at desc limit ${SHIFT_BATCH}`,
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

interface OutboxClaim {
  readonly now: number
  readonly forMs: number
}

export interface ClaimedOutboxRow extends OutboxRow {
  /** Its previous attempt never reported its end: it may have been sent. */
  readonly isUnclear: boolean
}

interface OutboxBatchClaim extends OutboxClaim {
  /** Rows of one platform that are sent at a time. */
  readonly limit: number
  /** How many are being sent, by slot key. */
  readonly sending?: ReadonlyMap<string, number>
}

export function busyKeys({ limit, sending = new Map() }: Pick<OutboxBatchClaim, 'limit' | 'sending'>): string[] {
  return [...sending].flatMap(([key, count]) => (count >= slotsOf(key, limit) ? [key] : []))
}

/** Leases due rows, the first of each chat. Rows of other platforms may be due behind them. */
export async function claimOutbox(tx: Tx, claim: OutboxBatchClaim): Promise<ClaimedOutboxRow[]> {
  const { now, limit } = claim
  await shiftAhead(tx, now)
  const busy = busyKeys(claim)
  const sending = new Map(claim.sending)
  const claimed: ClaimedOutboxRow[] = []
  for (const row of await listDue(tx, now, `not ${IS_SUSPECT}${notBusy(busy, 3)}`, limit, ...busy)) {
    const keys = slotKeys(row.jid)
    if (keys.some((key) => (sending.get(key) ?? 0) >= slotsOf(key, limit))) continue
    for (const key of keys) sending.set(key, (sending.get(key) ?? 0) + 1)
    claimed.push(...(await lease(tx, claim, row)))
  }
  return claimed
}

/** Leases a suspect that this process has noted, if it is still due. */
export async function claimSuspect(tx: Tx, claim: OutboxClaim, id: string): Promise<ClaimedOutboxRow | undefined> {
  const due = await listDue(tx, claim.now, `${IS_SUSPECT} and o.id = $4`, 1, id)
  const [row] = due[0] ? await lease(tx, claim, due[0]) : []
  return row
}

type DueRow = Pick<OutboxRow, 'message_seq' | 'id' | 'jid'> & { readonly state: string }

/** Reads no content. */
export function listDue(tx: Tx, now: number, filter: string, limit: number, ...more: string[]): Promise<DueRow[]> {
  return query(
    tx,
    { message_seq: integer, id: text, jid: text, state: text },
    `select o.message_seq, o.id, o.jid, o.state ${DUE} and ${filter} order by o.message_seq limit $3`,
    [...dueValues(now), limit, ...more],
  )
}

async function lease(tx: Tx, { now, forMs }: OutboxClaim, { message_seq, state }: DueRow): Promise<ClaimedOutboxRow[]> {
  const rows = await query(
    tx,
    outbox.decode,
    `update outbox set state = 'sending', fence = fence + 1, attempts = attempts + 1, leased_until = $2,
       updated_at = $3
     where message_seq = $1 returning ${outbox.columns.join(', ')}`,
    [message_seq, now + forMs, timestamp(now)],
  )
  return rows.map((row) => ({ ...row, isUnclear: state === 'sending' }))
}

/** Ends a delivery that has not ended, without another attempt. */
export async function setDeliveryAside(
  tx: Tx,
  { clock }: Pick<WriteContext, 'clock'>,
  id: string,
  error: string,
): Promise<void> {
  await execute(
    tx,
    `update outbox set state = 'failed', error = $2, leased_until = 0, fence = fence + 1, updated_at = $3
     where id = $1 and state in ('pending', 'sending')`,
    [id, error, timestamp(clock.now())],
  )
}

/** Finds a sent message by its own id or by its platform id in this chat. */
export async function findOutbound(tx: Tx, id: string, jid?: string): Promise<OutboxRow | undefined> {
  return (await outbox.find(tx, { id })) ?? (jid === undefined ? undefined : outbox.find(tx, { jid, platform_id: id }))
}

/** Whether a message was sent in this topic of a platform's chat. */
export async function hasOutboundInTopic(tx: Tx, jid: string, topic: string): Promise<boolean> {
  const rows = await query(
    tx,
    {},
    `select 1 as one from outbox where jid = $1 and topic = $2 and ${IN_PLATFORM_TOPIC} limit 1`,
    [jid, topic],
  )
  return rows.length > 0
}
