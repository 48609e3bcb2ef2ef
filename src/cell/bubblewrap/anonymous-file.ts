// An unlinked file whose descriptor is passed to another process.
import { randomBytes } from 'node:crypto'
import { closeSync, constants, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export class AnonymousFile {
  readonly #fd: number

  constructor(content: string | Uint8Array) {
    const path = join(tmpdir(), `.svc-${randomBytes(12).toString('hex')}`)
    writeFileSync(path, content, { mode: 0o600, flag: 'wx' })
    try {
      this.#fd = openSync(path, constants.O_RDONLY)
    } finally {
      rmSync(path, { force: true })
    }
  }

  /** A descriptor with its own read position; duplicated descriptors share one. The caller closes it. */
  reopen(): number {
    return openSync(`/proc/self/fd/${this.#fd}`, constants.O_RDONLY)
  }

  close(): void {
    closeSync(this.#fd)
  }
}
