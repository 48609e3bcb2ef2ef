// Whether the files that a connection has open are still the ones with their names. A file that was removed or replaced under the
// program takes every commit, and loses all of them.
import { statSync } from 'node:fs'
import { Refusal } from '../../lib/refusal.ts'

/** Ends the process like a failure of the disk: what is acknowledged from then on would go nowhere. */
export class StoreReplacedError extends Refusal {
  constructor(path: string) {
    super(
      'unavailable',
      `the store at ${path} was removed or replaced while it was in use; nothing is written to it any more`,
      'put the right file in its place, and start svc again',
    )
  }
}

export class FileIdentity {
  readonly #path: string
  readonly #file: string | undefined
  #log: string | undefined

  constructor(path: string) {
    this.#path = path
    this.#file = identityOf(path)
  }

  /** Costs two looks at names that the kernel has in memory: microseconds beside a commit. */
  requireUnchanged(): void {
    const log = identityOf(`${this.#path}-wal`)
    // SQLite makes the log with the first statement, and it stays the same file as long as a connection is open.
    this.#log ??= log
    if (identityOf(this.#path) !== this.#file || log !== this.#log) throw new StoreReplacedError(this.#path)
  }
}

function identityOf(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats && `${stats.dev} ${stats.ino}`
}
