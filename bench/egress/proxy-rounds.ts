// Where the proxies meet: the same load for each in turn, in an order that is another one each round, so that what the
// machine does beside falls on all of them. Where other processes take too much of the machine there are more rounds, and
// those count in which they took least.
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
const PATIENCE = 2
/** On a machine that is busy otherwise, after so long the rounds that there are must do. */
const CONTEST_MS = 70_000
/** The part of the machine that others may take in a round that counts at once. */
const OTHERS = 0.1

export interface Figures extends Load {
  /** Milliseconds on a processor of the servers behind the proxies. */
  readonly originMs: number
  /** The part of the machine that neither the proxy nor the load had. */
  readonly others: number
}
export type Round = Readonly<Record<Name, Figures>>

/** What loads the proxies, on a processor of its own. */
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

/** `names` are those that take part; the measure is the same for all of them. */
export async function runProxyRounds(
  stage: BenchScope,
  names: readonly Name[],
  mode: Mode,
  optionsOf: (origin: Origin) => Options,
): Promise<Round[]> {
  const loader = await openLoader(stage)
  const peers = new Map<Name, Peer>()
  for (const name of names) {
    const peer = await PEERS[name](stage.root)
    stage.defer(() => peer.stop())
    peers.set(name, peer)
  }
  const options = optionsOf(loader.origin)
  const round = async (): Promise<Round> => {
    const entries: [Name, Figures][] = []
    for (const [name, peer] of shuffled([...peers])) entries.push([name, await measure(loader, peer, mode, options)])
    // Every name that takes part has its entry, and no other is asked for.
    return Object.fromEntries(entries) as Round
  }
  const deadline = performance.now() + CONTEST_MS
  // The first only warms up.
  await round()
  const rounds: Round[] = []
  const quiet = (): number => rounds.filter((each) => othersIn(each) < OTHERS).length
  const isLate = (): boolean => rounds.length > 0 && performance.now() > deadline
  while (quiet() < ROUNDS && rounds.length < ROUNDS * PATIENCE && !isLate()) rounds.push(await round())
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
  // This process and its children that ended, the load generator among them, are ours.
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

/** The ratio of two proxies' figures of the same round, with the figures of all. */
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
