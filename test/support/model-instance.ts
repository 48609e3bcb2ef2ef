// The real instance that is compared with the model: one store for all runs, a controlled clock, and the operations of links,
// rooms, schedulers and turn owners.
import type { TestContext } from 'node:test'
import type { z } from 'zod'
import { handleSubmitStatus } from '../../src/agent-socket/submit-status.ts'
import { handleSubmitTurn } from '../../src/agent-socket/submit-turn.ts'
import { type InboundMessage, type RecordedInbound, recordInbound } from '../../src/core/messages/inbound.ts'
import { createLinkPostHandler } from '../../src/core/messages/link-inbound.ts'
import { lockMessageOrder } from '../../src/core/messages/messages.ts'
import { fireDueTasks } from '../../src/core/schedule/task-firing.ts'
import type { WriteContext } from '../../src/core/turns/rounds.ts'
import { type ClaimedTurn, claimTurn, renewTurn } from '../../src/core/turns/turn-claim.ts'
import { DEFAULT_TURN_RULES, type TurnRules } from '../../src/core/turns/turn-rules.ts'
import { endTurn, releaseTurn, retryTurn, type TurnEnd } from '../../src/core/turns/turns.ts'
import { type OpenHost, openHost } from '../../src/daemons/process/host.ts'
import { routeBatch } from '../../src/daemons/routd/router.ts'
import { callVerb } from '../../src/registry/call.ts'
import type { NamedVerb } from '../../src/registry/resource.ts'
import type { Tx } from '../../src/store/engine.ts'
import type { StoreAddress } from '../../src/store/index.ts'
import { tools } from '../../src/tools/index.ts'
import { fakeClock, seededRandom } from './clock.ts'
import { agent, type EngineName, freshStore } from './host.ts'
import { LEASE_MS, type TurnLease } from './model.ts'
import { addLink, postOf } from './rows.ts'
import { run } from './sql.ts'

const linkPostHandler = createLinkPostHandler()

export const RULES: TurnRules = { ...DEFAULT_TURN_RULES, turnsMax: 3 }
const START = Date.UTC(2026, 0, 1, 12)

/** The tables that a run fills; referenced ones come last. */
const FILLED_TABLES = [
  ...[
    'frames',
    'rounds',
    'envelopes',
    'inbox',
    'conversations',
    'work_sessions',
    'folder_turns',
    'session_log',
    'engagements',
  ],
  ...['chats', 'outbox', 'turns', 'chat_events', 'messages', 'task_leases', 'task_run_logs', 'scheduled_tasks'],
  ...['cost_log', 'users', 'onboarding', 'routes', 'route_tokens', 'groups'],
]

export class ModelInstance {
  readonly clock = fakeClock(START)
  readonly #random = seededRandom()
  readonly #links = new Map<string, string>()
  readonly #store: StoreAddress
  #host: OpenHost | undefined

  constructor(store: StoreAddress) {
    this.#store = store
  }

  static async open(t: TestContext, engine: EngineName): Promise<ModelInstance> {
    const instance = new ModelInstance(await freshStore(t, engine))
    t.after(() => instance.#host?.close())
    await instance.restart()
    return instance
  }

  get host(): OpenHost {
    if (!this.#host) throw new Error('it is not open')
    return this.#host
  }

  get writeContext(): WriteContext {
    const { engine, clock, random } = this.host
    return { dialect: engine.dialect, clock, random }
  }

  /** Another process on the same store. */
  async restart(): Promise<void> {
    await this.#host?.close()
    this.#host = undefined
    const { clock } = this
    const of = { instance: 'test', webBase: 'http://localhost:8080', secretsKey: 'a key of the tests', rules: RULES }
    this.#host = await openHost({ ...of, store: this.#store, clock, random: this.#random })
  }

  /** Deletes everything. */
  async reset(): Promise<void> {
    this.clock.advance(START - this.clock.now())
    await this.write(async (tx) => {
      for (const table of FILLED_TABLES) await run(tx, `delete from ${table}`)
    })
  }

  /** A link of this folder, into it. It is deleted with the group of the folder. */
  async link(jid: string, folder: string): Promise<void> {
    this.#links.set(jid, await addLink(this, jid, { owner_folder: folder, target_folder: folder }))
  }

  write<T>(of: (tx: Tx) => Promise<T>): Promise<T> {
    return this.host.engine.transaction(of)
  }

  read<T>(of: (tx: Tx) => Promise<T>): Promise<T> {
    return this.host.engine.read(of)
  }

  /** As the command line. */
  callAsHost<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: z.input<I>): Promise<O> {
    return callVerb({ host: this.host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' }, verb, input)
  }

  /** As the current or former owner of this turn. */
  async callTool({ id, fence, folder }: TurnLease, tool: string, input: object): Promise<void> {
    const verb = tools.find(({ toolName }) => toolName === tool)
    if (!verb) throw new Error(`there is no tool ${tool}`)
    await callVerb({ host: this.host, caller: agent(folder), face: 'tool', turn: { id, fence } }, verb, input)
  }

  /** Posts through a link and returns the id. */
  async post(
    jid: string,
    rest: { readonly sender: string; readonly topic: string; readonly text: string },
  ): Promise<string> {
    const post = postOf({ host: this.host }, this.#links.get(jid) ?? '', {
      sender: rest.sender,
      topic: rest.topic === '' ? null : rest.topic,
      content: Buffer.from(rest.text),
      hasRound: jid.startsWith('web:'),
    })
    const { dialect } = this.host.engine
    const [verdict] = await this.write((tx) => linkPostHandler.run(tx, dialect, [post]))
    if (verdict !== 'appended') throw new Error(`the post was not taken: ${JSON.stringify(verdict)}`)
    return post.id
  }

  async file(): Promise<void> {
    await this.write((tx) => linkPostHandler.runDeferred(tx, this.host.engine.dialect))
  }

  receive(inbound: InboundMessage): Promise<RecordedInbound> {
    return this.write((tx) => recordInbound(tx, this.writeContext, inbound))
  }

  async route(): Promise<void> {
    const { host } = this
    for (let isMore = true; isMore; )
      ({ isMore } = await this.write((tx) => routeBatch(tx, { host, assistantName: 'svc' })))
  }

  /** With two schedulers at once. */
  async fire(): Promise<void> {
    const firing = { ...this.writeContext, timeZone: this.host.timeZone }
    const fireAll = async (): Promise<void> => {
      for (let count = 1; count > 0; ) ({ count } = await this.write((tx) => fireDueTasks(tx, firing, 2)))
    }
    await Promise.all([fireAll(), fireAll()])
  }

  /** Claims concurrently and returns the results in the order of their transactions. */
  async claim(askers: number): Promise<(ClaimedTurn | undefined)[]> {
    let asked = 0
    const claimOne = async (tx: Tx) => {
      await lockMessageOrder(tx, this.writeContext.dialect)
      const claimed = await claimTurn(tx, RULES, { now: this.clock.now(), leaseMs: LEASE_MS })
      // Under the lock: no other transaction runs before this one commits.
      return { at: asked++, claimed }
    }
    const all = await Promise.all(Array.from({ length: askers }, () => this.write(claimOne)))
    return all.toSorted((one, other) => one.at - other.at).map(({ claimed }) => claimed)
  }

  async end(held: TurnLease, end: TurnEnd): Promise<boolean> {
    return (await this.write((tx) => endTurn(tx, this.writeContext, RULES, held, end))) !== undefined
  }

  retry(held: TurnLease, at: number): Promise<boolean> {
    return this.write((tx) => retryTurn(tx, held, at, 'it did not work'))
  }

  release(held: TurnLease): Promise<void> {
    return this.write((tx) => releaseTurn(tx, held))
  }

  async renew(held: TurnLease): Promise<boolean> {
    const options = { now: this.clock.now(), leaseMs: LEASE_MS }
    return (await this.write((tx) => renewTurn(tx, RULES, options, held))) !== undefined
  }

  submit(held: TurnLease, params: Readonly<Record<string, unknown>>): Promise<void> {
    return handleSubmitTurn(this.host, held.folder, held, { turn_id: held.id, ...params })
  }

  status(held: TurnLease, text: string): Promise<void> {
    return handleSubmitStatus(this.host, held.folder, held, { turn_id: held.id, text })
  }
}
