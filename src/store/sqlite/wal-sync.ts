// Makes commits durable without holding up the event loop: the connection commits to the write-ahead log without a sync, and
// the log is synced by Node's thread pool. Commits that are made while a sync runs share the next one.
import { close, fdatasync, openSync } from 'node:fs'
import { promisify } from 'node:util'

export class WalSync {
  readonly #path: string
  readonly #sync: (file: number) => Promise<void>
  #file: number | undefined
  #running: Promise<void> | undefined
  #next: Promise<void> | undefined

  /** `sync` is the system's own unless a test brings another. */
  constructor(store: string, sync: (file: number) => Promise<void> = promisify(fdatasync)) {
    this.#path = `${store}-wal`
    this.#sync = sync
  }

  /** Resolved when what is committed by now is on the disk. After a failure nothing is, any more. */
  afterCommit(): Promise<void> {
    if (!this.#running) {
      this.#running = this.#run()
      return this.#running
    }
    this.#next ??= this.#running.then(() => {
      this.#next = undefined
      this.#running = this.#run()
      return this.#running
    })
    return this.#next
  }

  /** The sync that covers everything that is committed by now; absent where all of it is on the disk. */
  get pending(): Promise<void> | undefined {
    return this.#next ?? this.#running
  }

  async #run(): Promise<void> {
    // The log is there from the first commit on, and until the last connection is closed.
    this.#file ??= openSync(this.#path, 'r')
    await this.#sync(this.#file)
    if (!this.#next) this.#running = undefined
  }

  /** After the last commit. */
  async close(): Promise<void> {
    await this.pending?.catch(() => {})
    const file = this.#file
    this.#file = undefined
    if (file !== undefined) await promisify(close)(file)
  }
}
