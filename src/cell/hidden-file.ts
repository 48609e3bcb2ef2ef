// A file without a name, for a process that is handed a descriptor of it.
import { randomBytes } from 'node:crypto'
import { closeSync, constants, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export class HiddenFile {
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

  /** For one reader: descriptors that are copies of each other share one position. The caller closes it. */
  reopen(): number {
    return openSync(`/proc/self/fd/${this.#fd}`, constants.O_RDONLY)
  }

  close(): void {
    closeSync(this.#fd)
  }
}
