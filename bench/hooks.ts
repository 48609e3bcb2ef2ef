// Hook posts through proxyd to an instance with all daemons on and the demo runtime, against a bare node:http server that
// reads the body and answers 204. svc stores, logs, routes and answers each post.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openPostgres, postgresMissing } from '../test/support/postgres.ts'
import { BenchScope } from './bench-scope.ts'
import { roundsPerSecond } from './chat-clients.ts'
import { count, describeMachine, middleOf, p99Of, rateOf, shownMicros, shownRate } from './figures.ts'
import { addFolders, type Instance, mintChat, mintHooks, openBenchInstance, unknownHooks } from './instance.ts'
import { MissingRequirement, median, type Result } from './result.ts'
import { type Contender, compare, type Round, runRounds, untilQuiet } from './rounds.ts'
import { openBareServer, residentKiB, type Server } from './server.ts'
import { countMessages, fillIndex, fillStore } from './store-rows.ts'
import { burst, CONNECTIONS, mustHaveWrk, writePaths } from './wrk.ts'

const LINKS = 1000
const FOLDERS = 100
const ROUNDS = 5
/** Longer than a second, so that turns run while hooks arrive. */
const BURST_S = 2
/** Agents take minutes to answer a burst, so the benchmark does not wait for the last turn. */
const SETTLE_MS = 3000
const OLD = { messages: 1_000_000, tokens: 100_000, turns: 100_000 }
/** Folders whose people chat with agents while hooks arrive. */
const TALKERS = 8
const TALK_ROUNDS = 3
/** Requests before memory is first measured, and requests that must not increase it. */
const WARM = 50_000
const MANY = 200_000

interface Links {
  readonly instance: Instance
  /** A file with their paths. */
  readonly paths: string
}

async function openLinks(
  { root }: BenchScope,
  name: string,
  { links = 1, folders = ['main'], settings = {} as Record<string, string> } = {},
): Promise<Links> {
  const instance = await openBenchInstance(join(root, name), settings)
  const paths = await instance.open(async (host) => {
    await addFolders(host, folders)
    return mintHooks(host, links, folders)
  })
  return { instance, paths: writePaths(join(root, `${name}-paths`), paths) }
}

const to = (server: Server, paths: string): Contender => ({ server, target: { url: server.url, paths } })

export async function benchHooks(): Promise<Result[]> {
  mustHaveWrk()
  await using scope = new BenchScope()
  const { instance, paths } = await openLinks(scope, 'one')
  const folders = Array.from({ length: TALKERS }, (_, at) => `talk${at}`)
  const chats = await instance.open(async (host) => {
    await addFolders(host, folders)
    return Promise.all(folders.map((folder) => mintChat(host, folder)))
  })
  const svc = await scope.start(instance.serve())
  const accepted = new AcceptedCounter('svc')
  const rounds = await runRounds(
    {
      bare: to(await scope.start(openBareServer()), paths),
      twin: to(await scope.start(openBareServer()), paths),
      svc: to(svc, paths),
    },
    { rounds: ROUNDS, seconds: BURST_S, maxFactor: 1, settleMs: SETTLE_MS, onBurst: accepted.add },
  )
  const noise = compare(rounds, ['twin', 'bare'], rateOf)
  const late = compare(rounds, ['svc', 'bare'], p99Of)
  return [
    overBare(scope, rounds, 'hooks at one link: rate over the bare server', 'at least 0.3'),
    {
      name: 'hooks at one link: p99 over 50 ms',
      ratio: middleOf(rounds, 'svc', p99Of) / 50,
      goal: 'at most 1',
      detail: `${middleOf(rounds, 'svc', p99Of).toFixed(1)} ms; ${late.ratio.toFixed(1)} times that of the bare server (${late.spread}); a second bare server has ${noise.ratio.toFixed(2)} of the first one's rate (${noise.spread})`,
    },
    await turnsUnderFlood(svc, {
      chats: chats.map((path) => `${svc.url}${path}`),
      flood: async () => accepted.add('svc', await burst({ url: svc.url, paths }, BURST_S)),
    }),
    await accepted.compareWithRows(instance, 'hook:'),
  ]
}

interface Flood {
  readonly chats: readonly string[]
  flood(): Promise<void>
}

/** Turns of people in their own folders while hooks flood another folder, against the same turns without hooks. */
async function turnsUnderFlood(svc: Server, { chats, flood }: Flood): Promise<Result> {
  await roundsPerSecond(chats, () => sleep(BURST_S * 1000))
  const rounds: { alone: number; flooded: number }[] = []
  for (let round = 0; round < TALK_ROUNDS; round++) {
    await untilQuiet(svc, SETTLE_MS)
    const alone = await roundsPerSecond(chats, () => sleep(BURST_S * 1000))
    await untilQuiet(svc, SETTLE_MS)
    rounds.push({ alone, flooded: await roundsPerSecond(chats, flood) })
  }
  const kept = compare(rounds, ['flooded', 'alone'], (rate: number) => rate)
  const shown = (name: 'alone' | 'flooded'): string => median(rounds.map((round) => round[name])).toFixed(0)
  return {
    name: 'hooks at one link: turns of other folders in a second beside them, over the same without hooks',
    ratio: kept.ratio,
    goal: 'at least 0.25',
    detail: `${kept.spread}; ${shown('flooded')}/s beside hooks, ${shown('alone')}/s alone, in ${chats.length} folders`,
  }
}

export async function benchHooksManyLinks(): Promise<Result[]> {
  mustHaveWrk()
  await using scope = new BenchScope()
  const folders = Array.from({ length: FOLDERS }, (_, at) => `f${at}`)
  const { instance, paths } = await openLinks(scope, 'many', { links: LINKS, folders })
  const accepted = new AcceptedCounter('svc')
  const rounds = await runRounds(
    {
      bare: to(await scope.start(openBareServer()), paths),
      svc: to(await scope.start(instance.serve()), paths),
    },
    { rounds: ROUNDS, seconds: BURST_S, maxFactor: 1, settleMs: SETTLE_MS, onBurst: accepted.add },
  )
  const name = `hooks at ${count(LINKS)} links in ${FOLDERS} folders: rate over the bare server`
  return [overBare(scope, rounds, name, 'at least 0.3'), await accepted.compareWithRows(instance)]
}

export async function benchUnknownToken(): Promise<Result[]> {
  mustHaveWrk()
  await using scope = new BenchScope()
  const { instance } = await openLinks(scope, 'unknown')
  const paths = writePaths(join(scope.root, 'unknown-paths'), unknownHooks(LINKS))
  const rounds = await runRounds(
    {
      bare: to(await scope.start(openBareServer()), paths),
      svc: to(await scope.start(instance.serve()), paths),
    },
    { rounds: ROUNDS },
  )
  return [overBare(scope, rounds, 'unknown token: rate over the bare server', 'at least 0.6')]
}

export async function benchHooksMemory(): Promise<Result[]> {
  mustHaveWrk()
  await using scope = new BenchScope()
  const { instance, paths } = await openLinks(scope, 'memory', { links: LINKS })
  const svc = await scope.start(instance.serve())
  const accepted = new AcceptedCounter('svc')
  const sizes: number[] = []
  let [sent, seconds] = [0, 0]
  while (sent < WARM + MANY) {
    const done = await burst(to(svc, paths).target, 2)
    accepted.add('svc', done)
    sent += done.answers
    seconds += 2
    if (sent >= WARM) sizes.push(await restingMiB(svc))
  }
  const [before = 0, after = 0] = [sizes[0], sizes.at(-1)]
  return [
    {
      name: `hooks: memory after ${count(MANY)} more requests`,
      ratio: after / before,
      goal: 'at most 1.1 (flat)',
      detail: `MiB ${sizes.map((size) => size.toFixed(0)).join(', ')}; ${count(sent / seconds)}/s`,
    },
    await accepted.compareWithRows(instance),
  ]
}

export async function benchHooksPostgres(): Promise<Result[]> {
  mustHaveWrk()
  const missing = postgresMissing()
  if (missing) throw new MissingRequirement(`needs postgres: ${missing} (Debian: apt-get install postgresql)`)
  await using scope = new BenchScope()
  const postgres = await openPostgres({ durable: true })
  scope.defer(() => postgres.stop())
  const settings = { DATABASE_URL: await postgres.createDatabase() }
  const { instance, paths } = await openLinks(scope, 'postgres', { settings })
  const accepted = new AcceptedCounter('svc')
  const rounds = await runRounds(
    {
      bare: to(await scope.start(openBareServer()), paths),
      svc: to(await scope.start(instance.serve()), paths),
    },
    // The database is not a child process, so its work counts as that of other processes.
    { rounds: ROUNDS, seconds: BURST_S, maxFactor: 1, settleMs: SETTLE_MS, onBurst: accepted.add },
  )
  return [
    overBare(scope, rounds, 'hooks at one link on PostgreSQL: rate over the bare server', 'at least 0.3'),
    await accepted.compareWithRows(instance),
  ]
}

export async function benchHooksBigStore(): Promise<Result[]> {
  mustHaveWrk()
  await using scope = new BenchScope()
  const [small, big] = [await openLinks(scope, 'small'), await openLinks(scope, 'big')]
  fillStore(big.instance.store, OLD)
  await fillIndex(big.instance)
  const [few, many] = [await scope.start(small.instance.serve()), await scope.start(big.instance.serve())]
  await untilQuiet(many)
  const rounds = await runRounds(
    { small: to(few, small.paths), big: to(many, big.paths) },
    { rounds: ROUNDS, seconds: BURST_S, maxFactor: 1 },
  )
  const rate = compare(rounds, ['big', 'small'], rateOf)
  const cpu = compare(rounds, ['big', 'small'], ({ allMicros }) => allMicros)
  return [
    {
      name: `hooks with ${count(OLD.messages)} messages, ${count(OLD.turns)} turns and ${count(OLD.tokens)} tokens stored: rate over an empty store's`,
      ratio: rate.ratio,
      goal: 'at least 0.9',
      detail: `${rate.spread}; ${shownRate(rounds, 'big')}; empty ${shownRate(rounds, 'small')}; processor time a request ${cpu.ratio.toFixed(2)} times as much (${cpu.spread}); ${describeMachine(rounds, scope)}`,
    },
  ]
}

function overBare(scope: BenchScope, rounds: readonly Round<'svc' | 'bare'>[], name: string, goal: string): Result {
  const { ratio, spread } = compare(rounds, ['svc', 'bare'], rateOf)
  const cpu = compare(rounds, ['svc', 'bare'], ({ allMicros }) => allMicros)
  const settled = middleOf(rounds, 'svc', ({ settleMs }) => settleMs)
  return {
    name,
    ratio,
    goal,
    detail: `${spread}; ${shownRate(rounds, 'svc')}, p99 ${middleOf(rounds, 'svc', p99Of).toFixed(1)} ms; bare ${shownRate(rounds, 'bare')}, p99 ${middleOf(rounds, 'bare', p99Of).toFixed(1)} ms; ${shownMicros(rounds, 'svc')}, ${cpu.ratio.toFixed(1)} times that of the bare server; busy ${settled.toFixed(0)} ms after the last answer; ${describeMachine(rounds, scope)}`,
  }
}

/** Compares the number of 2xx answers that the load generator received with the number of stored rows. */
class AcceptedCounter {
  #answers = 0
  #bursts = 0
  readonly #name: string

  constructor(name: string) {
    this.#name = name
  }

  readonly add = (name: string, { answers, refused }: { answers: number; refused: number }): void => {
    if (name !== this.#name) return
    this.#answers += answers - refused
    this.#bursts++
  }

  async compareWithRows(instance: Instance, chats = ''): Promise<Result> {
    const rows = await countMessages(instance, chats)
    const most = this.#bursts * CONNECTIONS
    return {
      name: 'hooks: rows stored over answers of 2xx',
      ratio: rows / this.#answers,
      goal: `at least 1; when a burst ends, its last answer on each of ${CONNECTIONS} connections is not received`,
      detail: `${count(rows)} rows; ${count(this.#answers)} answers; ${count(rows - this.#answers)} more of at most ${count(most)}`,
    }
  }
}

async function restingMiB(server: Server): Promise<number> {
  await untilQuiet(server)
  return residentKiB(server) / 1024
}
