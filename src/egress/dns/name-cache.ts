// Caches DNS results until they expire. Pure: callers pass the time and resolve misses.
import type { DnsResult } from './resolver.ts'

const MAX_NAMES = 10_000
/** Long enough to absorb a client in a loop, short enough that a repaired name soon works. */
const FAILED_MS = 2_000

/** An entry is expiring in the last quarter of its lifetime. */
const EXPIRING_FRACTION = 4

interface CacheEntry {
  readonly resolved: DnsResult
  readonly untilMs: number
}

export class NameCache {
  /** In insertion order, so the first is the oldest. */
  readonly #names = new Map<string, CacheEntry>()

  get(name: string, nowMs: number): DnsResult | undefined {
    const entry = this.#names.get(name)
    if (!entry) return undefined
    if (nowMs < entry.untilMs) return entry.resolved
    this.#names.delete(name)
    return undefined
  }

  /** Whether the entry expires soon, so that refreshing it now spares the next caller the wait. */
  isExpiringSoon(name: string, nowMs: number): boolean {
    const entry = this.#names.get(name)
    if (entry?.resolved.kind !== 'addresses') return false
    return nowMs >= entry.untilMs - entry.resolved.ttlMs / EXPIRING_FRACTION
  }

  set(name: string, resolved: DnsResult, nowMs: number): void {
    // Keep a valid result over a failed refresh.
    if (resolved.kind === 'failed' && this.get(name, nowMs)?.kind === 'addresses') return
    this.#names.delete(name)
    // These describe the load of the proxy, not the name.
    if (resolved.kind === 'failed' && (resolved.rcode === 'OVERLOAD' || resolved.code === 'out-of-files')) return
    this.#names.set(name, { resolved, untilMs: nowMs + (resolved.kind === 'failed' ? FAILED_MS : resolved.ttlMs) })
    if (this.#names.size > MAX_NAMES) this.#dropOldest()
  }

  get size(): number {
    return this.#names.size
  }

  #dropOldest(): void {
    for (const name of this.#names.keys()) {
      this.#names.delete(name)
      return
    }
  }
}
