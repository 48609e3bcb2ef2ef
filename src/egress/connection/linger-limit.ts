// Limits the refused connections that linger until their client has read the response. They no longer count for their
// source but each has a descriptor, so above the limit per source or in total they are closed at once.

const SOURCE_SHARE = 1 / 4

export class LingerLimit {
  readonly #max: number
  readonly #maxPerSource: number
  readonly #counts = new Map<string, number>()
  #size = 0

  constructor(max: number) {
    this.#max = max
    this.#maxPerSource = Math.max(1, Math.floor(max * SOURCE_SHARE))
  }

  /** Returns false at the limit; otherwise call `release` when the connection is closed. */
  acquire(source: string): boolean {
    const count = this.#counts.get(source) ?? 0
    if (this.#size >= this.#max || count >= this.#maxPerSource) return false
    this.#counts.set(source, count + 1)
    this.#size++
    return true
  }

  release(source: string): void {
    const count = (this.#counts.get(source) ?? 0) - 1
    if (count > 0) this.#counts.set(source, count)
    else this.#counts.delete(source)
    this.#size--
  }
}
