// Keeps the write-ahead log short. Checkpoints wait for the disk, so a thread with its own connection runs them. It starts when
// the log first gets long, which most commands never reach.
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { Refusal } from '../../lib/refusal.ts'
import type { SqliteConnection } from './connection.ts'

const MIB = 1024 * 1024
/** The default of SQLite. */
const CHECKPOINT_BYTES = 4 * MIB
/** A log of this size is restarted. Other writers must wait, because each commit adds pages. */
const RESTART_BYTES = 16 * MIB
/** If a reader prevents the restart, it is retried when the log has grown by this much. */
const RETRY_BYTES = 4 * MIB

export type CheckpointCommand = 'passive' | 'restart' | 'close'

export interface CheckpointReply {
  /** A disk failure. Absent if the command succeeded or can be retried later. */
  readonly error?: string
}

type LogConnection = Pick<SqliteConnection, 'path' | 'pageBytes' | 'walPages'>

export class WalCheckpointer {
  readonly #connection: LogConnection
  readonly #onFailure: (error: unknown) => void
  #worker: Worker | undefined
  #running: PromiseWithResolvers<void> | undefined
  readonly #pageBytes: number
  /** The log is restarted at this size. */
  #restartBytes = RESTART_BYTES
  #isClosed = false

  constructor(connection: LogConnection, onFailure: (error: unknown) => void) {
    this.#connection = connection
    this.#onFailure = onFailure
    this.#pageBytes = connection.pageBytes
  }

  /** Returns a promise only if the next commit must wait for it. */
  afterCommit(): Promise<void> | undefined {
    if (this.#isClosed) return undefined
    const { pages, checkpointed } = this.#connection.walPages
    const bytes = pages * this.#pageBytes
    if (bytes < CHECKPOINT_BYTES) this.#restartBytes = RESTART_BYTES
    if (bytes >= this.#restartBytes) return this.#restart()
    const isDue = bytes - checkpointed * this.#pageBytes >= CHECKPOINT_BYTES
    if (isDue && !this.#running) this.#send('passive').catch(this.#onFailure)
    return undefined
  }

  async #restart(): Promise<void> {
    await this.#running?.promise
    if (this.#isClosed) return
    await this.#send('restart')
    // The caller may have closed the store meanwhile.
    if (this.#isClosed) return
    this.#restartBytes = this.#connection.walPages.pages * this.#pageBytes + RETRY_BYTES
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#running?.promise
    const worker = this.#worker
    this.#worker = undefined
    if (!worker) return
    const exited = new Promise((resolve) => worker.once('exit', resolve))
    worker.ref()
    worker.postMessage('close' satisfies CheckpointCommand)
    await exited
  }

  #send(command: CheckpointCommand): Promise<void> {
    this.#running = Promise.withResolvers()
    this.#worker ??= this.#start()
    this.#worker.postMessage(command)
    return this.#running.promise
  }

  #start(): Worker {
    // The extension is `.js` in the compiled package.
    const file = new URL(`./checkpoint-thread${extname(import.meta.url)}`, import.meta.url)
    const worker = new Worker(file, { workerData: this.#connection.path })
    worker.unref()
    worker.on('message', ({ error }: CheckpointReply) => this.#handleReply(error))
    worker.on('error', (error) => this.#handleReply(error instanceof Error ? error.message : String(error)))
    worker.on('exit', () => {
      this.#worker = undefined
      if (!this.#isClosed) this.#handleReply('the checkpoint thread of the store ended unexpectedly')
    })
    return worker
  }

  #handleReply(error: string | undefined): void {
    const running = this.#running
    this.#running = undefined
    // After a failure the content of the file is unknown: the next process must start with the whole log.
    if (error !== undefined) {
      this.#isClosed = true
      this.#onFailure(new Refusal('unavailable', error))
    }
    running?.resolve()
  }
}
