// Hooks through the front door of a served instance, durable, logged and routed, against a bare node:http server that reads
// the body and answers 204. Their turns do not run.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { openPostgres, postgresMissing } from '../test/support/postgres.ts'
import { type Instance, mintHooks, openBenchInstance } from './instance.ts'
import { Missing, median, type Result } from './result.ts'
import { type Contender, compare, type Measured, othersIn, type Round, runRounds, untilQuiet } from './rounds.ts'
import { openBareServer, residentKiB, type Server } from './server.ts'
import { flushMs, Stage } from './stage.ts'
import { countMessages, fillStore } from './stored.ts'
import { burst, CONNECTIONS, mustHaveWrk, writePaths } from './wrk.ts'

const LINKS = 1000
const ROUNDS = 12
const OLD = { messages: 1_000_000, tokens: 100_000 }
/** Requests before memory is looked at, and those that must not change it. */
const WARM = 50_000
const MANY = 200_000

/** An instance with its links, and a file of their paths. */
async function openLinks({ root }: Stage, name: string, settings?: Record<string, string>) {
  const instance = await openBenchInstance(join(root, name), settings)
  const links = await instance.open((host) => mintHooks(host, LINKS))
  return { instance, paths: writePaths(join(root, `${name}-paths`), links) }
}

const to = (server: Server, paths: string): Contender => ({ server, target: { url: server.url, paths } })

export async function benchIngestRate(): Promise<Result[]> {
  mustHaveWrk()
  await using stage = new Stage()
  const { instance, paths } = await openLinks(stage, 'small')
  const nobodys = Array.from({ length: LINKS }, () => `/hook/${randomBytes(32).toString('base64url')}`)
  const svc = await stage.start(instance.serveWithoutTurns())
  const accepted = new Accepted('svc')
  const rounds = await runRounds(
    {
      bare: to(await stage.start(openBareServer()), paths),
      twin: to(await stage.start(openBareServer()), paths),
      svc: to(svc, paths),
      unknown: to(svc, writePaths(join(stage.root, 'nobodys'), nobodys)),
    },
    { rounds: ROUNDS, onBurst: accepted.add },
  )
  const [rate, noise, unknown] = [
    compare(rounds, ['svc', 'bare'], rateOf),
    compare(rounds, ['twin', 'bare'], rateOf),
    compare(rounds, ['unknown', 'bare'], rateOf),
  ]
  const late = compare(rounds, ['svc', 'bare'], ({ p99Ms }) => p99Ms)
  const cpu = compare(rounds, ['svc', 'bare'], ({ mainMicros }) => mainMicros)
  return [
    {
      name: 'ingest: rate over the bare server',
      ratio: rate.ratio,
      goal: 'at least 0.6',
      detail: `${rate.spread}; ${shown(rounds, 'svc')}; bare ${shown(rounds, 'bare')}; a second bare server ${noise.ratio.toFixed(2)} of the first (${noise.spread}); ${around(rounds)}; ${flushed(stage)}`,
    },
    {
      name: 'ingest: p99 over the bare server',
      ratio: late.ratio,
      goal: 'at most 3',
      detail: `${late.spread}; ${mid(rounds, 'svc', ({ p99Ms }) => p99Ms).toFixed(1)} ms; bare ${mid(rounds, 'bare', ({ p99Ms }) => p99Ms).toFixed(1)} ms`,
    },
    {
      name: 'ingest: main-thread processor time a request over the bare server',
      ratio: cpu.ratio,
      goal: 'none; watched',
      detail: `${cpu.spread}; ${micros(rounds, 'svc')}; bare ${micros(rounds, 'bare')}; busy ${mid(rounds, 'svc', ({ settleMs }) => settleMs).toFixed(0)} ms after the last answer`,
    },
    {
      name: 'ingest: unknown token, rate over the bare server',
      ratio: unknown.ratio,
      goal: 'at least 0.75',
      detail: `${unknown.spread}; ${shown(rounds, 'unknown')}`,
    },
    await accepted.compared(instance),
  ]
}

export async function benchIngestMemory(): Promise<Result[]> {
  mustHaveWrk()
  await using stage = new Stage()
  const { instance, paths } = await openLinks(stage, 'small')
  const svc = await stage.start(instance.serveWithoutTurns())
  const accepted = new Accepted('svc')
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
      name: `ingest: memory after ${count(MANY)} more requests`,
      ratio: after / before,
      goal: 'at most 1.1 (flat)',
      detail: `MiB ${sizes.map((size) => size.toFixed(0)).join(', ')}; ${count(sent / seconds)}/s`,
    },
    await accepted.compared(instance),
  ]
}

export async function benchIngestPostgres(): Promise<Result[]> {
  mustHaveWrk()
  const missing = postgresMissing()
  if (missing) throw new Missing(`needs postgres: ${missing} (Debian: apt-get install postgresql)`)
  await using stage = new Stage()
  const postgres = await openPostgres({ durable: true })
  stage.defer(() => postgres.stop())
  const { instance, paths } = await openLinks(stage, 'postgres', { DATABASE_URL: await postgres.createDatabase() })
  const accepted = new Accepted('svc')
  const rounds = await runRounds(
    {
      bare: to(await stage.start(openBareServer()), paths),
      svc: to(await stage.start(instance.serveWithoutTurns()), paths),
    },
    // The database is no child of ours: its work counts as others'.
    { rounds: ROUNDS, patience: 1, onBurst: accepted.add },
  )
  const rate = compare(rounds, ['svc', 'bare'], rateOf)
  return [
    {
      name: 'ingest on PostgreSQL: rate over the bare server',
      ratio: rate.ratio,
      goal: 'at least 0.35',
      detail: `${rate.spread}; ${shown(rounds, 'svc')}; bare ${shown(rounds, 'bare')}; ${micros(rounds, 'svc')}; ${flushed(stage)}`,
    },
    await accepted.compared(instance),
  ]
}

export async function benchIngestBigStore(): Promise<Result[]> {
  mustHaveWrk()
  await using stage = new Stage()
  const [small, big] = [await openLinks(stage, 'small'), await openLinks(stage, 'big')]
  fillStore(big.instance.store, OLD)
  const [few, many] = [
    await stage.start(small.instance.serveWithoutTurns()),
    await stage.start(big.instance.serveWithoutTurns()),
  ]
  await untilQuiet(many)
  const rounds = await runRounds({ small: to(few, small.paths), big: to(many, big.paths) }, { rounds: ROUNDS })
  const rate = compare(rounds, ['big', 'small'], rateOf)
  return [
    {
      name: `ingest with ${count(OLD.messages)} stored messages and ${count(OLD.tokens)} tokens: rate over a small store's`,
      ratio: rate.ratio,
      goal: 'at least 0.9',
      detail: `${rate.spread}; ${shown(rounds, 'big')}; small ${shown(rounds, 'small')}; ${around(rounds)}; ${flushed(stage)}`,
    },
  ]
}

/** Holds the answers of 2xx that the load generator saw against the rows that are there. */
class Accepted {
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

  async compared(instance: Instance): Promise<Result> {
    const rows = await countMessages(instance)
    const most = this.#bursts * CONNECTIONS
    return {
      name: 'ingest: rows stored over answers of 2xx',
      ratio: rows / this.#answers,
      goal: `at least 1; when a burst ends, its last answer on each of ${CONNECTIONS} connections is not heard`,
      detail: `${count(rows)} rows; ${count(this.#answers)} answers; ${count(rows - this.#answers)} more of at most ${count(most)}`,
    }
  }
}

const rateOf = ({ rate }: Measured): number => rate
const count = (value: number): string => Math.round(value).toLocaleString('en')

function mid<N extends string>(rounds: readonly Round<N>[], name: N, figure: (measured: Measured) => number): number {
  return median(rounds.map((round) => figure(round[name])))
}

/** The rate in words; a refusal is an answer, too, and must not pass for more. */
function shown<N extends string>(rounds: readonly Round<N>[], name: N): string {
  const refused = mid(rounds, name, ({ refused, answers }) => refused / answers)
  return `${count(mid(rounds, name, rateOf))}/s${refused > 0 ? ` (${(refused * 100).toFixed(0)} % refused)` : ''}`
}

/** How quiet the machine was. */
function around(rounds: readonly Readonly<Record<string, Measured>>[]): string {
  return `others had ${(median(rounds.map(othersIn)) * 100).toFixed(0)} % of the machine`
}

function flushed({ root }: Stage): string {
  return `a flush of the disk takes ${flushMs(root).toFixed(2)} ms`
}

function micros<N extends string>(rounds: readonly Round<N>[], name: N): string {
  const [main, all] = [
    mid(rounds, name, ({ mainMicros }) => mainMicros),
    mid(rounds, name, ({ allMicros }) => allMicros),
  ]
  return `${main.toFixed(1)} µs, ${all.toFixed(1)} µs of all threads`
}

async function restingMiB(server: Server): Promise<number> {
  await untilQuiet(server)
  return residentKiB(server) / 1024
}
