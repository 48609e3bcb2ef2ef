// Compares proxies in rounds: each gets the same load, in an order that changes each round, so that other work of the machine
// affects all of them. If other processes use too much CPU, there are more rounds and the quietest ones count.
import { availableParallelism } from 'node:os'
import type { BenchScope } from '../bench-scope.ts'
import { MissingRequirement, median, type Result } from '../result.ts'
import { compare, shuffled } from '../rounds.ts'
import { busyMicros } from '../server.ts'
import { build, type Load, type Mode, type Options, type Origin, openOrigin, runLoad, threadMs } from './load.ts'
import { ADDRESSES, openOurs } from './ours.ts'
import { LOAD_CORE, mustHave, openSquid, openTinyproxy, type Peer } from './peers.ts'

export const PEERS = { ours: openOurs, squid: openSquid, tinyproxy: openTinyproxy }
export type Name = keyof typeof PEERS

const ROUNDS = 5
/** On a busy machine there are at most this many times more rounds. */
const ROUNDS_FACTOR = 2
/** On a busy machine, no round starts after this time. */
const TIME_LIMIT_MS = 70_000
/** The share of the CPU that other processes may use in a quiet round. */
const OTHERS_MAX = 0.1

export interface Figures extends Load {
  /** CPU time of the origin servers. */
  readonly originMs: number
  /** The share of the CPU that other processes used. */
  readonly others: number
}
export type Round = Readonly<Record<Name, Figures>>

/** The load generator and its origin, pinned to one processor. */
export interface Loader {
  readonly origin: Origin
  readonly program: readonly string[]
}

export async function openLoader(stage: BenchScope): Promise<Loader> {
  if (availableParallelism() < 2)
    throw new MissingRequirement('needs two processors: one for the proxy, one for the load')
  mustHave('cc', 'gcc libc6-dev')
  mustHave('taskset', 'util-linux')
  const origin = await openOrigin(build('origin', stage.root), LOAD_CORE)
  stage.defer(() => origin.stop())
  return { origin, program: [...LOAD_CORE, build('load', stage.root)] }
}

export async function runProxyRounds(
  stage: BenchScope,
  names: readonly Name[],
  mode: Mode,
  createOptions: (origin: Origin) => Options,
): Promise<Round[]> {
  const loader = await openLoader(stage)
  const peers = new Map<Name, Peer>()
  for (const name of names) {
    const peer = await PEERS[name](stage.root)
    stage.defer(() => peer.stop())
    peers.set(name, peer)
  }
  const options = createOptions(loader.origin)
  const round = async (): Promise<Round> => {
    const entries: [Name, Figures][] = []
    for (const [name, peer] of shuffled([...peers])) entries.push([name, await measure(loader, peer, mode, options)])
    // Only the compared proxies have an entry, and only they are read.
    return Object.fromEntries(entries) as Round
  }
  const deadline = performance.now() + TIME_LIMIT_MS
  // The first round is a warm-up.
  await round()
  const rounds: Round[] = []
  const countQuiet = (): number => rounds.filter((each) => othersIn(each) < OTHERS_MAX).length
  const isLate = (): boolean => rounds.length > 0 && performance.now() > deadline
  while (countQuiet() < ROUNDS && rounds.length < ROUNDS * ROUNDS_FACTOR && !isLate()) rounds.push(await round())
  return rounds.sort((a, b) => othersIn(a) - othersIn(b)).slice(0, ROUNDS)
}

function othersIn(round: Round): number {
  return Math.max(...Object.values(round).map(({ others }) => others))
}

async function measure({ origin, program }: Loader, peer: Peer, mode: Mode, options: Options): Promise<Figures> {
  const [busy, originBefore] = [busyMicros(), threadMs(origin.pid)]
  const started = performance.now()
  const load = await runLoad(program, mode, { proxy: peer.port, pid: peer.pid, sources: ADDRESSES, ...options })
  const [after, ms] = [busyMicros(), performance.now() - started]
  const originMs = threadMs(origin.pid) - originBefore
  // `ours` includes ended children, such as the load generator.
  const known = (after.ours - busy.ours) / 1000 + load.proxyMs + originMs
  const others = ((after.machine - busy.machine) / 1000 - known) / (ms * availableParallelism())
  return { ...load, originMs, others: Math.max(0, others) }
}

export interface RatioSpec {
  readonly name: string
  readonly over: readonly [Name, Name]
  readonly goal: string
  readonly figure: (figures: Figures) => number
  readonly unit: string
  readonly digits?: number
}

/** Compares two proxies by the ratio of their figures in the same round, and lists the figures of all. */
export function ratioResult(
  rounds: readonly Round[],
  { name, over, goal, figure, unit, digits = 0 }: RatioSpec,
): Result {
  const { ratio, spread } = compare<Name, Figures>(rounds, over, figure)
  const names = Object.keys(rounds[0] ?? {}).sort() as Name[]
  const figures = names.map((each) => {
    const values = rounds.map((round) => round[each])
    const use = median(values.map(({ proxyMs, ms }) => (proxyMs / ms) * 100))
    return `${each} ${median(values.map(figure)).toFixed(digits)} ${unit} (${use.toFixed(0)} % of its core)`
  })
  const load = median(rounds.flatMap((each) => names.map((one) => loadUse(each[one]))))
  const others = median(rounds.map(othersIn)) * 100
  return {
    name,
    ratio,
    goal,
    detail: `${rounds.length} rounds, ${spread}; ${figures.join(', ')}; load ${load.toFixed(0)} % of its core, others up to ${others.toFixed(0)} % of the machine`,
  }
}

function loadUse({ loadMs, originMs, ms }: Figures): number {
  return ((loadMs + originMs) / ms) * 100
}
