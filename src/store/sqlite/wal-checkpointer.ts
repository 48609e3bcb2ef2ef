// Keeps the write-ahead log short. Bringing it into the file waits for the disk, so a thread with a connection of its own
// does it, which is started when the log is long for the first time: most commands end before.
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { Refusal } from '../../lib/refusal.ts'
import type { SqliteConnection } from './connection.ts'

const MIB = 1024 * 1024
/** About as much as SQLite itself lets the log have before it brings it into the file. */
const SHORTENED_BYTES = 4 * MIB
/** A log of this size is begun anew. While others write there is always a page more, so they wait for it. */
const RESTARTED_BYTES = 16 * MIB
/** Where a reader uses it for long, it is tried again after so much more. */
const MORE_BYTES = 4 * MIB

export type CheckpointCommand = 'shorten' | 'restart' | 'end'

/** The error of a disk that failed; nothing where it was done, or could not be done now. */
export interface CheckpointReply {
  readonly failed?: string
}

export class WalCheckpointer {
  readonly #connection: Pick<SqliteConnection, 'path' | 'pageBytes' | 'walPages'>
  readonly #onFailure: (error: unknown) => void
  #worker: Worker | undefined
  #asked: PromiseWithResolvers<void> | undefined
  readonly #shortenedPages: number
  readonly #restartedPages: number
  readonly #morePages: number
  /** In pages. */
  #restartAt: number
  #isOver = false

  constructor(
    connection: Pick<SqliteConnection, 'path' | 'pageBytes' | 'walPages'>,
    onFailure: (error: unknown) => void,
  ) {
    this.#connection = connection
    this.#onFailure = onFailure
    const { pageBytes } = connection
    this.#shortenedPages = SHORTENED_BYTES / pageBytes
    this.#restartedPages = RESTARTED_BYTES / pageBytes
    this.#morePages = MORE_BYTES / pageBytes
    this.#restartAt = this.#restartedPages
  }

  /** Nothing, unless the next commit must wait for what is done. */
  afterCommit(): Promise<void> | undefined {
    if (this.#isOver) return undefined
    const { pages, checkpointed } = this.#connection.walPages
    if (pages < this.#shortenedPages) this.#restartAt = this.#restartedPages
    if (pages >= this.#restartAt) return this.#restart()
    if (pages - checkpointed >= this.#shortenedPages && !this.#asked) void this.#ask('shorten')
    return undefined
  }

  async #restart(): Promise<void> {
    await this.#asked?.promise
    if (this.#isOver) return
    await this.#ask('restart')
    // The caller of the commit has been answered meanwhile, and may have closed the store.
    if (this.#isOver) return
    this.#restartAt = this.#connection.walPages.pages + this.#morePages
  }

  async close(): Promise<void> {
    this.#isOver = true
    await this.#asked?.promise
    const worker = this.#worker
    this.#worker = undefined
    if (!worker) return
    const gone = new Promise((resolve) => worker.once('exit', resolve))
    worker.ref()
    worker.postMessage('end' satisfies CheckpointCommand)
    await gone
  }

  #ask(order: CheckpointCommand): Promise<void> {
    this.#asked = Promise.withResolvers()
    this.#worker ??= this.#start()
    this.#worker.postMessage(order)
    return this.#asked.promise
  }

  #start(): Worker {
    const { path } = this.#connection
    // The extension is `.js` in the compiled package.
    const worker = new Worker(new URL(`./checkpoint-thread${extname(import.meta.url)}`, import.meta.url), {
      workerData: path,
    })
    worker.unref()
    worker.on('message', ({ failed }: CheckpointReply) => this.#done(failed))
    worker.on('error', (error) => this.#done(error instanceof Error ? error.message : String(error)))
    worker.on('exit', () => {
      this.#worker = undefined
      if (!this.#isOver) this.#done('the thread that shortens the log has ended')
    })
    return worker
  }

  #done(failed: string | undefined): void {
    const asked = this.#asked
    this.#asked = undefined
    // After a failure it is not known what is in the file: it must be opened anew, with the whole log.
    if (failed !== undefined) {
      this.#isOver = true
      this.#onFailure(new Refusal('unavailable', failed))
    }
    asked?.resolve()
  }
}
