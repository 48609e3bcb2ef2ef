// A message that arrives other than by a link: from a platform, from a tool, from the scheduler. Recorded and filed in one
// transaction with the check that it may; routed like every other.
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import type { Reach } from '../access/reach.ts'
import { addMessagesToChats } from '../chats/chat-events.ts'
import { rounds, type WriteContext } from '../turns/rounds.ts'
import { type Envelope, envelopes } from './envelopes.ts'
import { lockMessageOrder, messages } from './messages.ts'

export interface InboundMessage {
  readonly jid: string
  readonly sender: string
  readonly content: string | Uint8Array
  /** What it may ask for. */
  readonly reach: Reach
  readonly topic?: string | undefined
  /** The folder it goes to, whatever the routes say. */
  readonly target_folder?: string | undefined
  readonly content_type?: string | undefined
  readonly link_context?: string | undefined
  /** Whether somebody waits for an answer: then its id is the handle of a round. */
  readonly hasRound?: boolean | undefined
  readonly envelope?: Partial<Omit<Envelope, 'message_seq' | 'jid'>> | undefined
}

export interface RecordedInbound {
  readonly id: string
  readonly seq: number
  /** False where the platform has given us this one before. */
  readonly isNew: boolean
  /** Whom it concerns, for the signals of this process. */
  readonly keys: readonly string[]
}

/** Of what others have sent and nobody has filed, so much is filed on the way; more is on its way already. */
const PIECES_MAX = 5

/** Whoever calls this emits a signal once it is committed, so that it is routed at once. */
export async function recordInbound(
  tx: Tx,
  { dialect, clock, random }: WriteContext,
  inbound: InboundMessage,
): Promise<RecordedInbound> {
  await lockMessageOrder(tx, dialect)
  const { envelope, hasRound = false, content, ...rest } = inbound
  const platform_id = envelope?.platform_id
  if (platform_id !== undefined) {
    const known = await envelopes.find(tx, { jid: inbound.jid, platform_id })
    const message = known && (await messages.find(tx, { seq: known.message_seq }))
    if (message) return { id: message.id, seq: message.seq, isNew: false, keys: [inbound.jid] }
  }
  const id = uuidv7(clock, random)
  const created_at = timestamp(clock.now())
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
    const { verb = 'message', depth = 0, ...known } = envelope
    await envelopes.insert(tx, { ...known, message_seq: seq, jid: inbound.jid, verb, depth })
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
  let { isMore, keys } = await addMessagesToChats(tx)
  for (let piece = 1; isMore && piece < PIECES_MAX; piece++) {
    ;({ isMore } = await addMessagesToChats(tx))
    keys = undefined
  }
  return { id, seq, isNew: true, keys: keys ?? [] }
}
