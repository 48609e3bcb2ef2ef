// Whether a small file of the system has changed since it was last asked. It is looked at once a second at most, and on
// the spot: a call for that waits in no queue, and it is over sooner than a thread would have taken it up.
import { statSync } from 'node:fs'

const LOOK_MS = 1_000
/** Longer than the steps in which any file system counts time. */
const SETTLED_MS = 2_000
/** Also of one that is out of reach. */
const MISSING = 'missing'

export class FileLook {
  readonly #path: string
  #stamp: string | undefined
  #lookedMs = Number.NEGATIVE_INFINITY

  constructor(path: string) {
    this.#path = path
  }

  /** Yes the first time. `nowMs` is of a clock that is never set. */
  hasChanged(nowMs: number): boolean {
    if (nowMs - this.#lookedMs < LOOK_MS) return false
    this.#lookedMs = nowMs
    const before = this.#stamp
    this.#stamp = stampOf(this.#path)
    return this.#stamp === undefined || this.#stamp !== before
  }
}

/** Nothing for a file that was changed just now: it may change again within the same step of its time. */
function stampOf(path: string): string | undefined {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs, ctimeMs } = statSync(path, { bigint: true })
    return Date.now() - Number(ctimeMs) < SETTLED_MS ? undefined : [dev, ino, size, mtimeNs, ctimeNs].join(' ')
  } catch {
    return MISSING
  }
}
