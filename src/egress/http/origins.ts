// The connections to origins that one client has left behind, for its next requests.
import type { Origin } from './origin.ts'

/** With the client's own and the one at hand, four descriptors a client; see `Gate.isCrowded`. */
const KEPT_MAX = 2

export class Origins {
  readonly #kept = new Map<string, { readonly origin: Origin; readonly since: number }>()
  readonly #idleMs: number

  constructor(idleMs: number) {
    this.#idleMs = idleMs
  }

  get isEmpty(): boolean {
    return this.#kept.size === 0
  }

  /** One that leads there, which the caller then owns. */
  take(key: string, now: number): Origin | undefined {
    const found = this.#kept.get(key)
    if (!found) return undefined
    this.#kept.delete(key)
    const { origin, since } = found
    if (!origin.isOver && now - since < this.#idleMs) return origin
    origin.close()
    return undefined
  }

  keep(origin: Origin, now: number): void {
    origin.isReused = true
    this.#kept.get(origin.key)?.origin.close()
    this.#kept.set(origin.key, { origin, since: now })
    if (this.#kept.size <= KEPT_MAX) return
    for (const [key, oldest] of this.#kept) {
      this.#kept.delete(key)
      oldest.origin.close()
      return
    }
  }

  close(): void {
    for (const { origin } of this.#kept.values()) origin.close()
    this.#kept.clear()
  }
}
