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

/** Drawn in blocks: a call of the generator costs more than what it gives. No byte is given twice. */
class Pool implements Random {
  #block = Buffer.alloc(0)
  #at = 0

  bytes(count: number): Uint8Array {
    if (count > BLOCK / 4) return randomBytes(count)
    if (this.#at + count > this.#block.length) {
      this.#block = randomBytes(BLOCK)
      this.#at = 0
    }
    const bytes = Buffer.from(this.#block.subarray(this.#at, this.#at + count))
    // What was handed out is not kept in memory twice.
    this.#block.fill(0, this.#at, this.#at + count)
    this.#at += count
    return bytes
  }
}

const BLOCK = 4096
export const systemRandom: Random = new Pool()

let [stampedMs, stamp] = [Number.NaN, '']

/** RFC 3339 in UTC with milliseconds. */
export function timestamp(ms: number): string {
  // Asked many times within the same one.
  if (ms !== stampedMs) [stampedMs, stamp] = [ms, new Date(ms).toISOString()]
  return stamp
}

/** UUIDv7: 48 bits of time, then randomness. Sorts by time, but order is never taken from it. */
export function uuidv7(clock: Clock, random: Random): string {
  const bytes = random.bytes(ID_BYTES)
  return written(clock.now(), Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex'), 0)
}

const ID_BYTES = 10
const IDS_DRAWN = 128

/** The same by the thousand: randomness is drawn for many at once. */
export function openIds(clock: Clock, random: Random): () => string {
  let [digits, at] = ['', 0]
  return () => {
    if (at === digits.length) [digits, at] = [Buffer.from(random.bytes(ID_BYTES * IDS_DRAWN)).toString('hex'), 0]
    at += 2 * ID_BYTES
    return written(clock.now(), digits, at - 2 * ID_BYTES)
  }
}

let [timedMs, timed] = [Number.NaN, '']
const VARIANTS = ['8', '9', 'a', 'b']

function written(ms: number, digits: string, at: number): string {
  if (ms !== timedMs) {
    const hex = ms.toString(16).padStart(12, '0')
    ;[timedMs, timed] = [ms, `${hex.slice(0, 8)}-${hex.slice(8)}-7`]
  }
  const variant = VARIANTS[digits.charCodeAt(at + 18) & 3]
  return `${timed}${digits.slice(at, at + 3)}-${variant}${digits.slice(at + 3, at + 6)}-${digits.slice(at + 6, at + 18)}`
}
