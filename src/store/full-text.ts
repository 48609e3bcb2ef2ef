// Full text in a file of its own, searched with FTS5: derived from elsewhere, filled by a thread and searched by processes,
// so that neither holds the event loop. A file that is lost, damaged or not ours is begun anew.
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { Refusal, refuse } from '../lib/refusal.ts'
import { FullTextFinders } from './full-text-finders.ts'

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
  | { readonly what: 'renew'; readonly damaged: number | undefined }
  | { readonly what: 'end' }

/** What it answers. `mark` says how far the index is filled; the empty text is not at all. */
export type Answer = { readonly mark: string } | { readonly broken: string }

/** What a search answers; `mark` where the index stands elsewhere than the question says. */
export type Finding =
  | Answer
  | { readonly found: readonly Found[] }
  /** The engine's words about a query. */
  | { readonly fault: string }
  /** The inode number of the damaged file; nothing where there is none. */
  | { readonly damaged?: number | undefined }

export class FullText {
  readonly #path: string
  readonly #finders: FullTextFinders
  readonly #onFault: (error: unknown) => void
  #worker: Worker | undefined
  #asked: PromiseWithResolvers<Answer> | undefined
  #last: Promise<unknown> = Promise.resolve()
  #isClosed = false

  /** `onFault` is told what is wrong with the file; whoever asks only that it cannot be used. */
  constructor(path: string, onFault: (error: unknown) => void = () => {}) {
    this.#path = path
    this.#finders = new FullTextFinders(path)
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
  async find(question: TextQuestion, deadlineMs: number): Promise<readonly Found[] | undefined> {
    const answer = await this.#finding(question, deadlineMs)
    if ('found' in answer) return answer.found
    if ('fault' in answer) return refuse('invalid', answer.fault)
    if ('broken' in answer) return this.#refuseBroken(answer.broken)
    if (!('mark' in answer)) await this.#ask({ what: 'renew', damaged: answer.damaged })
    return undefined
  }

  /** Ends running searches at once. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#finders.close()
    await this.#last
    const worker = this.#worker
    if (!worker) return
    const gone = new Promise((resolve) => worker.once('exit', resolve))
    worker.ref()
    worker.postMessage({ what: 'end' } satisfies Ask)
    await gone
  }

  async #finding(question: TextQuestion, deadlineMs: number): Promise<Finding> {
    try {
      return await this.#finders.find(question, deadlineMs)
    } catch (error) {
      if (error instanceof Refusal) throw error
      return { broken: String(error) }
    }
  }

  /** One at a time, in the order in which they were asked. */
  #ask(ask: Ask): Promise<Answer> {
    if (this.#isClosed) refuse('unavailable', 'the search is closing')
    const answered = this.#last.then(() => this.#put(ask))
    this.#last = answered.catch(() => {})
    return answered
  }

  async #put(ask: Ask): Promise<Answer> {
    this.#worker ??= this.#open()
    const worker = this.#worker
    this.#asked = Promise.withResolvers()
    // Only while somebody waits is it a reason to stay.
    worker.ref()
    try {
      worker.postMessage(ask)
      const answer = await this.#asked.promise
      return 'broken' in answer ? this.#refuseBroken(answer.broken) : answer
    } finally {
      this.#asked = undefined
      worker.unref()
    }
  }

  #refuseBroken(why: string): never {
    this.#onFault(new Error(`${this.#path}: ${why}`))
    return refuse('unavailable', UNUSABLE)
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
}

const UNUSABLE = 'the search index cannot be used'

function markOf(answer: Answer): string {
  return 'mark' in answer ? answer.mark : refuse('unavailable', UNUSABLE)
}
