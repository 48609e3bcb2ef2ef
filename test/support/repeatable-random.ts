// Repeatable randomness: a test prints its seed, and SVC_TEST_SEED=<seed> repeats it.
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import type { Random } from '../../src/lib/clock.ts'
import { seededRandom } from './clock.ts'

export interface RepeatableRandom extends Random {
  /** An integer from 0 to the limit, exclusive. */
  below(limit: number): number
  /** An integer in this range, inclusive. */
  between(least: number, most: number): number
}

export function repeatableRandom(t: Pick<TestContext, 'diagnostic'>): RepeatableRandom {
  const seed = Number(process.env.SVC_TEST_SEED ?? randomBytes(4).readUInt32BE())
  t.diagnostic(`SVC_TEST_SEED=${seed}`)
  const { bytes } = seededRandom(seed)
  const below = (limit: number): number => Buffer.from(bytes(4)).readUInt32BE() % limit
  return { bytes, below, between: (least, most) => least + below(most - least + 1) }
}
