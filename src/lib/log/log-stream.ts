// Writes log lines to stderr asynchronously. A full disk or a closed pipe never ends the process: lines queue up to a limit,
// beyond which they are dropped and counted.
import { fstatSync, write, writeSync } from 'node:fs'
import { errnoCode } from '../files/atomic-file.ts'

const STDERR = 2
/** Limit of queued lines. */
const BYTES_MAX = 16 * 1_048_576
/** Retry interval for a full non-blocking pipe, and the number of retries at exit. */
const BUSY_MS = 50
const EXIT_TRIES = 20
/** A pipe takes this much at once (PIPE_BUF): lines of two processes that write to the same one are not mixed. */
const PIPE_BYTES = 4096
const NEWLINE = 10

/** Accepts whole lines, each with its line break. */
export interface LogSink {
  write(lines: string): void
  /** Number of lines that could not be written. */
  readonly dropped: number
}

export class LogStream implements LogSink {
  readonly #bytesMax: number
  readonly #isPipe: boolean
  /** The batch being written; kept after a failed write. */
  #batch: Buffer = Buffer.alloc(0)
  #queue: string[] = []
  #queuedBytes = 0
  /** From the first queued line until the queue is empty or cannot be written. */
  #isBusy = false
  /** A write is in progress. */
  #isWriting = false
  /** The reader has closed the pipe. */
  #isClosed = false
  #dropped = 0
  /** How many dropped lines were already reported. */
  #reported = 0

  constructor(bytesMax = BYTES_MAX) {
    this.#bytesMax = bytesMax
    this.#isPipe = isPipe(STDERR)
    process.once('exit', () => this.#finish())
  }

  get dropped(): number {
    return this.#dropped
  }

  write(lines: string): void {
    const bytes = Buffer.byteLength(lines)
    const isTooMuch = this.#batch.length + this.#queuedBytes + bytes > this.#bytesMax
    if (this.#isClosed || isTooMuch) this.#dropped += countLines(lines)
    else {
      this.#queue.push(lines)
      this.#queuedBytes += bytes
    }
    if (this.#isClosed || this.#isBusy) return
    this.#isBusy = true
    // Lines of the same event-loop turn go into one write.
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    this.#nextBatch()
    this.#isWriting = true
    write(STDERR, this.#nextPiece(), (error, written) => {
      this.#isWriting = false
      this.#batch = this.#batch.subarray(written)
      const code = errnoCode(error)
      if (code === 'EPIPE') return this.#disconnect()
      if (code === 'EAGAIN') return void setTimeout(() => this.#flush(), BUSY_MS)
      if (!error && this.#hasMore()) return this.#flush()
      // For example a full disk: retry with the next line.
      this.#isBusy = false
      if (!error) this.#reportDropped()
    })
  }

  #nextBatch(): void {
    if (this.#batch.length > 0) return
    this.#batch = Buffer.from(this.#queue.join(''))
    this.#queue = []
    this.#queuedBytes = 0
  }

  /** Whole lines, or one long line. */
  #nextPiece(): Buffer {
    if (!this.#isPipe || this.#batch.length <= PIPE_BYTES) return this.#batch
    const last = this.#batch.lastIndexOf(NEWLINE, PIPE_BYTES - 1)
    const end = last >= 0 ? last : this.#batch.indexOf(NEWLINE)
    return end < 0 ? this.#batch : this.#batch.subarray(0, end + 1)
  }

  #hasMore(): boolean {
    return this.#batch.length > 0 || this.#queue.length > 0
  }

  #disconnect(): void {
    this.#isClosed = true
    this.#dropped += countLines(this.#batch.toString() + this.#queue.join(''))
    this.#batch = Buffer.alloc(0)
    this.#queue = []
  }

  #reportDropped(): void {
    const lines = this.#dropped - this.#reported
    if (lines === 0) return
    this.#reported = this.#dropped
    const msg = 'log lines were dropped: stderr is too slow'
    this.write(`${JSON.stringify({ level: 'warn', time: new Date().toISOString(), lines, msg })}\n`)
  }

  /** Writes the rest at exit, and gives up if that fails. */
  #finish(): void {
    // The system completes the write in progress.
    if (this.#isWriting) this.#batch = Buffer.alloc(0)
    for (let tries = 0; tries < EXIT_TRIES && this.#hasMore(); ) {
      this.#nextBatch()
      try {
        this.#batch = this.#batch.subarray(writeSync(STDERR, this.#nextPiece()))
      } catch (error) {
        if (errnoCode(error) !== 'EAGAIN') return
        tries++
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BUSY_MS)
      }
    }
  }
}

/** Node's own children have a socket in place of a pipe, which the same holds for. */
function isPipe(descriptor: number): boolean {
  try {
    const stats = fstatSync(descriptor)
    return stats.isFIFO() || stats.isSocket()
  } catch {
    return false
  }
}

function countLines(text: string): number {
  return text.split('\n').length - 1
}
