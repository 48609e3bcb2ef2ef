// Lines on their way to stderr, without anybody waiting for them. A disk that is full or a reader who has left is no reason
// to end what is being logged: lines wait, up to a bound, and beyond it they are dropped and counted.
import { write, writeSync } from 'node:fs'
import { diskCode } from './atomic-file.ts'

const STDERR = 2
/** Of lines that wait. */
const BYTES_MAX = 16 * 1_048_576
/** A pipe that is full and does not block: how long until it is tried again, and how often at the exit. */
const BUSY_MS = 50
const EXIT_TRIES = 20

/** Takes whole lines, each with its line break. */
export interface Lines {
  write(lines: string): void
  /** How many lines could not be written. */
  readonly dropped: number
}

export class LogStream implements Lines {
  readonly #bytesMax: number
  /** What one write holds: taken up when it begins, and kept where it failed. */
  #taken: Buffer = Buffer.alloc(0)
  #waiting: string[] = []
  #waitingBytes = 0
  /** From the first line that waits until none does, or until they cannot be written. */
  #isBusy = false
  /** The system has it. */
  #isUnderWay = false
  /** Nobody reads there any more, and nobody will. */
  #isGone = false
  #dropped = 0
  /** Of those, the ones that a line has told of. */
  #told = 0

  constructor(bytesMax = BYTES_MAX) {
    this.#bytesMax = bytesMax
    process.once('exit', () => this.#finish())
  }

  get dropped(): number {
    return this.#dropped
  }

  write(lines: string): void {
    const bytes = Buffer.byteLength(lines)
    const isTooMuch = this.#taken.length + this.#waitingBytes + bytes > this.#bytesMax
    if (this.#isGone || isTooMuch) this.#dropped += countLines(lines)
    else {
      this.#waiting.push(lines)
      this.#waitingBytes += bytes
    }
    if (this.#isGone || this.#isBusy) return
    this.#isBusy = true
    // What else is said in this turn goes along.
    setImmediate(() => this.#writeOn())
  }

  #writeOn(): void {
    this.#take()
    this.#isUnderWay = true
    write(STDERR, this.#taken, (error, written) => {
      this.#isUnderWay = false
      this.#taken = this.#taken.subarray(written)
      const code = diskCode(error)
      if (code === 'EPIPE') return this.#leave()
      if (code === 'EAGAIN') return void setTimeout(() => this.#writeOn(), BUSY_MS)
      if (!error && this.#hasMore()) return this.#writeOn()
      // A full disk, for one: it is tried again with the next line.
      this.#isBusy = false
      if (!error) this.#tellDropped()
    })
  }

  #take(): void {
    if (this.#taken.length > 0) return
    this.#taken = Buffer.from(this.#waiting.join(''))
    this.#waiting = []
    this.#waitingBytes = 0
  }

  #hasMore(): boolean {
    return this.#taken.length > 0 || this.#waiting.length > 0
  }

  #leave(): void {
    this.#isGone = true
    this.#dropped += countLines(this.#taken.toString() + this.#waiting.join(''))
    this.#taken = Buffer.alloc(0)
    this.#waiting = []
  }

  #tellDropped(): void {
    const lines = this.#dropped - this.#told
    if (lines === 0) return
    this.#told = this.#dropped
    const msg = 'lines of the log were dropped: stderr took them too slowly'
    this.write(`${JSON.stringify({ level: 'warn', time: new Date().toISOString(), lines, msg })}\n`)
  }

  /** What is left, at the exit; given up where it cannot be written. */
  #finish(): void {
    // What the system has, it writes.
    if (this.#isUnderWay) this.#taken = Buffer.alloc(0)
    for (let tries = 0; tries < EXIT_TRIES && this.#hasMore(); tries++) {
      this.#take()
      try {
        this.#taken = this.#taken.subarray(writeSync(STDERR, this.#taken))
      } catch (error) {
        if (diskCode(error) !== 'EAGAIN') return
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BUSY_MS)
      }
    }
  }
}

function countLines(text: string): number {
  return text.split('\n').length - 1
}
