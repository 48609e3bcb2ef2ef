// Makes commits durable without blocking the event loop: connections commit without a sync, and the thread pool of Node syncs
// the write-ahead log. Commits during a sync share the next one. A read may also have seen commits of other processes, which
// they sync later or, if they die, never: `beforeResult` says what to wait for.
import { close, fdatasync, openSync } from 'node:fs'
import { promisify } from 'node:util'

export interface WalSyncOptions {
  /** Changes with each commit of any process. */
  position(): unknown
  readonly sync?: ((file: number) => Promise<void>) | undefined
}

export class WalSync {
  readonly #path: string
  readonly #position: () => unknown
  readonly #sync: (file: number) => Promise<void>
  #file: number | undefined
  #running: Promise<void> | undefined
  #next: Promise<void> | undefined
  /** Where the log was when the running sync began, and when the last one that ended did. */
  #runningPosition: unknown
  #syncedPosition: unknown

  constructor(store: string, { position, sync = promisify(fdatasync) }: WalSyncOptions) {
    this.#path = `${store}-wal`
    this.#position = position
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

  /** The sync that covers every commit that a read so far can have seen; undefined if all of them are on disk. */
  beforeResult(): Promise<void> | undefined {
    const position = this.#position()
    if (position !== undefined && position === this.#syncedPosition) return undefined
    if (this.#running && position === this.#runningPosition) return this.#running
    return this.afterCommit()
  }

  async #run(): Promise<void> {
    // The log exists from the first commit until the last connection is closed.
    this.#file ??= openSync(this.#path, 'r')
    const position = this.#position()
    this.#runningPosition = position
    await this.#sync(this.#file)
    this.#syncedPosition = position
    if (!this.#next) this.#running = undefined
  }

  /** Call after the last commit. */
  async close(): Promise<void> {
    await (this.#next ?? this.#running)?.catch(() => {})
    const file = this.#file
    this.#file = undefined
    if (file !== undefined) await promisify(close)(file)
  }
}
