// Time and randomness come in from outside, so that tests can pass their own.
import { randomBytes } from 'node:crypto'

export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
}

export interface Random {
  bytes(count: number): Uint8Array
}

export const systemClock: Clock = { now: () => Date.now() }
export const systemRandom: Random = { bytes: (count) => randomBytes(count) }

/** RFC 3339 in UTC with milliseconds. */
export function timestamp(ms: number): string {
  return new Date(ms).toISOString()
}

/** UUIDv7: 48 bits of time, then randomness. Sorts by time, but order is never taken from it. */
export function uuidv7(clock: Clock, random: Random): string {
  const bytes = Buffer.from(random.bytes(16))
  bytes.writeUIntBE(clock.now(), 0, 6)
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x70
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
