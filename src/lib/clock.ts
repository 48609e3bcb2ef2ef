// Clock and randomness as parameters, so that tests can pass their own.
import { randomBytes } from 'node:crypto'

export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
}

export interface Random {
  bytes(count: number): Uint8Array
}

export const systemClock: Clock = { now: () => Date.now() }

/** For rates of this process: unaffected by changes of the time of day. */
export const monotonicClock: Clock = { now: () => performance.now() }

/** Draws blocks from the generator, since a call costs more than the bytes it returns. No byte is handed out twice. */
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
    // Do not keep a second copy of bytes that were handed out.
    this.#block.fill(0, this.#at, this.#at + count)
    this.#at += count
    return bytes
  }
}

const BLOCK = 4096
export const systemRandom: Random = new Pool()

/** Keeps the last result: callers format the same millisecond many times. */
function cacheLast(format: (ms: number) => string): (ms: number) => string {
  let [lastMs, text] = [Number.NaN, '']
  return (ms) => {
    if (ms !== lastMs) [lastMs, text] = [ms, format(ms)]
    return text
  }
}

/** RFC 3339 in UTC with milliseconds. */
export const timestamp = cacheLast((ms) => new Date(ms).toISOString())

/** UUIDv7: 48 bits of time, then randomness. Sorts by time, but nothing relies on that order. */
export function uuidv7(clock: Clock, random: Random): string {
  const bytes = random.bytes(ID_BYTES)
  return formatUuid(clock.now(), Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex'), 0)
}

const ID_BYTES = 10
const IDS_DRAWN = 128

/** Like `uuidv7`, for thousands of ids: draws randomness for many at once. */
export function createIdGenerator(clock: Clock, random: Random): () => string {
  let [digits, at] = ['', 0]
  return () => {
    if (at === digits.length) [digits, at] = [Buffer.from(random.bytes(ID_BYTES * IDS_DRAWN)).toString('hex'), 0]
    at += 2 * ID_BYTES
    return formatUuid(clock.now(), digits, at - 2 * ID_BYTES)
  }
}

const VARIANTS = ['8', '9', 'a', 'b']
const timePart = cacheLast((ms) => {
  const hex = ms.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7`
})

function formatUuid(ms: number, digits: string, at: number): string {
  const variant = VARIANTS[digits.charCodeAt(at + 18) & 3]
  return `${timePart(ms)}${digits.slice(at, at + 3)}-${variant}${digits.slice(at + 3, at + 6)}-${digits.slice(at + 6, at + 18)}`
}
