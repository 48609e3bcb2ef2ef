// A full-text index in an SQLite file of its own, searched with FTS5. It is derived data: a lost or damaged file is rebuilt.
// A thread writes it and processes search it, so that neither blocks the event loop.
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { guard } from '../../lib/fault-boundary.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type {
  FullTextHit,
  FullTextQuery,
  FullTextReply,
  IndexCommand,
  IndexReply,
  IndexUpdate,
} from './full-text-protocol.ts'
import { SearchProcessPool } from './search-process-pool.ts'

/** An idle writer thread ends after this time, to free its memory. */
const IDLE_MS = 10_000
const UNUSABLE = 'the search index cannot be used'

/** The message is that of FTS5. */
export class QuerySyntaxRefusal extends Refusal {
  constructor(message: string) {
    super('invalid', message)
    this.name = 'QuerySyntaxRefusal'
  }
}

export class FullTextIndex {
  readonly #path: string
  readonly #searches: SearchProcessPool
  readonly #onError: (error: unknown) => void
  readonly #idleMs: number
  #worker: Worker | undefined
  #reply: PromiseWithResolvers<IndexReply> | undefined
  #last: Promise<unknown> = Promise.resolve()
  #isClosed = false
  /** The last reported error, so that a lasting one is reported once. */
  #reported: string | undefined
  #idleTimer: NodeJS.Timeout | undefined

  /** `onError` gets each problem of the file once until an update succeeds. Callers only learn that it cannot be used. */
  constructor(path: string, onError: (error: unknown) => void = () => {}, idleMs = IDLE_MS) {
    this.#path = path
    this.#idleMs = idleMs
    this.#searches = new SearchProcessPool(path)
    this.#onError = onError
  }

  /** Returns how far the index is filled, by any process. */
  mark(): Promise<string> {
    return this.#request({ kind: 'mark' })
  }

  reset(): Promise<string> {
    return this.#request({ kind: 'reset' })
  }

  /** Returns the mark afterwards: `to`, or the mark of another process that was faster. */
  async update(update: IndexUpdate): Promise<string> {
    const mark = await this.#request({ kind: 'update', update })
    this.#reported = undefined
    return mark
  }

  /** Returns undefined if the index is at another mark, updated by another process or rebuilt: update it and search again. */
  async find(
    query: FullTextQuery,
    deadlineMs: number,
    requester?: string,
  ): Promise<readonly FullTextHit[] | undefined> {
    const reply = await this.#search(query, deadlineMs, requester)
    if ('hits' in reply) return reply.hits
    if ('queryError' in reply) return refuse('invalid', reply.queryError)
    if ('syntaxError' in reply) throw new QuerySyntaxRefusal(reply.syntaxError)
    if ('error' in reply) return this.#refuseUnusable(reply.error)
    if (!('mark' in reply)) await this.#request({ kind: 'replace', damagedInode: reply.damagedInode })
    return undefined
  }

  /** Ends running searches at once. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#searches.close()
    await this.#last
    clearTimeout(this.#idleTimer)
    const worker = this.#worker
    if (!worker) return
    const exited = new Promise((resolve) => worker.once('exit', resolve))
    worker.ref()
    worker.postMessage({ kind: 'close' } satisfies IndexCommand)
    await exited
  }

  async #search(query: FullTextQuery, deadlineMs: number, requester: string | undefined): Promise<FullTextReply> {
    try {
      return await this.#searches.find(query, deadlineMs, requester)
    } catch (error) {
      if (error instanceof Refusal) throw error
      return { error: String(error) }
    }
  }

  /** Sends commands to the thread one at a time, in order. */
  async #request(command: IndexCommand): Promise<string> {
    if (this.#isClosed) refuse('unavailable', 'the search is closing')
    const sent = this.#last.then(() => this.#send(command))
    this.#last = sent.catch(() => {})
    const reply = await sent
    return 'mark' in reply ? reply.mark : this.#refuseUnusable(reply.error)
  }

  async #send(command: IndexCommand): Promise<IndexReply> {
    clearTimeout(this.#idleTimer)
    this.#worker ??= this.#start()
    const worker = this.#worker
    this.#reply = Promise.withResolvers()
    // The thread keeps the process alive only during a command.
    worker.ref()
    try {
      worker.postMessage(command)
      return await this.#reply.promise
    } finally {
      this.#reply = undefined
      worker.unref()
      this.#idleTimer = setTimeout(
        guard(this.#onError, () => this.#end()),
        this.#idleMs,
      ).unref()
    }
  }

  #end(): void {
    this.#worker?.postMessage({ kind: 'close' } satisfies IndexCommand)
    this.#worker = undefined
  }

  #refuseUnusable(reason: string): never {
    const message = `the search index at ${this.#path} cannot be used: ${reason}`
    if (message !== this.#reported) this.#onError(new Refusal('unavailable', message))
    this.#reported = message
    return refuse('unavailable', UNUSABLE)
  }

  #start(): Worker {
    // The extension is `.js` in the compiled package.
    const file = new URL(`./full-text-thread${extname(import.meta.url)}`, import.meta.url)
    const worker = new Worker(file, { workerData: { path: this.#path } })
    worker.on('message', (reply: IndexReply) => {
      if (this.#worker === worker) this.#reply?.resolve(reply)
    })
    worker.on('error', (error) => {
      this.#onError(error)
      this.#lose(worker)
    })
    worker.on('exit', () => this.#lose(worker))
    return worker
  }

  #lose(worker: Worker): void {
    if (this.#worker !== worker) return
    this.#worker = undefined
    this.#reply?.reject(new Refusal('unavailable', UNUSABLE))
  }
}
