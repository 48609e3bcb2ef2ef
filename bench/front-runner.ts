// An instance served by a parent, a front and a runner, against the last version in which one process did everything.
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openVersions, type Version } from './baseline.ts'
import { BenchScope } from './bench-scope.ts'
import { NAMES, type Name } from './cell-bench-scope.ts'
import { compareCommandTurns } from './cells.ts'
import { count } from './figures.ts'
import { PacedChats } from './paced-chats.ts'
import { median, type Result } from './result.ts'
import { compare, shuffled, untilQuiet } from './rounds.ts'
import { frontOf, openServer, processMicros, proportionalKiB, type Server } from './server.ts'
import { TurnChat } from './turn-chat.ts'
import { burst, mustHaveWrk, type Target, writePaths } from './wrk.ts'

const BASELINE = '43eee4e'

const HOOK_ROUNDS = 7
const BURST_S = 3
/** Turns a second beside the hooks, and the folders whose people ask for them. */
const TURN_RATE = 20
const TALKERS = 8
/** After a burst, agents answer the hooks for some seconds. */
const SETTLE_MS = 20_000

const TURNS = 300
/** After these most code is compiled, as in a server that has run for minutes. */
const WARM_TURNS = 300

const STARTS = 5
/** V8 collects the garbage of the start after 20 idle seconds; memory is stable from then on. */
const IDLE_MS = 30_000
const MORE_MS = 1500
const PARENT_MB = 25

type Rounds<Figures> = Readonly<Record<Name, Figures>>[]

/** Measures each version `rounds` times, in random order. */
async function measureRounds<Figures>(
  rounds: number,
  measure: (name: Name) => Promise<Figures>,
): Promise<Rounds<Figures>> {
  const measured: Readonly<Record<Name, Figures>>[] = []
  for (let round = 0; round < rounds; round++) {
    const entries: [Name, Figures][] = []
    for (const name of shuffled(NAMES)) entries.push([name, await measure(name)])
    // Both names have an entry, which the type of Object.fromEntries does not tell.
    measured.push(Object.fromEntries(entries) as Record<Name, Figures>)
  }
  return measured
}

/** The median ratio, with both figures in its detail. */
function ratioOf<Figures>(
  rounds: Rounds<Figures>,
  figure: (figures: Figures) => number,
  shown: (value: number) => string,
): Pick<Result, 'ratio' | 'detail'> {
  const { ratio, spread } = compare<Name, Figures>(rounds, NAMES, figure)
  const [now = '', before = ''] = NAMES.map((name) => shown(median(rounds.map((round) => figure(round[name])))))
  return { ratio, detail: `${spread} of ${rounds.length}; ${now}, at ${BASELINE} ${before}` }
}

interface Load {
  /** Hook posts that were answered in a second. */
  readonly rate: number
  /** Processor time of the process that serves requests, per post. */
  readonly micros: number
  readonly p99Ms: number
  /** Of a turn beside the posts. */
  readonly turnMs: number
}

export async function benchFrontHooks(): Promise<Result[]> {
  mustHaveWrk()
  await using scope = new BenchScope()
  const versions = await openVersions(scope, BASELINE)
  const loads = new Map<Name, () => Promise<Load>>()
  for (const name of NAMES) loads.set(name, await openLoad(scope, name, versions[name]))
  const measure = (name: Name): Promise<Load> => loads.get(name)?.() ?? Promise.reject(new Error(name))
  await measureRounds(1, measure)
  const rounds = await measureRounds(HOOK_ROUNDS, measure)
  const ms = (value: number): string => `${value.toFixed(1)} ms`
  return [
    {
      name: `hooks with ${TURN_RATE} turns a second beside them: rate over that at ${BASELINE}`,
      goal: 'at least 1',
      ...ratioOf(
        rounds,
        ({ rate }) => rate,
        (rate) => `${count(rate)}/s`,
      ),
    },
    {
      name: `hooks with turns beside them: processor time of the front per post over that at ${BASELINE}`,
      goal: 'at most 0.9',
      ...ratioOf(
        rounds,
        ({ micros }) => micros,
        (micros) => `${micros.toFixed(1)} µs`,
      ),
    },
    {
      name: `hooks with turns beside them: p99 over that at ${BASELINE}`,
      goal: 'none; watched',
      ...ratioOf(rounds, ({ p99Ms }) => p99Ms, ms),
    },
    {
      name: `turns beside hooks: time of one over that at ${BASELINE}`,
      goal: 'none; watched',
      ...ratioOf(rounds, ({ turnMs }) => turnMs, ms),
    },
  ]
}

async function openLoad(scope: BenchScope, name: Name, version: Version): Promise<() => Promise<Load>> {
  const instance = await version.openBenchInstance(join(scope.root, name))
  const folders = Array.from({ length: TALKERS }, (_, at) => `talk${at}`)
  const { hooks, chats } = await instance.open(async (host) => {
    await version.addFolders(host, folders)
    return {
      hooks: await version.mintHooks(host, 1),
      chats: await Promise.all(folders.map((folder) => version.mintChat(host, folder))),
    }
  })
  const server = await scope.start(instance.serve())
  const target: Target = { url: server.url, paths: writePaths(join(scope.root, `${name}-paths`), hooks) }
  const talk = new PacedChats(chats.map((path) => `${server.url}${path}`))
  scope.defer(() => talk.close())
  const front = frontOf(server)
  return async () => {
    await untilQuiet(server, SETTLE_MS)
    const before = processMicros(front)
    const talking = talk.run(TURN_RATE, BURST_S)
    const { answers, rate, p99Ms, refused } = await burst(target, BURST_S)
    const micros = (processMicros(front) - before) / answers
    if (refused > 0) throw new Error(`${refused} posts were refused`)
    await talking
    return { rate, micros, p99Ms, turnMs: median(talk.take()) }
  }
}

export async function benchFrontFirstFrame(): Promise<Result[]> {
  await using scope = new BenchScope()
  const versions = await openVersions(scope, BASELINE)
  const chats = new Map<Name, TurnChat>()
  for (const name of NAMES) {
    const instance = await versions[name].openBenchInstance(join(scope.root, name))
    const path = await instance.open(versions[name].mintChat)
    const { url } = await scope.start(instance.serve())
    chats.set(name, await TurnChat.open(`${url}${path}`))
  }
  const measure = async (name: Name): Promise<number> => (await chats.get(name)?.turn('/say hello'))?.frameMs ?? 0
  await measureRounds(WARM_TURNS, measure)
  const rounds = await measureRounds(TURNS, measure)
  return [
    {
      name: `turns: time to the first frame over that at ${BASELINE}`,
      goal: 'at most 1.2',
      ...ratioOf(
        rounds,
        (ms) => ms,
        (ms) => `${ms.toFixed(2)} ms`,
      ),
    },
  ]
}

export function benchFrontCommand(): Promise<Result[]> {
  return compareCommandTurns(BASELINE, 'at most 1.1')
}

interface Start {
  readonly readyMs: number
  /** Memory of all processes before the first turn. */
  readonly mb: number
  /** Time to the first frame of the first turn. */
  readonly frameMs: number
}

export async function benchFrontStart(): Promise<Result[]> {
  await using scope = new BenchScope()
  const versions = await openVersions(scope, BASELINE)
  const starts = new Map<Name, (idleMs: number) => Promise<Start>>()
  for (const name of NAMES) starts.set(name, await openStart(scope, name, versions[name]))
  const measure = (name: Name, idleMs: number): Promise<Start> =>
    starts.get(name)?.(idleMs) ?? Promise.reject(new Error(name))
  // The first start compiles and caches the code.
  await measureRounds(1, (name) => measure(name, 0))
  const rounds = await measureRounds(STARTS, (name) => measure(name, IDLE_MS))
  const middle = (name: Name, figure: keyof Start): number => median(rounds.map((round) => round[name][figure]))
  const [mb, mbBefore] = [middle('now', 'mb'), middle('before', 'mb')]
  const [frameMs, frameMsBefore] = [middle('now', 'frameMs'), middle('before', 'frameMs')]
  return [
    {
      name: `memory before the first turn over 1.05 times that at ${BASELINE} and ${PARENT_MB} MB`,
      ratio: mb / (1.05 * mbBefore + PARENT_MB),
      goal: 'at most 1',
      detail: `${STARTS} starts each; ${mb.toFixed(1)} MB, at ${BASELINE} ${mbBefore.toFixed(1)} MB, proportional set size of all processes`,
    },
    {
      name: `first turn of all: time to its first frame beyond that at ${BASELINE}, over ${MORE_MS / 1000} s`,
      ratio: (frameMs - frameMsBefore) / MORE_MS,
      goal: 'at most 1',
      detail: `${STARTS} starts each; ${frameMs.toFixed(0)} ms, at ${BASELINE} ${frameMsBefore.toFixed(0)} ms`,
    },
    {
      name: `start of svc serve to ready over that at ${BASELINE}`,
      goal: 'none; watched',
      ...ratioOf(
        rounds,
        ({ readyMs }) => readyMs,
        (ms) => `${ms.toFixed(0)} ms`,
      ),
    },
  ]
}

async function openStart(scope: BenchScope, name: Name, version: Version): Promise<(idleMs: number) => Promise<Start>> {
  const folder = join(scope.root, name)
  const instance = await version.openBenchInstance(folder)
  const path = await instance.open(version.mintChat)
  // Pages of its own file are shared only by the processes of this instance.
  const node = join(scope.root, `node-${name}`)
  copyFileSync(process.execPath, node)
  const env = { SVC_DATA_DIR: folder, XDG_CACHE_HOME: join(folder, 'cache') }
  const serve = (): Promise<Server> =>
    openServer('proxyd', [join(version.root, 'bin', 'svc.js'), 'serve', 'bench'], env, node)
  return async (idleMs) => {
    const started = performance.now()
    const server = await serve()
    try {
      const readyMs = performance.now() - started
      await untilQuiet(server)
      await sleep(idleMs)
      const mb = (proportionalKiB(server) * 1024) / 1e6
      const chat = await TurnChat.open(`${server.url}${path}`)
      const { frameMs } = await chat.turn('/say hello')
      return { readyMs, mb, frameMs }
    } finally {
      await server.stop()
    }
  }
}
