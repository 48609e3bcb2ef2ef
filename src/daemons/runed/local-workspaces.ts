// Checks which workspaces are in this data directory. Several machines may share a store; each runs the turns of its own
// workspaces. A folder whose workspace is on none of them waits, such as after a restore of the store alone.
import { statSync } from 'node:fs'
import { groupDirs, type Layout } from '../../core/layout.ts'
import type { WorkspaceAvailability } from '../../core/turns/turn-claim.ts'
import type { Log } from '../../lib/log/log.ts'

/** Interval of checks whether a missing workspace has appeared. */
const CHECK_MS = 1000

export class LocalWorkspaces implements WorkspaceAvailability {
  readonly #layout: Layout
  readonly #log: Log
  readonly #missing = new Set<string>()
  #checkedAt = Number.NEGATIVE_INFINITY

  constructor(layout: Layout, log: Log) {
    this.#layout = layout
    this.#log = log
  }

  has(folder: string): boolean {
    const isPresent = isDirectory(groupDirs(this.#layout, folder).home)
    if (isPresent && this.#missing.delete(folder))
      this.#log.info({ folder }, 'workspace found, its messages are answered now')
    if (!isPresent && !this.#missing.has(folder)) {
      this.#missing.add(folder)
      this.#log.warn({ folder }, 'workspace is not in this data directory, its messages wait')
    }
    return isPresent
  }

  missing(): readonly string[] {
    if (performance.now() - this.#checkedAt >= CHECK_MS) {
      this.#checkedAt = performance.now()
      for (const folder of this.#missing) this.has(folder)
    }
    return [...this.#missing]
  }
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}
