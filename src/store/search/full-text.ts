// Full text in a file of its own, searched with FTS5: derived from elsewhere, filled by a thread and searched by processes,
// so that neither holds the event loop. A file that is lost, damaged or not ours is begun anew.
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { SearchProcessPool } from './search-process-pool.ts'

export interface IndexedDocument {
  readonly key: number
  readonly content: Uint8Array
  readonly name: string
  readonly place: string
  readonly path: string | null
  readonly author: string
  readonly at: string
}

/** What is written together. It counts only where the index still stands at `from`: others may fill it too. */
export interface IndexUpdate {
  readonly from: string
  readonly to: string
  readonly fresh: readonly IndexedDocument[]
  /** In place of what was there under the same key. */
  readonly changed: readonly IndexedDocument[]
  readonly moved: readonly { readonly key: number; readonly path: string | null }[]
  readonly removed: readonly number[]
}

export interface FullTextQuery {
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

export interface FullTextHit extends Omit<IndexedDocument, 'content'> {
  readonly snippet: string
  readonly rank: number
}

/** What the thread is asked. */
export type IndexCommand =
  | { readonly what: 'mark' }
  | { readonly what: 'reset' }
  | { readonly what: 'fill'; readonly filling: IndexUpdate }
  | { readonly what: 'renew'; readonly damaged: number | undefined }
  | { readonly what: 'end' }

/** What it answers. `mark` says how far the index is filled; the empty text is not at all. */
export type IndexReply = { readonly mark: string } | { readonly broken: string }

/** What a search answers; `mark` where the index stands elsewhere than the question says. */
export type FullTextReply =
  | IndexReply
  | { readonly found: readonly FullTextHit[] }
  /** The engine's words about a query. */
  | { readonly fault: string }
  /** The inode number of the damaged file; nothing where there is none. */
  | { readonly damaged?: number | undefined }

export class FullTextIndex {
  readonly #path: string
  readonly #finders: SearchProcessPool
  readonly #onFault: (error: unknown) => void
  #worker: Worker | undefined
  #asked: PromiseWithResolvers<IndexReply> | undefined
  #last: Promise<unknown> = Promise.resolve()
  #isClosed = false
  /** What was said last of a fault that lasts. */
  #told: string | undefined
  readonly #restMs: number
  #resting: NodeJS.Timeout | undefined

  /** `onFault` is told what is wrong with the file, once until it is filled again; callers only that it cannot be used. */
  constructor(path: string, onFault: (error: unknown) => void = () => {}, restMs = REST_MS) {
    this.#path = path
    this.#restMs = restMs
    this.#finders = new SearchProcessPool(path)
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
  async fill(filling: IndexUpdate): Promise<string> {
    const mark = markOf(await this.#ask({ what: 'fill', filling }))
    this.#told = undefined
    return mark
  }

  /** Nothing where the index stands elsewhere, filled by another or begun anew: fill it, and ask again. */
  async find(question: FullTextQuery, deadlineMs: number): Promise<readonly FullTextHit[] | undefined> {
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
    clearTimeout(this.#resting)
    const worker = this.#worker
    if (!worker) return
    const gone = new Promise((resolve) => worker.once('exit', resolve))
    worker.ref()
    worker.postMessage({ what: 'end' } satisfies IndexCommand)
    await gone
  }

  async #finding(question: FullTextQuery, deadlineMs: number): Promise<FullTextReply> {
    try {
      return await this.#finders.find(question, deadlineMs)
    } catch (error) {
      if (error instanceof Refusal) throw error
      return { broken: String(error) }
    }
  }

  /** One at a time, in the order in which they were asked. */
  #ask(ask: IndexCommand): Promise<IndexReply> {
    if (this.#isClosed) refuse('unavailable', 'the search is closing')
    const answered = this.#last.then(() => this.#put(ask))
    this.#last = answered.catch(() => {})
    return answered
  }

  async #put(ask: IndexCommand): Promise<IndexReply> {
    clearTimeout(this.#resting)
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
      this.#resting = setTimeout(() => this.#rest(), this.#restMs).unref()
    }
  }

  /** A thread that has nothing to do costs its memory. */
  #rest(): void {
    this.#worker?.postMessage({ what: 'end' } satisfies IndexCommand)
    this.#worker = undefined
  }

  #refuseBroken(why: string): never {
    const sentence = `the search index at ${this.#path} cannot be used: ${why}`
    if (sentence !== this.#told) this.#onFault(new Refusal('unavailable', sentence))
    this.#told = sentence
    return refuse('unavailable', UNUSABLE)
  }

  #open(): Worker {
    // Not `./full-text-thread.ts`: of a package that was compiled it is `.js`.
    const file = new URL(`./full-text-thread${extname(import.meta.url)}`, import.meta.url)
    const worker = new Worker(file, { workerData: { path: this.#path } })
    worker.on('message', (answer: IndexReply) => {
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

/** How long the thread waits for more to do before it ends. */
const REST_MS = 10_000

const UNUSABLE = 'the search index cannot be used'

function markOf(answer: IndexReply): string {
  return 'mark' in answer ? answer.mark : refuse('unavailable', UNUSABLE)
}
