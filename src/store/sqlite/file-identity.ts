// Checks that the open files of a connection still have their names. Commits to a file that was removed or replaced succeed but
// are lost.
import { statSync } from 'node:fs'
import { Refusal } from '../../lib/refusal.ts'

/** Ends the process like a disk failure, because later commits would be lost. */
export class StoreReplacedError extends Refusal {
  constructor(path: string) {
    super(
      'unavailable',
      `the store at ${path} was removed or replaced while it was in use; svc no longer writes to it`,
      'put the right file in its place and restart svc',
    )
  }
}

export class FileIdentity {
  readonly #path: string
  readonly #file: string | undefined
  #log: string | undefined

  constructor(path: string) {
    this.#path = path
    this.#file = readIdentity(path)
  }

  /** Two `stat` calls on cached names take microseconds, much less than a commit. */
  requireUnchanged(): void {
    const log = readIdentity(`${this.#path}-wal`)
    // SQLite creates the log with the first statement; it stays the same file while a connection is open.
    this.#log ??= log
    if (readIdentity(this.#path) !== this.#file || log !== this.#log) throw new StoreReplacedError(this.#path)
  }
}

function readIdentity(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats && `${stats.dev} ${stats.ino}`
}
