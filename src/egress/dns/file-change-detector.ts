// Detects changes of a small system file. Checks at most once a second, synchronously: a stat takes less time than handing it
// to a thread.
import { statSync } from 'node:fs'

const CHECK_MS = 1_000
/** Longer than the timestamp resolution of any file system. */
const SETTLED_MS = 2_000
/** Also for an unreadable file. */
const MISSING = 'missing'

export class FileChangeDetector {
  readonly #path: string
  #stamp: string | undefined
  #lookedMs = Number.NEGATIVE_INFINITY

  constructor(path: string) {
    this.#path = path
  }

  /** True on the first call. `nowMs` is monotonic. */
  hasChanged(nowMs: number): boolean {
    if (nowMs - this.#lookedMs < CHECK_MS) return false
    this.#lookedMs = nowMs
    const before = this.#stamp
    this.#stamp = stampOf(this.#path)
    return this.#stamp === undefined || this.#stamp !== before
  }
}

/** Undefined for a file that changed just now: it may change again within one timestamp step. */
function stampOf(path: string): string | undefined {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs, ctimeMs } = statSync(path, { bigint: true })
    return Date.now() - Number(ctimeMs) < SETTLED_MS ? undefined : [dev, ino, size, mtimeNs, ctimeNs].join(' ')
  } catch {
    return MISSING
  }
}
