// Rounds of load: each server gets one burst per round, in random order, so that other load on the machine affects all of
// them. Figures are compared only within a round. If other processes take too much of the machine, further rounds run, and
// those with the least interference count.
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { median, middleHalf } from './result.ts'
import { busyMicros, cpuOf, type Server } from './server.ts'
import { type Burst, burst, type Target } from './wrk.ts'

const BURST_S = 1
const WARM_S = 3
/** A server is quiet when it uses less than this share of a processor. */
const QUIET = 0.05
const QUIET_MS = 100
/** A server with turns left to run may stay busy for minutes. */
const SETTLE_MAX_MS = 5000
/** A round is undisturbed if other processes take less than this share of the machine. */
const OTHERS = 0.1
const MAX_FACTOR = 3

export interface Contender {
  readonly server: Server
  readonly target: Target
}

export interface Measurement extends Burst {
  /** Processor time per request in microseconds: of the main thread, and of all threads. */
  readonly mainMicros: number
  readonly allMicros: number
  /** How long the server was busy after the last answer. */
  readonly settleMs: number
  /** Share of the machine that other processes used. */
  readonly others: number
}

export type Round<Name extends string> = Readonly<Record<Name, Measurement>>

export interface RoundsOptions<Name extends string> {
  readonly rounds: number
  /** Seconds of each burst. */
  readonly seconds?: number
  /** At most this many times `rounds` are run if other processes disturb them. */
  readonly maxFactor?: number
  /** How long to wait for background work after a burst; longer work counts towards the next burst. */
  readonly settleMs?: number
  onBurst?(name: Name, burst: Burst): void
}

/** Each round has one burst per contender, in random order, after a burst to warm up. */
export async function runRounds<Name extends string>(
  contenders: Readonly<Record<Name, Contender>>,
  { rounds, seconds = BURST_S, maxFactor = MAX_FACTOR, settleMs, onBurst }: RoundsOptions<Name>,
): Promise<Round<Name>[]> {
  const names = Object.keys(contenders) as Name[]
  const hit = async (name: Name, seconds: number): Promise<Measurement> => {
    const measured = await measure(contenders[name], seconds, settleMs)
    onBurst?.(name, measured)
    return measured
  }
  for (const name of names) await hit(name, WARM_S)
  const measured: Round<Name>[] = []
  const undisturbed = (): number => measured.filter((round) => othersIn(round) < OTHERS).length
  while (undisturbed() < rounds && measured.length < rounds * maxFactor) {
    const entries: [Name, Measurement][] = []
    for (const name of shuffled(names)) entries.push([name, await hit(name, seconds)])
    // Every name has an entry, which the type of Object.fromEntries does not tell.
    measured.push(Object.fromEntries(entries) as Round<Name>)
  }
  return measured.sort((a, b) => othersIn(a) - othersIn(b)).slice(0, rounds)
}

/** The largest share of other processes in any burst of the round. */
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

/** The median ratio of two figures of the same round, and its middle half as text. */
export function compare<Name extends string, Figures = Measurement>(
  rounds: readonly Readonly<Record<Name, Figures>>[],
  over: readonly [Name, Name],
  figure: (figures: Figures) => number,
): { readonly ratio: number; readonly spread: string } {
  const ratios = rounds.map((round) => figure(round[over[0]]) / figure(round[over[1]]))
  const [low, high] = middleHalf(ratios)
  return { ratio: median(ratios), spread: `middle half ${low.toFixed(2)}–${high.toFixed(2)}` }
}
