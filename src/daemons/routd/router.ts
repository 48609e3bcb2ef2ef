// Routes messages, one by one, in the order of their arrival (decision T1): each gets its row in the inbox, and either waits
// for a turn or is at its end. Any number of processes may do it: the cursor is moved in the same transaction.

import { isLinkChat } from '../../core/channel.ts'
import { fileMessages } from '../../core/chats.ts'
import { conversations } from '../../core/conversations.ts'
import { type Decision, decide, type RoutingWorld } from '../../core/decision.ts'
import { type Envelope, envelopes } from '../../core/envelopes.ts'
import { FAILURES } from '../../core/failures.ts'
import { groups } from '../../core/groups.ts'
import { inbox } from '../../core/inbox.ts'
import { isVisitor, reachOfMessage } from '../../core/message-reach.ts'
import { type Message, messages, queueUp } from '../../core/messages.ts'
import { recordOut } from '../../core/outbox.ts'
import { speakingOf } from '../../core/rounds.ts'
import { conversationOf, visitorConversation } from '../../core/routed.ts'
import { endMessages } from '../../core/turns.ts'
import { timestamp } from '../../lib/clock.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { RowsStatement } from '../../store/rows.ts'
import { run } from '../../store/statement.ts'
import { Lookout } from '../lookout.ts'

/** How many messages are routed in one transaction. */
const PIECE = 500

export interface RouterOptions {
  readonly host: Host
  readonly assistantName: string
}

export class Router {
  readonly #options: RouterOptions
  readonly #lookout: Lookout
  /** How far it was filed at the last look, where something was left to file. */
  #left: number | undefined

  constructor(options: RouterOptions) {
    this.#options = options
    this.#lookout = new Lookout({
      host: options.host,
      look: () => this.#route(),
      onTick: () => void this.#fileLeft(),
    })
  }

  close(): Promise<void> {
    return this.#lookout.close()
  }

  /**
   * Whoever takes messages files them behind its answers. Where that process is gone, or never was, what lies there for two
   * looks is filed here.
   */
  async #fileLeft(): Promise<void> {
    const { engine, onStray } = this.#options.host
    try {
      const left = await engine.read(unfiledAfter)
      const isLeft = left !== undefined && left === this.#left
      this.#left = left
      if (!isLeft || this.#lookout.isClosed) return
      await engine.transaction(async (tx) => {
        await queueUp(tx, engine.dialect)
        await fileMessages(tx)
      })
      this.#lookout.soon()
    } catch (error) {
      if (!(error instanceof Refusal)) onStray?.(error)
    }
  }

  async #route(): Promise<void> {
    const { host } = this.#options
    for (let isMore = true; isMore && !this.#lookout.isClosed; ) {
      if (!(await host.engine.read(hasUnrouted))) return
      const routing = host.engine.transaction((tx) => routePiece(tx, this.#options))
      host.routing.emit()
      const routed = await routing
      isMore = routed.isMore
      host.signals.emit(routed.keys)
    }
  }
}

const CURSORS = `select r.last_seq as routed, f.last_seq as filed from routing r, filing f where r.id = 1 and f.id = 1`

/** Only what is filed is routed: in its chat, a question stands before the answer. */
async function hasUnrouted(tx: Tx): Promise<boolean> {
  const { rows } = await run(tx, CURSORS)
  return Number(rows[0]?.routed ?? 0) < Number(rows[0]?.filed ?? 0)
}

async function unfiledAfter(tx: Tx): Promise<number | undefined> {
  const { rows } = await run(
    tx,
    `select f.last_seq as filed from filing f where f.id = 1 and exists (select 1 from messages where seq > f.last_seq)`,
  )
  return rows[0] && Number(rows[0].filed)
}

interface Routed {
  readonly isMore: boolean
  readonly keys: readonly string[]
}

export async function routePiece(tx: Tx, { host, assistantName }: RouterOptions): Promise<Routed> {
  const speaking = speakingOf(host)
  await queueUp(tx, speaking.dialect)
  const { rows: cursors } = await run(tx, CURSORS)
  const [routed, filed] = [Number(cursors[0]?.routed ?? 0), Number(cursors[0]?.filed ?? 0)]
  if (routed >= filed) return { isMore: false, keys: [] }
  const arrived = await arrivals(tx, routed, filed)
  const last = arrived.length < PIECE ? filed : (arrived.at(-1)?.message.seq ?? filed)
  const piece = new Piece(tx, { host, assistantName })
  for (const each of arrived) await piece.add(each)
  await piece.write()
  await run(tx, 'update routing set last_seq = $1 where id = 1', [last])
  return { isMore: last < filed, keys: piece.keys }
}

/** Routing looks at the beginning of a content, of which there may be a megabyte in each. */
const LOOKED_AT_BYTES = 16_384
const COLUMNS = messages.columns
  .map((name) => (name === 'content' ? `substr(m.content, 1, ${LOOKED_AT_BYTES}) as content` : `m.${name}`))
  .join(', ')

interface Arrived {
  readonly message: Message
  readonly envelope: Envelope | undefined
}

/** What has an inbox row already is history that was fetched: it asks for nothing. */
async function arrivals(tx: Tx, after: number, until: number): Promise<Arrived[]> {
  const { rows } = await run(
    tx,
    `select ${COLUMNS}, e.message_seq as has_envelope from messages m
     left join envelopes e on e.message_seq = m.seq
     where m.seq > $1 and m.seq <= $2 and m.direction = 'in'
       and not exists (select 1 from inbox i where i.message_seq = m.seq) order by m.seq limit ${PIECE}`,
    [after, until],
  )
  const arrived: Arrived[] = []
  for (const { has_envelope, ...row } of rows) {
    const message = messages.decode(row)
    const envelope = has_envelope === null ? undefined : await envelopes.find(tx, { message_seq: message.seq })
    arrived.push({ message, envelope })
  }
  return arrived
}

const INBOX = new RowsStatement(
  {
    message_seq: 'bigint',
    id: 'text',
    jid: 'text',
    folder: 'text',
    topic: 'text',
    chat_topic: 'text',
    sender: 'text',
    verb: 'text',
    state: 'text',
    reason: 'text',
    updated_at: 'text',
    reach: 'text',
  },
  `insert into inbox (message_seq, id, jid, folder, topic, chat_topic, sender, verb, state, reason, updated_at, reach)
   select v.message_seq, v.id, v.jid, v.folder, v.topic, v.chat_topic, v.sender, v.verb, v.state, v.reason, v.updated_at,
     v.reach
   from {rows} routing r where r.id = 1 {in order}`,
)

/** What a steered message begins with; anything else of a link goes straight to its folder. */
const STEERING = new Set([...'/\\@#['].map((sign) => sign.charCodeAt(0)))

/** The messages of one transaction, and what is known of the store in it. */
class Piece {
  readonly #tx: Tx
  readonly #options: RouterOptions
  readonly #known = new Map<string, boolean>()
  readonly #waiting = new Map<string, { folder: string; topic: string; count: number }>()
  readonly #rows: (string | number | null)[][] = []
  readonly keys: string[] = []
  #world: RoutingWorld | undefined

  constructor(tx: Tx, options: RouterOptions) {
    this.#tx = tx
    this.#options = options
  }

  async add(arrived: Arrived): Promise<void> {
    const decision = (await this.#straight(arrived)) ?? (await this.#decide(arrived))
    if (decision.kind === 'end') return this.#end(arrived, decision)
    const { topic, chat_topic, verb } = decision
    if (decision.kind === 'daemon') {
      const reason = `for the channel daemon ${decision.name}`
      await this.#row(arrived, { topic, chat_topic, verb, state: 'observed', reason })
      return
    }
    const { folder, kind } = decision
    await this.#row(arrived, { folder, topic, chat_topic, verb, state: kind === 'turn' ? 'waiting' : 'observed' })
    if (kind !== 'turn') return this.#endRounds(arrived, 'observed')
    const key = `${folder}\n${topic}`
    const place = this.#waiting.get(key) ?? { folder, topic, count: 0 }
    place.count++
    this.#waiting.set(key, place)
  }

  /** All rows, and how many wait in each conversation. */
  async write(): Promise<void> {
    const { host } = this.#options
    await INBOX.run(this.#tx, host.engine.dialect, this.#rows)
    this.#rows.length = 0
    const now = timestamp(host.clock.now())
    for (const { folder, topic, count } of this.#waiting.values()) {
      const { numAffectedRows } = await run(
        this.#tx,
        'update conversations set waiting = waiting + $3, updated_at = $4 where folder = $1 and topic = $2',
        [folder, topic, count, now],
      )
      if (Number(numAffectedRows) === 0)
        await conversations.insert(this.#tx, { folder, topic, waiting: count, observed_seq: 0, updated_at: now })
    }
    this.#waiting.clear()
  }

  /** Of a link, and no word to the router: nearly all that comes in numbers. */
  async #straight({ message, envelope }: Arrived): Promise<Decision | undefined> {
    const { target_folder: folder, jid, content, topic: chat_topic = '' } = message
    if (envelope || folder === undefined || !isLinkChat(jid)) return undefined
    if (!jid.startsWith('hook:') && STEERING.has(content[firstSign(content)] ?? 0)) return undefined
    const isThere = this.#known.get(folder) ?? (await groups.find(this.#tx, { folder })) !== undefined
    this.#known.set(folder, isThere)
    if (!isThere) return undefined
    const topic = isVisitor({ message }) ? visitorConversation(jid, chat_topic) : conversationOf(chat_topic)
    return { kind: 'turn', folder, topic, chat_topic, verb: 'message' }
  }

  async #decide(arrived: Arrived): Promise<Decision> {
    // A command may act on what was routed just before it.
    await this.write()
    this.#world ??= await this.#look()
    return decide(this.#tx, this.#world, arrived)
  }

  async #look(): Promise<RoutingWorld> {
    const { host, assistantName } = this.#options
    return {
      speaking: speakingOf(host),
      rules: host.rules,
      policy: await host.policies.read(this.#tx),
      routes: await host.routes.read(this.#tx),
      instance: host.instance,
      assistantName,
    }
  }

  async #end(arrived: Arrived, decision: Decision & { kind: 'end' }): Promise<void> {
    const { outcome, reason, folder, say, topic, chat_topic, verb } = decision
    const { host } = this.#options
    const { message } = arrived
    await this.#row(arrived, { folder, topic, chat_topic, verb, state: outcome, reason })
    await this.write()
    const speaking = speakingOf(host)
    if (say !== undefined) {
      // In the round of whoever asked, as if it were a turn.
      await inbox.update(this.#tx, { id: message.id }, { turn_id: message.id })
      const out = { jid: message.jid, topic: chat_topic, turn_id: message.id, content: say, engages: false }
      this.keys.push(...(await recordOut(this.#tx, speaking, host.rules, out)).keys)
    }
    const told = FAILURES.gone
    this.keys.push(...(await endMessages(this.#tx, speaking, [message.id], { outcome, reason, told })))
  }

  async #endRounds({ message }: Arrived, outcome: 'observed'): Promise<void> {
    if (message.turn_id === undefined) return
    const { host } = this.#options
    await this.write()
    const speaking = speakingOf(host)
    this.keys.push(...(await endMessages(this.#tx, speaking, [message.id], { outcome })))
  }

  async #row(arrived: Arrived, where: Where): Promise<void> {
    const { host } = this.#options
    const { seq, id, jid, sender } = arrived.message
    const { folder = null, topic, chat_topic, verb, state, reason = null } = where
    const reach = await reachOfMessage(arrived, where, () => host.policies.read(this.#tx))
    const now = timestamp(host.clock.now())
    this.#rows.push([seq, id, jid, folder, topic, chat_topic, sender, verb, state, reason, now, reach])
  }
}

interface Where {
  readonly folder?: string | undefined
  readonly topic: string
  readonly chat_topic: string
  readonly verb: string
  readonly state: string
  readonly reason?: string | undefined
}

function firstSign(content: Uint8Array): number {
  let at = 0
  while (at < content.length && (content[at] ?? 0) <= 32) at++
  return at
}
