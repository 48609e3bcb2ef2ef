// Routes messages in the order of their arrival: each gets an inbox row and waits for a turn or has ended. Any number of
// processes may run it, because the cursor moves in the same transaction. See docs/decisions.md#routing.
import { defaultReach } from '../../core/access/reach.ts'
import { addMessagesToChats } from '../../core/chats/chat-events.ts'
import { isLinkChat } from '../../core/delivery/channel.ts'
import { recordOutbound } from '../../core/delivery/outbox.ts'
import { groups } from '../../core/groups/groups.ts'
import { type Envelope, envelopes } from '../../core/messages/envelopes.ts'
import { inbox } from '../../core/messages/inbox.ts'
import { reachOfMessage } from '../../core/messages/message-reach.ts'
import type { RoutedMessage } from '../../core/messages/message-tracer.ts'
import { contentStart, lockMessageOrder, type Message, messages } from '../../core/messages/messages.ts'
import { routeMessage } from '../../core/routing/route-message.ts'
import { conversationOf, type RoutingContext, type RoutingDecision } from '../../core/routing/routing-decision.ts'
import { listUnrouted, ROUTING_BATCH, setMessageAside } from '../../core/routing/unrouted-messages.ts'
import { addWaiting } from '../../core/turns/conversations.ts'
import { writeContextOf } from '../../core/turns/rounds.ts'
import { FAILURE_MESSAGES } from '../../core/turns/turn-failures.ts'
import { endMessages } from '../../core/turns/turns.ts'
import { timestamp } from '../../lib/clock.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { MultiRowStatement } from '../../store/multi-row-statement.ts'
import { execute, flag, integer, query, text } from '../../store/statement.ts'
import { StoreWatcher } from '../process/store-watcher.ts'
import { INTERNAL_ERROR, type SuspectHandling } from '../process/suspect-handling.ts'
import { type AckReaction, AckReactions } from './ack-reactions.ts'

export interface RouterOptions {
  readonly host: InstanceHost
  readonly assistantName: string
  /** Greets chats without a route. */
  readonly greeting?: string | undefined
}

export class Router {
  readonly #options: RouterOptions
  /** Whether the suspects were handled; false if the process stops. */
  readonly #isReady: Promise<boolean>
  readonly #watcher: StoreWatcher
  readonly #unsubscribe: () => void
  readonly #reactions: AckReactions
  /** The cursor of `chat_events` at the last tick, if it was behind then. */
  #unfiledAfter: number | undefined

  constructor({ suspects, ...options }: RouterOptions & { readonly suspects?: SuspectHandling | undefined }) {
    this.#options = options
    this.#reactions = new AckReactions(options.host)
    this.#isReady =
      suspects?.handle('routing', ({ position }, next) => this.#routeUntil(position, next)) ?? Promise.resolve(true)
    this.#watcher = new StoreWatcher({
      host: options.host,
      work: 'arrivals',
      check: (isSignalled) => this.#route(isSignalled),
      onTick: () => void this.#fileAbandoned(),
    })
    this.#unsubscribe = options.host.preCommitSignals.on((_keys, work) => {
      if (work.includes('arrivals')) this.#watcher.notify()
    })
  }

  close(): Promise<void> {
    this.#unsubscribe()
    return this.#watcher.close()
  }

  /** webd files messages after its responses. If its process has died, messages unfiled for two ticks are filed here. */
  async #fileAbandoned(): Promise<void> {
    const { engine, faults } = this.#options.host
    try {
      const unfiledAfter = await engine.read(readUnfiled)
      const isAbandoned = unfiledAfter !== undefined && unfiledAfter === this.#unfiledAfter
      this.#unfiledAfter = unfiledAfter
      if (!isAbandoned || this.#watcher.isClosed) return
      await engine.transaction(async (tx) => {
        await lockMessageOrder(tx, engine.dialect)
        await addMessagesToChats(tx)
      })
      this.#watcher.checkSoon()
    } catch (error) {
      if (!(error instanceof Refusal)) faults.report('job', error)
    }
  }

  async #route(isSignalled: boolean): Promise<void> {
    const { host } = this.#options
    if (!(await this.#isReady)) return
    // Without a signal, check first instead of taking the write lock.
    for (let isMore = isSignalled || (await host.engine.read(hasUnrouted)); isMore && !this.#watcher.isClosed; ) {
      try {
        const routing = this.#routeUntil(Number.POSITIVE_INFINITY, async (_tx, batch) => batch.isMore)
        host.preCommitSignals.emit([], ['turns'])
        isMore = await routing
      } catch (error) {
        if (error instanceof Refusal) throw error
        host.faults.report('job', error)
        await this.#routeEach()
      }
    }
  }

  /** Routes messages up to this number in one transaction, which `then` ends. */
  #routeUntil<T>(seq: number, then: (tx: Tx, batch: RoutingBatchResult) => Promise<T>): Promise<T> {
    const { host } = this.#options
    return host.engine.transaction(async (tx) => {
      const startMs = host.clock.now()
      const batch = await routeBatch(tx, this.#options, seq)
      const { keys, hasOutbox, routed, reactions } = batch
      if (routed) tx.onCommit(() => this.#trace(routed, startMs))
      if (reactions.length > 0) tx.onCommit(() => this.#reactions.send(reactions))
      tx.onCommit(() => host.signals.emit(keys, hasOutbox ? ['turns', 'outbox'] : ['turns']))
      return then(tx, batch)
    })
  }

  /** After an error in a batch: routes its messages one by one and ends those that fail. */
  async #routeEach(): Promise<void> {
    const { host } = this.#options
    for (const { id, position } of await host.engine.read(listUnrouted)) {
      try {
        await this.#routeUntil(position, async () => undefined)
      } catch (error) {
        if (error instanceof Refusal) throw error
        host.faults.report('job', error)
        const aside = await host.engine.transaction((tx) =>
          setMessageAside(tx, writeContextOf(host), id, INTERNAL_ERROR),
        )
        host.signals.emit(aside)
      }
    }
  }

  #trace(routed: readonly TracedRouting[], startMs: number): void {
    const { tracer, clock } = this.#options.host
    for (const each of routed) tracer?.routed({ ...each, startMs, endMs: clock.now() })
  }
}

type TracedRouting = Pick<RoutedMessage, 'id' | 'jid' | 'folder' | 'state'>

const CURSORS = `select r.last_seq as routed, f.last_seq as filed from routing r, filing f where r.id = 1 and f.id = 1`

/** `hooks`: whether the next batch contains webhook posts. */
const NEXT_BATCH = `select r.last_seq as routed, f.last_seq as filed,
    case when exists (select 1 from messages m where m.seq > r.last_seq and m.seq <= r.last_seq + ${ROUTING_BATCH}
      and m.seq <= f.last_seq and m.direction = 'in' and substr(m.jid, 1, 5) = 'hook:') then 1 else 0 end as hooks
  from routing r, filing f where r.id = 1 and f.id = 1`

/** Only filed messages are routed, so that in its chat a question comes before its answer. */
async function hasUnrouted(tx: Tx): Promise<boolean> {
  const [cursors] = await query(tx, { routed: integer, filed: integer }, CURSORS)
  return cursors !== undefined && cursors.routed < cursors.filed
}

async function readUnfiled(tx: Tx): Promise<number | undefined> {
  const [row] = await query(
    tx,
    { filed: integer },
    `select f.last_seq as filed from filing f where f.id = 1 and exists (select 1 from messages where seq > f.last_seq)`,
  )
  return row?.filed
}

interface RoutingBatchResult {
  readonly isMore: boolean
  readonly keys: readonly string[]
  /** Whether a message waits in the outbox. */
  readonly hasOutbox: boolean
  readonly reactions: readonly AckReaction[]
  /** Set if traces are exported. */
  readonly routed?: readonly TracedRouting[] | undefined
}

/** Routes the next batch, at most up to the message with this number. */
export async function routeBatch(
  tx: Tx,
  { host, ...options }: RouterOptions,
  until = Number.POSITIVE_INFINITY,
): Promise<RoutingBatchResult> {
  await lockMessageOrder(tx, host.engine.dialect)
  const [next] = await query(tx, { routed: integer, filed: integer, hooks: flag }, NEXT_BATCH)
  const { routed, filed, hooks: hasHooks } = next ?? { routed: 0, filed: 0, hooks: false }
  if (routed >= Math.min(filed, until)) return { isMore: false, keys: [], hasOutbox: false, reactions: [] }
  const last = Math.min(filed, until, routed + ROUTING_BATCH)
  const batch = new RoutingBatch(tx, { host, ...options, after: routed, hasHooks })
  for (const arrived of await readArrivals(tx, routed, last)) await batch.add(arrived)
  await batch.addHooks(last)
  await batch.write()
  await execute(tx, 'update routing set last_seq = $1 where id = 1', [last])
  return {
    isMore: last < filed,
    keys: batch.keys,
    hasOutbox: batch.hasOutbox,
    reactions: batch.reactions,
    routed: batch.routed,
  }
}

/** Routing needs only the beginning of a content, which may have a megabyte. */
const CONTENT_BYTES = 16_384
const COLUMNS = messages.columns
  .map((name) => (name === 'content' ? `${contentStart(CONTENT_BYTES)} as content` : `m.${name}`))
  .join(', ')

/** Messages that already have an inbox row are fetched history and need no turn. */
const UNROUTED = `m.seq > $1 and m.seq <= $2 and m.direction = 'in'
  and not exists (select 1 from inbox i where i.message_seq = m.seq)`

/** Webhook posts to existing folders: their content does not affect routing, so they are routed without reading it. */
const IS_HOOK = `substr(m.jid, 1, 5) = 'hook:' and m.topic is null and coalesce(m.reach, '${defaultReach('hook:')}') <> 'chat'
  and exists (select 1 from groups g where g.folder = m.target_folder)
  and not exists (select 1 from envelopes h where h.message_seq = m.seq)`

const ADD_HOOKS = `insert into inbox (message_seq, id, jid, folder, topic, chat_topic, sender, verb, state, updated_at, reach)
  select m.seq, m.id, m.jid, m.target_folder, '', '', m.sender, 'message', 'waiting', $3,
    coalesce(m.reach, '${defaultReach('hook:')}')
  from messages m where ${UNROUTED} and ${IS_HOOK} order by m.seq returning folder`
/** The same with what a trace needs. */
const ADD_TRACED_HOOKS = `${ADD_HOOKS}, id, jid`

interface Arrival {
  readonly message: Message
  readonly envelope: Envelope | undefined
}

/** The messages of the batch that are not simple webhook posts. */
async function readArrivals(tx: Tx, after: number, until: number): Promise<Arrival[]> {
  const rows = await query(
    tx,
    (row) => ({ message: messages.decode(row), hasEnvelope: row.has_envelope !== null }),
    `select ${COLUMNS}, e.message_seq as has_envelope from messages m
     left join envelopes e on e.message_seq = m.seq
     where ${UNROUTED} and not (${IS_HOOK}) order by m.seq`,
    [after, until],
  )
  const arrivals: Arrival[] = []
  for (const { message, hasEnvelope } of rows) {
    const envelope = hasEnvelope ? await envelopes.find(tx, { message_seq: message.seq }) : undefined
    arrivals.push({ message, envelope })
  }
  return arrivals
}

const INBOX = new MultiRowStatement(
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

/** First characters of commands and directives; other link messages go to their folder directly. */
const DIRECTIVE_SIGNS = new Set([...'/\\@#['].map((sign) => sign.charCodeAt(0)))

interface RoutingBatchOptions extends RouterOptions {
  /** Sequence number before the first of the batch. */
  readonly after: number
  readonly hasHooks: boolean
}

/** Messages routed in one transaction, with cached lookups. */
class RoutingBatch {
  readonly #tx: Tx
  readonly #options: RoutingBatchOptions
  /** Webhook posts up to this number are routed. */
  #hooksUntil: number
  readonly #folderExists = new Map<string, boolean>()
  readonly #waiting = new Map<string, { folder: string; topic: string; count: number }>()
  readonly #rows: (string | number | null)[][] = []
  readonly keys: string[] = []
  readonly reactions: AckReaction[] = []
  hasOutbox = false
  /** Set if traces are exported. */
  readonly routed: TracedRouting[] | undefined
  #context: RoutingContext | undefined

  constructor(tx: Tx, options: RoutingBatchOptions) {
    this.#tx = tx
    this.#options = options
    this.#hooksUntil = options.after
    this.routed = options.host.tracer && []
  }

  /** Routes the webhook posts up to this number. */
  async addHooks(until: number): Promise<void> {
    if (!this.#options.hasHooks) return
    const now = timestamp(this.#options.host.clock.now())
    const values = [this.#hooksUntil, until, now]
    if (this.routed) {
      const rows = await query(this.#tx, { folder: text, id: text, jid: text }, ADD_TRACED_HOOKS, values)
      for (const { folder } of rows) this.#countWaiting(folder, '')
      this.routed.push(...rows.map((row) => ({ ...row, state: 'waiting' })))
    } else {
      const rows = await query(this.#tx, { folder: text }, ADD_HOOKS, values)
      for (const { folder } of rows) this.#countWaiting(folder, '')
    }
    this.#hooksUntil = until
  }

  async add(arrived: Arrival): Promise<void> {
    const decision = (await this.#decideQuickly(arrived)) ?? (await this.#decide(arrived))
    if (decision.kind === 'end') return this.#end(arrived, decision)
    const { topic, chat_topic, verb } = decision
    if (decision.kind === 'daemon') {
      const reason = `for the channel daemon ${decision.name}`
      await this.#addRow(arrived, { topic, chat_topic, verb, state: 'observed', reason })
      return
    }
    const { folder, kind } = decision
    await this.#addRow(arrived, { folder, topic, chat_topic, verb, state: kind === 'turn' ? 'waiting' : 'observed' })
    if (kind !== 'turn') return this.#endRounds(arrived, 'observed')
    const targetId = arrived.envelope?.platform_id
    if (decision.reaction !== undefined && targetId !== undefined)
      this.reactions.push({ jid: arrived.message.jid, targetId, reaction: decision.reaction })
    this.#countWaiting(folder, topic)
  }

  #countWaiting(folder: string, topic: string): void {
    const key = `${folder}\n${topic}`
    const conversation = this.#waiting.get(key) ?? { folder, topic, count: 0 }
    conversation.count++
    this.#waiting.set(key, conversation)
  }

  /** Writes the inbox rows and the waiting counts of conversations. */
  async write(): Promise<void> {
    const { host } = this.#options
    await INBOX.run(this.#tx, host.engine.dialect, this.#rows)
    this.#rows.length = 0
    const now = timestamp(host.clock.now())
    for (const conversation of this.#waiting.values()) await addWaiting(this.#tx, { ...conversation, now })
    this.#waiting.clear()
  }

  /** For link messages without a command or directive, which are most. */
  async #decideQuickly({ message, envelope }: Arrival): Promise<RoutingDecision | undefined> {
    const { target_folder: folder, jid, content, topic: chat_topic = '' } = message
    if (envelope || folder === undefined || !isLinkChat(jid)) return undefined
    if (!jid.startsWith('hook:') && DIRECTIVE_SIGNS.has(content[firstSign(content)] ?? 0)) return undefined
    const exists = this.#folderExists.get(folder) ?? (await groups.find(this.#tx, { folder })) !== undefined
    this.#folderExists.set(folder, exists)
    if (!exists) return undefined
    const topic = conversationOf({ message }, chat_topic)
    return { kind: 'turn', folder, topic, chat_topic, verb: 'message' }
  }

  async #decide(arrived: Arrival): Promise<RoutingDecision> {
    // A command may act on messages routed just before it.
    await this.addHooks(arrived.message.seq)
    await this.write()
    this.#context ??= await this.#readContext()
    return routeMessage(this.#tx, this.#context, arrived)
  }

  async #readContext(): Promise<RoutingContext> {
    const { host, assistantName, greeting } = this.#options
    return {
      writeContext: writeContextOf(host),
      rules: host.rules,
      policy: await host.policies.read(this.#tx),
      routes: await host.routes.read(this.#tx),
      instance: host.instance,
      showCommands: host.showCommands,
      assistantName,
      greeting,
    }
  }

  async #end(arrived: Arrival, decision: RoutingDecision & { kind: 'end' }): Promise<void> {
    const { outcome, reason, folder, reply, topic, chat_topic, verb } = decision
    const { host } = this.#options
    const { message } = arrived
    await this.#addRow(arrived, { folder, topic, chat_topic, verb, state: outcome, reason })
    await this.write()
    const writeContext = writeContextOf(host)
    if (reply !== undefined) {
      // Shown in the round of the message, as if it were a turn.
      await inbox.update(this.#tx, { id: message.id }, { turn_id: message.id })
      const out = { jid: message.jid, topic: chat_topic, turn_id: message.id, content: reply, engages: false }
      const { keys, isDelivered } = await recordOutbound(this.#tx, writeContext, host.rules, out)
      this.keys.push(...keys)
      if (!isDelivered) this.hasOutbox = true
    }
    const end = { outcome, reason, publicReason: FAILURE_MESSAGES.gone }
    this.keys.push(...(await endMessages(this.#tx, writeContext, [message.id], end)))
  }

  async #endRounds({ message }: Arrival, outcome: 'observed'): Promise<void> {
    if (message.turn_id === undefined) return
    await this.write()
    this.keys.push(...(await endMessages(this.#tx, writeContextOf(this.#options.host), [message.id], { outcome })))
  }

  async #addRow(arrived: Arrival, placement: InboxPlacement): Promise<void> {
    const { host } = this.#options
    const { seq, id, jid, sender } = arrived.message
    const { folder = null, topic, chat_topic, verb, state, reason = null } = placement
    const reach = await reachOfMessage(arrived, placement, () => host.policies.read(this.#tx))
    const now = timestamp(host.clock.now())
    this.routed?.push({ id, jid, folder: folder ?? undefined, state })
    this.#rows.push([seq, id, jid, folder, topic, chat_topic, sender, verb, state, reason, now, reach])
  }
}

interface InboxPlacement {
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
