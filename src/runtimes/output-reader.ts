// Reads the output of a run within limits. A run that prints faster waits in its write: svc stops reading its pipes, and no
// output takes the event loop for longer than one slice.
import type { Readable } from 'node:stream'
import { FlowLimiter, type FlowLimits } from '../lib/flow-limiter.ts'

/** Of stdout and stderr together. A slow machine handles 50,000 lines in about 50 ms. */
export const OUTPUT_LIMITS: FlowLimits = { bytesPerSecond: 8 * 1024 * 1024, linesPerSecond: 50_000, burstS: 1 }

const SLICE_LINES = 256
const NEWLINE = 10

export interface OutputHandler {
  /** Whether the cost of `onSlice` grows with the number of lines. */
  readonly hasLineCost: boolean
  onSlice(slice: Buffer): void
}

interface Source {
  readonly stream: Readable
  readonly handler: OutputHandler
  /** Not handled yet. Almost always one, but Node resumes the streams of a process that exits. */
  readonly chunks: Buffer[]
  isBusy: boolean
}

export class OutputReader {
  readonly #limiter: FlowLimiter
  readonly #sources: Source[] = []
  readonly #finished = Promise.withResolvers<void>()
  #isFinishing = false

  constructor(limiter = new FlowLimiter(OUTPUT_LIMITS)) {
    this.#limiter = limiter
  }

  read(stream: Readable, handler: OutputHandler): void {
    const source: Source = { stream, handler, chunks: [], isBusy: false }
    this.#sources.push(source)
    stream.on('data', (chunk: Buffer) => {
      stream.pause()
      const isFree = this.#limiter.isFree()
      this.#limiter.countRead(chunk.length)
      source.chunks.push(chunk)
      if (source.isBusy) return
      source.isBusy = true
      // Output within the limits is not delayed.
      if (isFree) this.#handle(source)
      else this.#limiter.later(() => this.#handle(source))
    })
  }

  /** Call when the process has ended: handles what was read. */
  async finish(): Promise<void> {
    this.#isFinishing = true
    this.#limiter.finish()
    this.#settle()
    await this.#finished.promise
  }

  #handle(source: Source): void {
    const { handler, chunks } = source
    const [chunk = Buffer.alloc(0)] = chunks
    const { end, lines } = handler.hasLineCost ? endOfSlice(chunk) : { end: chunk.length, lines: 0 }
    this.#limiter.countLines(lines)
    if (end < chunk.length) chunks[0] = chunk.subarray(end)
    else chunks.shift()
    handler.onSlice(chunk.subarray(0, end))
    this.#settle()
    this.#limiter.later(() => this.#continue(source))
  }

  /** The next read is a slice too, so it also waits for its turn. */
  #continue(source: Source): void {
    source.isBusy = source.chunks.length > 0
    if (source.isBusy) this.#handle(source)
    else source.stream.resume()
  }

  #settle(): void {
    if (this.#isFinishing && this.#sources.every(({ chunks }) => chunks.length === 0)) this.#finished.resolve()
  }
}

function endOfSlice(chunk: Buffer): { readonly end: number; readonly lines: number } {
  let [end, lines] = [0, 0]
  while (lines < SLICE_LINES) {
    const newline = chunk.indexOf(NEWLINE, end)
    if (newline < 0) return { end: chunk.length, lines }
    end = newline + 1
    lines++
  }
  return { end, lines }
}
