// How the time of some work grows with the size of its input, so that a test can tell a line from a square on a machine of
// any speed and load.

const STEP = 8
const ROUNDS = 5
/** Work that is done sooner is repeated until it can be measured. */
const MEASURABLE_MS = 2

/** How many times longer the work takes with 8 times the size: 8 where it is linear, 64 where it is quadratic. */
export function growth<T>(size: number, prepare: (size: number) => T, work: (input: T) => void): number {
  const [small, large] = [prepare(size), prepare(size * STEP)]
  const repeats = repeatsOf(() => work(small))
  const [first, last] = [[], []] as [number[], number[]]
  for (let round = 0; round < ROUNDS; round++) {
    first.push(milliseconds(() => work(small), repeats))
    last.push(milliseconds(() => work(large), 1))
    // The best of several rounds is the one that others disturbed least.
    if (Math.min(...last) / Math.min(...first) < STEP * 1.5) break
  }
  return Math.min(...last) / Math.min(...first)
}

/** Half way between a line and a square. */
export const LINEAR = 24

function repeatsOf(work: () => void): number {
  for (let repeats = 1; ; repeats *= 4) if (milliseconds(work, repeats) * repeats >= MEASURABLE_MS) return repeats
}

function milliseconds(work: () => void, repeats: number): number {
  const start = performance.now()
  for (let count = 0; count < repeats; count++) work()
  return (performance.now() - start) / repeats
}
