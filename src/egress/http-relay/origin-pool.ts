// Idle origin connections of one client, kept for its next requests.
import type { OriginConnection } from './origin-connection.ts'

/** Two idle ones, one in use and the client's own make four descriptors per client; see `EgressContext.isNearCapacity`. */
const IDLE_MAX = 2

export class OriginPool {
  readonly #idle = new Map<string, { readonly origin: OriginConnection; readonly since: number }>()
  readonly #idleMs: number

  constructor(idleMs: number) {
    this.#idleMs = idleMs
  }

  get isEmpty(): boolean {
    return this.#idle.size === 0
  }

  /** Removes the connection from the pool and returns it, unless it is closed or has been idle for too long. */
  take(key: string, now: number): OriginConnection | undefined {
    const entry = this.#idle.get(key)
    if (!entry) return undefined
    this.#idle.delete(key)
    const { origin, since } = entry
    if (!origin.isClosed && now - since < this.#idleMs) return origin
    origin.close()
    return undefined
  }

  keep(origin: OriginConnection, now: number): void {
    origin.isReused = true
    this.#idle.get(origin.key)?.origin.close()
    this.#idle.set(origin.key, { origin, since: now })
    if (this.#idle.size <= IDLE_MAX) return
    for (const [key, oldest] of this.#idle) {
      this.#idle.delete(key)
      oldest.origin.close()
      return
    }
  }

  close(): void {
    for (const { origin } of this.#idle.values()) origin.close()
    this.#idle.clear()
  }
}
