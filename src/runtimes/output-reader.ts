// Reads the output of a run within limits. A run that prints faster waits in its write: svc stops reading its pipes, and no
// output takes the event loop for longer than one slice.
import type { Readable } from 'node:stream'
import { type FaultHandler, guard } from '../lib/fault-boundary.ts'
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
  /** Was read but not handled yet. */
  rest: Buffer | undefined
  /** A slice waits for its turn. */
  isQueued: boolean
}

export class OutputReader {
  readonly #onFault: FaultHandler
  readonly #limiter: FlowLimiter
  readonly #sources: Source[] = []
  readonly #finished = Promise.withResolvers<void>()
  #isFinishing = false

  /** `onFault` gets exceptions of the handlers. */
  constructor(onFault: FaultHandler, limiter = new FlowLimiter(OUTPUT_LIMITS)) {
    this.#onFault = onFault
    this.#limiter = limiter
  }

  read(stream: Readable, handler: OutputHandler): void {
    const source: Source = { stream, handler, rest: undefined, isQueued: false }
    this.#sources.push(source)
    limitReadAhead(stream)
    const onReadable = (): void => {
      if (source.isQueued) return
      // Output within the limits is not delayed.
      if (this.#limiter.isFree()) this.#handle(source)
      else this.#handleLater(source)
    }
    stream.on('readable', guard(this.#fail, onReadable))
  }

  /** Call when the process has ended: handles what was read. */
  async finish(): Promise<void> {
    this.#isFinishing = true
    this.#limiter.finish()
    this.#settle()
    await this.#finished.promise
  }

  #handle(source: Source): void {
    const chunk = source.rest ?? this.#readFrom(source)
    if (!chunk) return
    const { end, lines } = source.handler.hasLineCost ? endOfSlice(chunk) : { end: chunk.length, lines: 0 }
    this.#limiter.countLines(lines)
    source.rest = end < chunk.length ? chunk.subarray(end) : undefined
    source.handler.onSlice(chunk.subarray(0, end))
    this.#settle()
    // The next read is a slice too.
    this.#handleLater(source)
  }

  /** Undefined if nothing can be read; `readable` comes when something can. */
  #readFrom({ stream }: Source): Buffer | undefined {
    const chunk: Buffer | null = stream.read()
    if (chunk) this.#limiter.countRead(chunk.length)
    return chunk ?? undefined
  }

  #handleLater(source: Source): void {
    source.isQueued = true
    const next = (): void => {
      source.isQueued = false
      this.#handle(source)
    }
    this.#limiter.later(guard(this.#fail, next))
  }

  /** The rest is dropped, so that `finish` does not wait for it. */
  readonly #fail: FaultHandler = (error) => {
    for (const source of this.#sources) source.rest = undefined
    this.#settle()
    this.#onFault(error)
  }

  #settle(): void {
    if (this.#isFinishing && this.#sources.every(({ rest }) => rest === undefined)) this.#finished.resolve()
  }
}

/**
 * Lets Node read once at a time. It would read ahead 64 KiB, which are 65,536 reads if a program writes single bytes; they
 * collect in the pipe instead. Node has no option for streams of child processes.
 */
function limitReadAhead(stream: Readable): void {
  const state: unknown = Reflect.get(stream, '_readableState')
  if (typeof state === 'object' && state !== null) Reflect.set(state, 'highWaterMark', 1)
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
