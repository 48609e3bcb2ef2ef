// Bursts of load at several servers in turn, in an order that is another one each round, so that what the machine does
// beside falls on all of them. Figures of one round are held against each other, never against another round's. Where other
// processes take too much of the machine, there are more rounds, and those count in which they took least.
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { median, middleHalf } from './result.ts'
import { busyMicros, cpuOf, type Server } from './server.ts'
import { type Burst, burst, type Target } from './wrk.ts'

const BURST_S = 1
const WARM_S = 3
/** A server is quiet when it needs less than this part of a processor. */
const QUIET = 0.05
const QUIET_MS = 100
/** A server that has turns left to run is not quiet for minutes. */
const SETTLE_MAX_MS = 5000
/** The part of the machine that others may take in a round that counts at once. */
const OTHERS = 0.1
const PATIENCE = 3

export interface Contender {
  readonly server: Server
  readonly target: Target
}

export interface Measurement extends Burst {
  /** Microseconds of processor a request: of the main thread, and of all threads. */
  readonly mainMicros: number
  readonly allMicros: number
  /** How long the server worked on after the last answer. */
  readonly settleMs: number
  /** The part of the machine that neither the server nor the load generator had. */
  readonly others: number
}

export type Round<Name extends string> = Readonly<Record<Name, Measurement>>

export interface RoundsOptions<Name extends string> {
  readonly rounds: number
  /** Seconds of each burst. */
  readonly seconds?: number
  /** How many times as many rounds there are at most, where others take too much of the machine. */
  readonly patience?: number
  /** How long the next burst waits for the server to finish its background work; work that takes longer is counted in that burst. */
  readonly settleMs?: number
  onBurst?(name: Name, burst: Burst): void
}

/** One round with each contender hit once, in random order. The first seconds only warm up. */
export async function runRounds<Name extends string>(
  contenders: Readonly<Record<Name, Contender>>,
  { rounds, seconds = BURST_S, patience = PATIENCE, settleMs, onBurst }: RoundsOptions<Name>,
): Promise<Round<Name>[]> {
  const names = Object.keys(contenders) as Name[]
  const hit = async (name: Name, seconds: number): Promise<Measurement> => {
    const measured = await measure(contenders[name], seconds, settleMs)
    onBurst?.(name, measured)
    return measured
  }
  for (const name of names) await hit(name, WARM_S)
  const measured: Round<Name>[] = []
  const quiet = (): number => measured.filter((round) => othersIn(round) < OTHERS).length
  while (quiet() < rounds && measured.length < rounds * patience) {
    const entries: [Name, Measurement][] = []
    for (const name of shuffled(names)) entries.push([name, await hit(name, seconds)])
    // Every name has its entry, which Object.fromEntries cannot say.
    measured.push(Object.fromEntries(entries) as Round<Name>)
  }
  return measured.sort((a, b) => othersIn(a) - othersIn(b)).slice(0, rounds)
}

/** What others had in the burst where they had most. */
export function othersIn(round: Readonly<Record<string, Measurement>>): number {
  return Math.max(...Object.values(round).map(({ others }) => others))
}

async function measure({ server, target }: Contender, seconds: number, settleMs?: number): Promise<Measurement> {
  const [before, busy, started] = [cpuOf(server), busyMicros(), performance.now()]
  const done = await burst(target, seconds)
  const answered = performance.now()
  const [own, all] = [cpuOf(server).all - before.all, busyMicros()]
  const others = all.machine - busy.machine - (all.ours - busy.ours) - own
  await untilQuiet(server, settleMs)
  // Background work after the last answer counts as part of the requests.
  const after = cpuOf(server)
  return {
    ...done,
    mainMicros: (after.main - before.main) / done.answers,
    allMicros: (after.all - before.all) / done.answers,
    settleMs: performance.now() - answered - QUIET_MS,
    others: others / ((answered - started) * 1000 * availableParallelism()),
  }
}

export async function untilQuiet(server: Server, mostMs = SETTLE_MAX_MS): Promise<void> {
  const deadline = performance.now() + mostMs
  while (performance.now() < deadline) {
    const before = cpuOf(server).all
    await sleep(QUIET_MS)
    if (cpuOf(server).all - before < QUIET * QUIET_MS * 1000) return
  }
}

export function shuffled<T>(values: readonly T[]): T[] {
  return values
    .map((value) => ({ value, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value)
}

/** The ratio of two figures of the same round: its median, and the middle half in words. */
export function compare<Name extends string, Figures = Measurement>(
  rounds: readonly Readonly<Record<Name, Figures>>[],
  over: readonly [Name, Name],
  figure: (figures: Figures) => number,
): { readonly ratio: number; readonly spread: string } {
  const ratios = rounds.map((round) => figure(round[over[0]]) / figure(round[over[1]]))
  const [low, high] = middleHalf(ratios)
  return { ratio: median(ratios), spread: `middle half ${low.toFixed(2)}–${high.toFixed(2)}` }
}
