// Records messages from platforms, tools and the scheduler and adds them to their chats, in the transaction that checks
// whether they are allowed. Messages of links are appended in link-inbound.ts.
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import type { Reach } from '../access/reach.ts'
import { addMessagesToChats } from '../chats/chat-events.ts'
import { rounds, type WriteContext } from '../turns/rounds.ts'
import { type Envelope, envelopes } from './envelopes.ts'
import type { ClientContext } from './messages.ts'
import { lockMessageOrder, messages } from './messages.ts'

export interface InboundMessage {
  readonly jid: string
  readonly sender: string
  readonly content: string | Uint8Array
  readonly reach: Reach
  readonly topic?: string | undefined
  /** Folder that receives it regardless of the routes. */
  readonly target_folder?: string | undefined
  readonly content_type?: string | undefined
  readonly link_context?: string | undefined
  readonly client_context?: ClientContext | undefined
  /** Event name given by a verified sender. */
  readonly event?: string | undefined
  /** Whether a client waits for an answer; its id is then the id of a round. */
  readonly hasRound?: boolean | undefined
  readonly envelope?: Partial<Omit<Envelope, 'message_seq' | 'jid'>> | undefined
}

export interface RecordedInbound {
  readonly id: string
  readonly seq: number
  /** False if the platform has delivered it before. */
  readonly isNew: boolean
  /** Keys to signal within this process after the commit. */
  readonly keys: readonly string[]
}

/** Limits how much of a backlog of other messages one call adds to their chats. */
const BATCHES_MAX = 5

/** The caller emits a signal after the commit, so that the message is routed at once. */
export async function recordInbound(
  tx: Tx,
  { dialect, clock, random, tracer }: WriteContext,
  inbound: InboundMessage,
): Promise<RecordedInbound> {
  await lockMessageOrder(tx, dialect)
  const { envelope, hasRound = false, content, ...rest } = inbound
  const platform_id = envelope?.platform_id
  if (platform_id !== undefined) {
    const existing = await envelopes.find(tx, { jid: inbound.jid, platform_id })
    const message = existing && (await messages.find(tx, { seq: existing.message_seq }))
    if (message) return { id: message.id, seq: message.seq, isNew: false, keys: [inbound.jid] }
  }
  const id = uuidv7(clock, random)
  const startMs = clock.now()
  const created_at = timestamp(startMs)
  const { seq } = await messages.insertReturning(tx, {
    ...rest,
    id,
    direction: 'in',
    kind: 'message',
    content: typeof content === 'string' ? Buffer.from(content) : content,
    created_at,
    ...(hasRound ? { turn_id: id } : {}),
  })
  if (envelope) {
    const { verb = 'message', depth = 0, ...others } = envelope
    await envelopes.insert(tx, { ...others, message_seq: seq, jid: inbound.jid, verb, depth })
  }
  if (hasRound) {
    const { jid, topic, target_folder } = inbound
    await rounds.insert(tx, {
      id,
      jid,
      topic,
      target_folder,
      message_seq: seq,
      status: 'pending',
      last_seq: 0,
      created_at,
    })
  }
  if (tracer) {
    const { jid, target_folder: folder } = inbound
    const fromTurn = envelope?.from_turn
    const via = envelope?.task_id !== undefined ? 'task' : fromTurn === undefined ? 'message' : 'message of an agent'
    tx.onCommit(() => tracer.accepted({ id, jid, folder, fromTurn, via, startMs, endMs: clock.now() }))
  }
  let { isMore, keys } = await addMessagesToChats(tx)
  for (let batch = 1; isMore && batch < BATCHES_MAX; batch++) {
    ;({ isMore } = await addMessagesToChats(tx))
    keys = undefined
  }
  return { id, seq, isNew: true, keys: keys ?? [] }
}
