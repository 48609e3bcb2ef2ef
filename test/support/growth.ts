// How the time of some work grows with the size of its input, so that a test can tell a line from a square on a machine of
// any speed and load.

const STEP = 32
const ROUNDS = 15
/** Work that is done sooner is repeated until it can be measured. */
const BY_CLOCK_MS = 2
const BY_PROCESSOR_MS = 40

/** Half way between a line and a square: caches make it some times more than the step on a busy machine. */
export const LINEAR = 181

/** How many times longer the work takes with 32 times the size: about 32 where it is linear, 1024 where it is quadratic. */
export function growth<T>(size: number, prepare: (size: number) => T, work: (input: T) => void): number {
  const [small, large] = [prepare(size), prepare(size * STEP)]
  const ratio = (now: () => number, least: number): number =>
    timeOf(() => work(large), now, least) / timeOf(() => work(small), now, least)
  // What is linear is soon measured as such, however busy the machine is; what is not never is.
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    least = Math.min(
      least,
      ratio(() => performance.now(), BY_CLOCK_MS),
    )
    if (least < 2 * STEP) return least
  }
  // The clock goes on while others have the processor. The time of the thread does not, but it has a coarse grain.
  return Math.min(least, ratio(processorTime, BY_PROCESSOR_MS))
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
