// Randomness of a test that can be had again: it prints its seed, and SVC_TEST_SEED=<seed> repeats it.
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import type { Random } from '../../src/lib/clock.ts'
import { seededRandom } from './clock.ts'

export interface RepeatableRandom extends Random {
  /** A whole number from 0 to one below the limit. */
  below(limit: number): number
  /** A whole number from the one to the other, both included. */
  between(least: number, most: number): number
}

export function repeatableRandom(t: Pick<TestContext, 'diagnostic'>): RepeatableRandom {
  const seed = Number(process.env.SVC_TEST_SEED ?? randomBytes(4).readUInt32BE())
  t.diagnostic(`SVC_TEST_SEED=${seed}`)
  const { bytes } = seededRandom(seed)
  const below = (limit: number): number => Buffer.from(bytes(4)).readUInt32BE() % limit
  return { bytes, below, between: (least, most) => least + below(most - least + 1) }
}
