// A clock and randomness that a test controls.
import type { Clock, Random } from '../../src/lib/clock.ts'

export interface FakeClock extends Clock {
  advance(ms: number): void
}

/** Does not move until it is advanced. */
export function fakeClock(startMs = Date.UTC(2026, 0, 1)): FakeClock {
  let nowMs = startMs
  return {
    now: () => nowMs,
    advance: (ms) => {
      nowMs += ms
    },
  }
}

/** Returns the same bytes for the same seed (mulberry32). */
export function seededRandom(seed = 1): Random {
  let state = seed | 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return (mixed ^ (mixed >>> 14)) & 0xff
  }
  return { bytes: (count) => Uint8Array.from({ length: count }, next) }
}
