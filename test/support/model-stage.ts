// The real instance that the model is held against: one store for all runs, a clock in the hand, and what links, rooms,
// schedulers and holders of turns do to it.
import type { TestContext } from 'node:test'
import type { z } from 'zod'
import { takeStatus } from '../../src/agent-socket/status.ts'
import { takeSubmission } from '../../src/agent-socket/submission.ts'
import { type ClaimedTurn, claimTurn } from '../../src/core/claim.ts'
import { fireDue } from '../../src/core/firing.ts'
import { type Inbound, type Received, receive } from '../../src/core/inbound.ts'
import { work } from '../../src/core/ingest.ts'
import { queueUp } from '../../src/core/messages.ts'
import type { Speaking } from '../../src/core/rounds.ts'
import { TURN_RULES, type TurnRules } from '../../src/core/turn-rules.ts'
import { endTurn, releaseTurn, renewTurn, retryTurn, type TurnEnd } from '../../src/core/turns.ts'
import { type OpenHost, openHost } from '../../src/daemons/host.ts'
import { routePiece } from '../../src/daemons/routd/router.ts'
import { call } from '../../src/registry/call.ts'
import type { NamedVerb } from '../../src/registry/resource.ts'
import type { Tx } from '../../src/store/engine.ts'
import type { Address } from '../../src/store/index.ts'
import { run } from '../../src/store/statement.ts'
import { tools } from '../../src/tools/index.ts'
import { fakeClock, seededRandom } from './clock.ts'
import { agent, type EngineName, freshStore } from './host.ts'
import { type Held, LEASE_MS } from './model.ts'
import { addLink, postOf } from './rows.ts'

export const RULES: TurnRules = { ...TURN_RULES, turnsMax: 3 }
const START = Date.UTC(2026, 0, 1, 12)

/** All that a run leaves behind; those that others refer to come last. */
const LEFT_BEHIND = [
  ...['frames', 'rounds', 'envelopes', 'inbox', 'conversations', 'folder_turns', 'session_log', 'engagements'],
  ...['chats', 'outbox', 'turns', 'chat_events', 'messages', 'task_leases', 'task_run_logs', 'scheduled_tasks'],
  ...['cost_log', 'users', 'onboarding', 'routes', 'route_tokens', 'groups'],
]

export class Stage {
  readonly clock = fakeClock(START)
  readonly #random = seededRandom()
  readonly #links = new Map<string, string>()
  readonly #store: Address
  #host: OpenHost | undefined

  constructor(store: Address) {
    this.#store = store
  }

  static async open(t: TestContext, engine: EngineName): Promise<Stage> {
    const stage = new Stage(await freshStore(t, engine))
    t.after(() => stage.#host?.close())
    await stage.restart()
    return stage
  }

  get host(): OpenHost {
    if (!this.#host) throw new Error('it is not open')
    return this.#host
  }

  get speaking(): Speaking {
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

  /** As if nothing had ever been said. */
  async reset(): Promise<void> {
    this.clock.advance(START - this.clock.now())
    await this.write(async (tx) => {
      for (const table of LEFT_BEHIND) await run(tx, `delete from ${table}`)
    })
  }

  /** A link of this folder, into it. It goes when the folder's group does. */
  async link(jid: string, folder: string): Promise<void> {
    this.#links.set(jid, await addLink(this, jid, { owner_folder: folder, target_folder: folder }))
  }

  write<T>(of: (tx: Tx) => Promise<T>): Promise<T> {
    return this.host.engine.transaction(of)
  }

  read<T>(of: (tx: Tx) => Promise<T>): Promise<T> {
    return this.host.engine.read(of)
  }

  /** On the command line. */
  do<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: z.input<I>): Promise<O> {
    return call({ host: this.host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' }, verb, input)
  }

  /** As whoever holds, or thinks that it holds, this turn. */
  async use({ id, fence, folder }: Held, tool: string, input: object): Promise<void> {
    const verb = tools.find(({ toolName }) => toolName === tool)
    if (!verb) throw new Error(`there is no tool ${tool}`)
    await call({ host: this.host, caller: agent(folder), face: 'tool', turn: { id, fence } }, verb, input)
  }

  /** By a link; the id. */
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
    const [verdict] = await this.write((tx) => work.run(tx, dialect, [post]))
    if (verdict !== 'appended') throw new Error(`the post was not taken: ${JSON.stringify(verdict)}`)
    return post.id
  }

  async file(): Promise<void> {
    await this.write((tx) => work.tidy(tx, this.host.engine.dialect))
  }

  receive(inbound: Inbound): Promise<Received> {
    return this.write((tx) => receive(tx, this.speaking, inbound))
  }

  async route(): Promise<void> {
    const { host } = this
    for (let isMore = true; isMore; )
      ({ isMore } = await this.write((tx) => routePiece(tx, { host, assistantName: 'svc' })))
  }

  /** By two schedulers at once. */
  async fire(): Promise<void> {
    const firing = { ...this.speaking, timeZone: this.host.timeZone }
    const fireAll = async (): Promise<void> => {
      for (let count = 1; count > 0; ) ({ count } = await this.write((tx) => fireDue(tx, firing, 2)))
    }
    await Promise.all([fireAll(), fireAll()])
  }

  /** So many ask at once: what each was given, in the order in which they had their turn in the store. */
  async claim(askers: number): Promise<(ClaimedTurn | undefined)[]> {
    let asked = 0
    const claimOne = async (tx: Tx) => {
      await queueUp(tx, this.speaking.dialect)
      const claimed = await claimTurn(tx, RULES, { now: this.clock.now(), forMs: LEASE_MS })
      // Behind the line: nobody else is here before this one has committed.
      return { at: asked++, claimed }
    }
    const all = await Promise.all(Array.from({ length: askers }, () => this.write(claimOne)))
    return all.toSorted((one, other) => one.at - other.at).map(({ claimed }) => claimed)
  }

  async end(held: Held, end: TurnEnd): Promise<boolean> {
    return (await this.write((tx) => endTurn(tx, this.speaking, RULES, held, end))) !== undefined
  }

  retry(held: Held, at: number): Promise<boolean> {
    return this.write((tx) => retryTurn(tx, held, at, 'it did not work'))
  }

  release(held: Held): Promise<void> {
    return this.write((tx) => releaseTurn(tx, held))
  }

  async renew(held: Held): Promise<boolean> {
    return (await this.write((tx) => renewTurn(tx, held, this.clock.now() + LEASE_MS))) !== undefined
  }

  submit(held: Held, params: Readonly<Record<string, unknown>>): Promise<void> {
    return takeSubmission(this.host, held.folder, held, { turn_id: held.id, ...params })
  }

  status(held: Held, text: string): Promise<void> {
    return takeStatus(this.host, held.folder, held, { turn_id: held.id, text })
  }
}
