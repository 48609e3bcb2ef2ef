// Measures how the time of some work grows with the size of its input, to distinguish linear from quadratic on any
// machine.

const STEP = 32
const ROUNDS = 15
/** Shorter work is repeated until it can be measured. */
const BY_CLOCK_MS = 2
const BY_PROCESSOR_MS = 40

/** Between linear and quadratic: caches can add some factor to the step on a busy machine. */
export const LINEAR = 181

/** Returns the factor of the time for 32 times the size: about 32 if linear, 1024 if quadratic. */
export function growth<T>(size: number, prepare: (size: number) => T, work: (input: T) => void): number {
  const [small, large] = [prepare(size), prepare(size * STEP)]
  const ratio = (now: () => number, least: number): number =>
    timeOf(() => work(large), now, least) / timeOf(() => work(small), now, least)
  // Linear work is soon measured as linear, even on a busy machine; other work never is.
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    least = Math.min(
      least,
      ratio(() => performance.now(), BY_CLOCK_MS),
    )
    if (least < 2 * STEP) return least
  }
  // Wall-clock time includes other processes. The CPU time of the thread does not, but has a coarse resolution.
  return Math.min(least, ratio(processorTime, BY_PROCESSOR_MS))
}

/** Milliseconds that this thread has run. */
export function processorTime(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

function timeOf(work: () => void, now: () => number, least: number): number {
  const start = now()
  for (let repeats = 1; ; repeats++) {
    work()
    const passed = now() - start
    if (passed >= least) return passed / repeats
  }
}

/** Doubled work of linear time, with some room for caches and the garbage collector. */
export const DOUBLED_MAX = 2.5

/**
 * Returns the factor of the time for twice the size: about 2 if linear, 4 if quadratic. Takes the best of several runs, so
 * that other processes do not count. A step over the limit counts only if the next one is over it too.
 */
export function doubling<T>(size: number, prepare: (size: number) => T, work: (input: T) => void): number {
  const first = stepFactor(prepare(size), prepare(2 * size), work)
  if (first <= DOUBLED_MAX) return first
  return Math.min(first, stepFactor(prepare(2 * size), prepare(4 * size), work))
}

function stepFactor<T>(small: T, large: T, work: (input: T) => void): number {
  const best = { small: Number.POSITIVE_INFINITY, large: Number.POSITIVE_INFINITY }
  for (let round = 0; round < ROUNDS; round++) {
    // Wall-clock time would include other processes.
    best.small = Math.min(
      best.small,
      timeOf(() => work(small), processorTime, BY_PROCESSOR_MS),
    )
    best.large = Math.min(
      best.large,
      timeOf(() => work(large), processorTime, BY_PROCESSOR_MS),
    )
    if (best.large / best.small <= DOUBLED_MAX) break
  }
  return best.large / best.small
}
