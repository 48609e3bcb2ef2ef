// What names resolved to, for as long as it holds. Pure: the time comes in, and whoever finds nothing here asks.
import type { Resolved } from './resolver.ts'

const MOST_NAMES = 10_000
/** Long enough that a client in a loop is no load, short enough that a repaired name works when it is tried again. */
const FAILED_MS = 2_000

/** The part of its time that is the end of it: a quarter. */
const LAST_PART = 4

interface Kept {
  readonly resolved: Resolved
  readonly untilMs: number
}

export class NameCache {
  /** In the order they were set, so that the first is the oldest. */
  readonly #names = new Map<string, Kept>()

  get(name: string, nowMs: number): Resolved | undefined {
    const kept = this.#names.get(name)
    if (!kept) return undefined
    if (nowMs < kept.untilMs) return kept.resolved
    this.#names.delete(name)
    return undefined
  }

  /** Whether it holds only a little longer: who asks again now spares the next one the wait. */
  isEnding(name: string, nowMs: number): boolean {
    const kept = this.#names.get(name)
    if (kept?.resolved.kind !== 'addresses') return false
    return nowMs >= kept.untilMs - kept.resolved.ttlMs / LAST_PART
  }

  set(name: string, resolved: Resolved, nowMs: number): void {
    // What still holds is better than that it could not be asked again.
    if (resolved.kind === 'failed' && this.get(name, nowMs)?.kind === 'addresses') return
    this.#names.delete(name)
    // They say how busy the proxy was, and nothing about the name.
    if (resolved.kind === 'failed' && (resolved.rcode === 'OVERLOAD' || resolved.code === 'out-of-files')) return
    this.#names.set(name, { resolved, untilMs: nowMs + (resolved.kind === 'failed' ? FAILED_MS : resolved.ttlMs) })
    if (this.#names.size > MOST_NAMES) this.#dropOldest()
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
