// The desk of a lane: a thread with a connection of its own, so that waiting for the disk does not hold the event loop.
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { Refusal, type RefusalCode } from '../../lib/refusal.ts'
import { type Desk, type LaneOptions, refuseGone, type Tidied, type Work } from '../lane.ts'
import type { Written } from '../tidying.ts'

/** What the thread is given to begin with. */
export interface Orders {
  readonly path: string
  readonly module: string
}

/** What comes back from it. */
export type Reply =
  | Written<unknown>
  | { readonly failed: Failed }
  | { readonly tidied: Tidied }
  /** The disk failed while nobody waited. */
  | { readonly broken: Failed }

/** An error, as it crosses between threads. */
export interface Failed {
  readonly code: RefusalCode | undefined
  readonly message: string
  readonly hint: string | undefined
  /** The disk answered with an error. */
  readonly isFatal: boolean
}

export class Thread<I, O> implements Desk<I, O> {
  readonly #worker: Worker
  readonly #work: Work<I, O>
  readonly #options: LaneOptions
  #writing: PromiseWithResolvers<readonly O[]> | undefined
  #isClosing = false
  #isGone = false

  constructor(path: string, work: Work<I, O>, options: LaneOptions) {
    this.#work = work
    this.#options = options
    const orders: Orders = { path, module: work.module }
    // Not `./lane-thread.ts`: of a package that was compiled it is `.js`.
    this.#worker = new Worker(new URL(`./lane-thread${extname(import.meta.url)}`, import.meta.url), {
      workerData: orders,
    })
    this.#worker.unref()
    this.#worker.on('message', (reply: Reply) => this.#hear(reply))
    this.#worker.on('error', (error) => this.#end(error))
    this.#worker.on('exit', (code) => {
      if (!this.#isClosing) this.#end(new Error(`the writer ended with ${code}`))
    })
  }

  write(items: readonly I[]): Promise<readonly O[]> {
    if (this.#isGone) refuseGone()
    const packed = this.#work.pack(items)
    this.#worker.postMessage(packed, [packed.bytes.buffer])
    this.#writing = Promise.withResolvers()
    return this.#writing.promise
  }

  async close(): Promise<void> {
    this.#isClosing = true
    if (this.#isGone) return
    const gone = new Promise((resolve) => this.#worker.once('exit', resolve))
    this.#worker.ref()
    this.#worker.postMessage(null)
    await gone
  }

  #hear(reply: Reply): void {
    // Whoever is being written for has an answer of its own to come.
    if ('broken' in reply) this.#errorOf(reply.broken)
    else if ('failed' in reply) this.#writing?.reject(this.#errorOf(reply.failed))
    else {
      // The thread answers what this lane's own work gives.
      if ('answers' in reply) this.#writing?.resolve(reply.answers as readonly O[])
      if (reply.tidied) this.#options.onTidied?.(reply.tidied)
    }
  }

  #errorOf({ code, message, hint, isFatal }: Failed): Error {
    const error = code === undefined ? new Error(message) : new Refusal(code, message, hint)
    if (isFatal) this.#options.onFatal?.(error)
    return error
  }

  #end(error: unknown): void {
    if (this.#isGone) return
    this.#isGone = true
    const gone = new Refusal('unavailable', 'the store cannot be written to any more')
    this.#writing?.reject(gone)
    this.#options.onFatal?.(error)
  }
}
