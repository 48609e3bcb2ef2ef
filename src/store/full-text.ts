// Full text in a file of its own, searched with FTS5: derived from elsewhere, kept by a thread of its own so that neither
// filling nor asking holds the event loop. A file that is lost, damaged or not ours is begun anew.
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { Refusal, refuse } from '../lib/refusal.ts'

export interface Document {
  readonly key: number
  readonly content: Uint8Array
  readonly name: string
  readonly place: string
  readonly path: string | null
  readonly author: string
  readonly at: string
}

/** What is written together. It counts only where the index still stands at `from`: others may fill it too. */
export interface Filling {
  readonly from: string
  readonly to: string
  readonly fresh: readonly Document[]
  /** In place of what was there under the same key. */
  readonly changed: readonly Document[]
  readonly moved: readonly { readonly key: number; readonly path: string | null }[]
}

export interface TextQuestion {
  /** Where the index must stand, for the answer to hold. */
  readonly mark: string
  readonly query: string
  readonly limit: number
  readonly place?: string | undefined
  readonly author?: string | undefined
  readonly since?: string | undefined
  /** In all of these lists there must be a path that it lies at or below. */
  readonly within: readonly (readonly string[])[]
  /** At none of these paths. */
  readonly except: readonly string[]
}

export interface Found extends Omit<Document, 'content'> {
  readonly snippet: string
  readonly rank: number
}

/** What the thread is asked. */
export type Ask =
  | { readonly what: 'mark' }
  | { readonly what: 'reset' }
  | { readonly what: 'fill'; readonly filling: Filling }
  | { readonly what: 'find'; readonly question: TextQuestion }
  | { readonly what: 'end' }

/** What it answers. `mark` says how far the index is filled; the empty text is not at all. */
export type Answer =
  | { readonly mark: string }
  | { readonly found: readonly Found[] }
  /** The engine's words about a query. */
  | { readonly fault: string }
  | { readonly broken: string }

export const TOO_LONG = 'the search took too long'
/** A thread that is told to end goes on until its query is over: so many are let do that before no more are begun. */
const LINGERING_MAX = 2

export class FullText {
  readonly #path: string
  readonly #patienceMs: number
  readonly #onFault: (error: unknown) => void
  #worker: Worker | undefined
  #asked: PromiseWithResolvers<Answer> | undefined
  #last: Promise<unknown> = Promise.resolve()
  #lingering = 0
  #isClosed = false

  /** `onFault` is told what is wrong with the file; whoever asks only that it cannot be used. */
  constructor(path: string, patienceMs: number, onFault: (error: unknown) => void = () => {}) {
    this.#path = path
    this.#patienceMs = patienceMs
    this.#onFault = onFault
  }

  /** How far it is filled, by whoever. */
  async mark(): Promise<string> {
    return markOf(await this.#ask({ what: 'mark' }))
  }

  async reset(): Promise<string> {
    return markOf(await this.#ask({ what: 'reset' }))
  }

  /** How far it is filled then: `to`, or where another has brought it. */
  async fill(filling: Filling): Promise<string> {
    return markOf(await this.#ask({ what: 'fill', filling }))
  }

  /** Nothing where the index stands elsewhere, filled by another or begun anew: fill it, and ask again. */
  async find(question: TextQuestion): Promise<readonly Found[] | undefined> {
    const answer = await this.#ask({ what: 'find', question }, this.#patienceMs)
    if ('found' in answer) return answer.found
    return 'fault' in answer ? refuse('invalid', answer.fault) : undefined
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#last
    const worker = this.#worker
    if (!worker) return
    const gone = new Promise((resolve) => worker.once('exit', resolve))
    worker.ref()
    worker.postMessage({ what: 'end' } satisfies Ask)
    await gone
  }

  /** One at a time, in the order in which they were asked. */
  #ask(ask: Ask, patienceMs?: number): Promise<Answer> {
    if (this.#isClosed) refuse('unavailable', 'the search is closing')
    const answered = this.#last.then(() => this.#put(ask, patienceMs))
    this.#last = answered.catch(() => {})
    return answered
  }

  async #put(ask: Ask, patienceMs: number | undefined): Promise<Answer> {
    if (this.#lingering >= LINGERING_MAX)
      refuse('unavailable', 'the search is busy with questions that take too long', 'try again in a minute')
    this.#worker ??= this.#open()
    const worker = this.#worker
    this.#asked = Promise.withResolvers()
    // Only while somebody waits is it a reason to stay.
    worker.ref()
    const timer = patienceMs === undefined ? undefined : setTimeout(() => this.#giveUp(), patienceMs)
    try {
      worker.postMessage(ask)
      const answer = await this.#asked.promise
      if (!('broken' in answer)) return answer
      this.#onFault(new Error(`${this.#path}: ${answer.broken}`))
      return refuse('unavailable', UNUSABLE)
    } finally {
      clearTimeout(timer)
      this.#asked = undefined
      worker.unref()
    }
  }

  #open(): Worker {
    // Not `./full-text-thread.ts`: of a package that was compiled it is `.js`.
    const file = new URL(`./full-text-thread${extname(import.meta.url)}`, import.meta.url)
    const worker = new Worker(file, { workerData: { path: this.#path } })
    worker.on('message', (answer: Answer) => {
      if (this.#worker === worker) this.#asked?.resolve(answer)
    })
    worker.on('error', (error) => {
      this.#onFault(error)
      this.#lose(worker, new Refusal('unavailable', UNUSABLE))
    })
    worker.on('exit', () => this.#lose(worker, new Refusal('unavailable', UNUSABLE)))
    return worker
  }

  #lose(worker: Worker, error: unknown): void {
    if (this.#worker !== worker) return
    this.#worker = undefined
    this.#asked?.reject(error)
  }

  /** SQLite cannot be interrupted from here: the thread is left to its query, and the next one gets a new thread. */
  #giveUp(): void {
    const worker = this.#worker
    if (!worker) return
    this.#worker = undefined
    this.#lingering++
    worker.once('exit', () => this.#lingering--)
    void worker.terminate()
    this.#asked?.reject(new Refusal('unavailable', TOO_LONG, 'ask for fewer or rarer words'))
  }
}

const UNUSABLE = 'the search index cannot be used'

function markOf(answer: Answer): string {
  return 'mark' in answer ? answer.mark : refuse('unavailable', UNUSABLE)
}
