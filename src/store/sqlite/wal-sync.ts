// Makes commits durable without blocking the event loop: connections commit without a sync, and the thread pool of Node syncs
// the write-ahead log. Commits during a sync share the next one.
import { close, fdatasync, openSync } from 'node:fs'
import { promisify } from 'node:util'

export class WalSync {
  readonly #path: string
  readonly #sync: (file: number) => Promise<void>
  #file: number | undefined
  #running: Promise<void> | undefined
  #next: Promise<void> | undefined

  constructor(store: string, sync: (file: number) => Promise<void> = promisify(fdatasync)) {
    this.#path = `${store}-wal`
    this.#sync = sync
  }

  /** Resolves when all commits so far are on disk. After one failure, all later syncs fail. */
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

  /** The sync that covers all commits so far; undefined if they are on disk. */
  get pending(): Promise<void> | undefined {
    return this.#next ?? this.#running
  }

  async #run(): Promise<void> {
    // The log exists from the first commit until the last connection is closed.
    this.#file ??= openSync(this.#path, 'r')
    await this.#sync(this.#file)
    if (!this.#next) this.#running = undefined
  }

  /** Call after the last commit. */
  async close(): Promise<void> {
    await this.pending?.catch(() => {})
    const file = this.#file
    this.#file = undefined
    if (file !== undefined) await promisify(close)(file)
  }
}
