// Bearers whose signature was verified, by hash: verifying one takes longer than the rest of the check.
import type { Engine } from '../../store/engine.ts'

/** Per store; the least recently used is dropped. */
const ENTRIES_MAX = 10_000

/** Keyed weakly by engine: entries are freed with their engine. */
const caches = new WeakMap<Engine, BearerCache<unknown>>()

export class BearerCache<T> {
  readonly #entries = new Map<string, T>()
  readonly #max: number

  constructor(max: number = ENTRIES_MAX) {
    this.#max = max
  }

  get size(): number {
    return this.#entries.size
  }

  get(hash: string): T | undefined {
    const entry = this.#entries.get(hash)
    if (entry === undefined) return undefined
    // A Map iterates in order of insertion, so the first entry is the least recently used one.
    this.#entries.delete(hash)
    this.#entries.set(hash, entry)
    return entry
  }

  set(hash: string, entry: T): void {
    this.#entries.set(hash, entry)
    if (this.#entries.size <= this.#max) return
    const [oldest] = this.#entries.keys()
    if (oldest !== undefined) this.#entries.delete(oldest)
  }

  delete(hash: string): void {
    this.#entries.delete(hash)
  }
}

/** The cache of a store in this process. */
export function bearerCacheOf<T>(engine: Engine): BearerCache<T> {
  const cache = caches.get(engine) ?? new BearerCache<unknown>()
  caches.set(engine, cache)
  // Only bearers.ts stores entries here, all of one type.
  return cache as BearerCache<T>
}
