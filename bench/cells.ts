// What a cell with a network of its own costs a turn, and what many folders cost while nothing runs, each over the version
// before agents had a user, a system-call filter and network rules.
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { EventReader, type ServerEvent } from '../src/lib/sse.ts'
import { openVersions, type Version } from './baseline.ts'
import { mustHave } from './egress/peers.ts'
import type { Instance } from './instance.ts'
import { median, type Result } from './result.ts'
import { compare, shuffled, untilQuiet } from './rounds.ts'
import { childrenMicros, cpuOf, residentKiB, type Server } from './server.ts'
import { Stage } from './stage.ts'

/** The last commit in which a cell shared the network and the user of svc. */
const BASELINE = '3a08524'
const NAMES = ['now', 'before'] as const
type Name = (typeof NAMES)[number]

const SETTINGS = { SANDBOX: 'bwrap', AGENT_RUNTIME: 'command', AGENT_COMMAND: 'cat >/dev/null; echo ok' }

const TURNS = 250
const WARM_TURNS = 20

export async function benchCellTurns(): Promise<Result[]> {
  mustHave('bwrap', 'bubblewrap')
  await using stage = new CellStage()
  const versions = await openVersions(stage, BASELINE)
  const agents = new Map<Name, Agent>()
  for (const name of NAMES) {
    const { mintChat } = versions[name]
    const instance = await stage.openInstance(versions[name], name)
    const path = await instance.open(mintChat)
    const server = await stage.start(instance.serve())
    agents.set(name, { server, chat: await Chat.open(server.url + path) })
  }
  await takeTurns(agents, WARM_TURNS)
  const before = cpuOfAgents(agents)
  const rounds = await takeTurns(agents, TURNS)
  const after = cpuOfAgents(agents)
  const cpu = { now: (after.now - before.now) / TURNS, before: (after.before - before.before) / TURNS }
  const { ratio, spread } = compare<Name, number>(rounds, NAMES, (ms) => ms)
  const [now, then] = NAMES.map((name) => median(rounds.map((round) => round[name])).toFixed(1))
  return [
    {
      name: `cells: time of a turn of the runtime command over the same at ${BASELINE}`,
      ratio,
      goal: 'at most 1.2',
      detail: `${TURNS} turns each, ${spread}; ${now} ms, at ${BASELINE} ${then} ms`,
    },
    {
      name: `cells: processor time of such a turn, the agent's included, over the same at ${BASELINE}`,
      ratio: cpu.now / cpu.before,
      goal: 'none; watched, because other processes disturb it less',
      detail: `${cpu.now.toFixed(1)} ms, at ${BASELINE} ${cpu.before.toFixed(1)} ms`,
    },
  ]
}

interface Agent {
  readonly server: Server
  readonly chat: Chat
}

/** One turn of each version a round, in random order. */
async function takeTurns(agents: ReadonlyMap<Name, Agent>, count: number): Promise<Record<Name, number>[]> {
  const rounds: Record<Name, number>[] = []
  for (let turn = 0; turn < count; turn++) {
    const round = { now: 0, before: 0 }
    for (const [name, { chat }] of shuffled([...agents])) round[name] = await chat.turnMs()
    rounds.push(round)
  }
  return rounds
}

/** In milliseconds since the start. */
function cpuOfAgents(agents: ReadonlyMap<Name, Agent>): Record<Name, number> {
  const cpu = { now: 0, before: 0 }
  for (const [name, { server }] of agents) cpu[name] = (cpuOf(server).all + childrenMicros(server)) / 1000
  return cpu
}

/** Instances of either version, where the user that agents run as can reach their workspaces. */
class CellStage extends Stage {
  constructor() {
    super()
    chmodSync(this.root, 0o711)
  }

  async openInstance({ openBenchInstance }: Version, name: string): Promise<Instance> {
    const folder = join(this.root, name)
    const instance = await openBenchInstance(folder, SETTINGS)
    chmodSync(folder, 0o711)
    return instance
  }
}

/** One chat link and its stream of events. */
class Chat {
  readonly #url: string
  readonly #events: AsyncGenerator<ServerEvent, void>

  private constructor(url: string, body: ReadableStream<Uint8Array>) {
    this.#url = url
    // Locks the stream now: fetch cancels one that is not locked when its response is garbage-collected.
    this.#events = eventsOf(body.values())
  }

  static async open(url: string): Promise<Chat> {
    const { body } = await fetch(`${url}events`)
    if (!body) throw new Error('the link has no stream')
    return new Chat(url, body)
  }

  /** From the post to the end of its round. */
  async turnMs(): Promise<number> {
    const started = performance.now()
    const headers = { 'Content-Type': 'application/json' }
    const response = await fetch(this.#url, { method: 'POST', headers, body: '{"content":"hello"}' })
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
    await response.arrayBuffer()
    let answer = ''
    for (;;) {
      const { value, done } = await this.#events.next()
      if (done) throw new Error('the stream ended')
      if (value.event === 'message') answer = JSON.parse(value.data).content
      if (value.event === 'round_done') break
    }
    const ms = performance.now() - started
    if (answer !== 'ok') throw new Error(`the turn was answered with ${answer}`)
    return ms
  }
}

async function* eventsOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent, void> {
  const reader = new EventReader()
  for await (const piece of pieces) yield* reader.push(piece)
}

const FOLDERS = 10_000
const STARTS = 3
const IDLE_MS = 10_000

interface IdleFigures {
  /** Milliseconds of processor time in each second. */
  readonly cpu: number
  readonly kib: number
}

export async function benchIdleFolders(): Promise<Result[]> {
  mustHave('bwrap', 'bubblewrap')
  await using stage = new CellStage()
  const versions = await openVersions(stage, BASELINE)
  const instances = new Map<Name, Instance>()
  for (const name of NAMES) {
    const instance = await stage.openInstance(versions[name], name)
    await addFolders(instance, versions[name])
    instances.set(name, instance)
  }
  const rounds: Record<Name, IdleFigures>[] = []
  for (let start = 0; start < STARTS; start++) rounds.push(await idleRound(instances))
  const result = (what: string, unit: string, goal: string, figure: (figures: IdleFigures) => number): Result => {
    const { ratio, spread } = compare<Name, IdleFigures>(rounds, NAMES, figure)
    const [now, before] = NAMES.map((name) => median(rounds.map((round) => figure(round[name]))).toFixed(1))
    return {
      name: `cells: ${what} of an idle instance with ${FOLDERS} folders over the same at ${BASELINE}`,
      ratio,
      goal,
      detail: `${STARTS} starts each, ${spread}; ${now} ${unit}, at ${BASELINE} ${before} ${unit}`,
    }
  }
  return [
    result('memory', 'MiB', 'at most 1.1', ({ kib }) => kib / 1024),
    result('processor time', 'ms a second', 'at most 1.1', ({ cpu }) => cpu),
  ]
}

/** One group is added as the command line does, then its rows are copied: each call would compile the access policy again. */
async function addFolders(instance: Instance, { call, groupsResource }: Version): Promise<void> {
  const asking = { caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
  await instance.open((host) => call({ ...asking, host }, groupsResource.verbs.add, { folder: TEMPLATE }))
  const db = new DatabaseSync(instance.store)
  try {
    // No task may come due while the instance is measured.
    db.exec(`begin; update scheduled_tasks set next_run = '9999-01-01T00:00:00.000Z'`)
    for (const [table, key] of FOLDER_TABLES) copyRows(db, table, key)
    db.exec('commit')
  } finally {
    db.close()
  }
}

/** Tables that hold a new group, and the column that names its folder. */
const FOLDER_TABLES = [
  ['groups', 'folder'],
  ['acl_membership', 'subject'],
  ['scheduled_tasks', 'owner'],
] as const
const TEMPLATE = 'template'

function copyRows(db: DatabaseSync, table: string, key: string): void {
  const names = db.prepare('select name from pragma_table_info(?)').all(table)
  // Only texts: replace() would turn a number into one.
  const columns = names.map(({ name }) => `iif(typeof(${name}) = 'text', replace(${name}, :template, copy), ${name})`)
  db.prepare(
    `with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < :count),
       copies(copy) as (select 'f' || n from numbers),
       originals as materialized (select * from ${table} where ${key} like '%' || :template)
     insert into ${table} select ${columns.join(', ')} from originals, copies`,
  ).run({ template: TEMPLATE, count: FOLDERS - 1 })
}

/** Both idle at the same time, so that other processes disturb both alike. */
async function idleRound(instances: ReadonlyMap<Name, Instance>): Promise<Record<Name, IdleFigures>> {
  await using serving = new AsyncDisposableStack()
  const round = { now: { cpu: 0, kib: 0 }, before: { cpu: 0, kib: 0 } }
  const servers: { readonly name: Name; readonly server: Server }[] = []
  for (const [name, instance] of shuffled([...instances])) {
    const server = await instance.serve()
    serving.defer(() => server.stop())
    await untilQuiet(server)
    servers.push({ name, server })
  }
  const before = servers.map(({ server }) => cpuOf(server).all)
  await sleep(IDLE_MS)
  for (const [at, { name, server }] of servers.entries())
    round[name] = { cpu: (cpuOf(server).all - (before[at] ?? 0)) / IDLE_MS, kib: residentKiB(server) }
  return round
}
