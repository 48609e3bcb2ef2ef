// How the time of some work grows with the size of its input, so that a test can tell a line from a square on a machine of
// any speed and load.

const STEP = 8
const ROUNDS = 3
/** Work that is done sooner is repeated until it can be measured. */
const BY_CLOCK_MS = 2
const BY_PROCESSOR_MS = 40

/** Half way between a line and a square. */
export const LINEAR = 24

/** How many times longer the work takes with 8 times the size: 8 where it is linear, 64 where it is quadratic. */
export function growth<T>(size: number, prepare: (size: number) => T, work: (input: T) => void): number {
  const [small, large] = [prepare(size), prepare(size * STEP)]
  const ratio = (now: () => number, least: number): number =>
    timeOf(() => work(large), now, least) / timeOf(() => work(small), now, least)
  for (let round = 0; round < ROUNDS; round++) {
    const found = ratio(() => performance.now(), BY_CLOCK_MS)
    if (found < 2 * STEP) return found
  }
  // The clock goes on while others have the processor. The time of the thread does not, but it has a coarse grain.
  return ratio(processorTime, BY_PROCESSOR_MS)
}

function processorTime(): number {
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
