// Connections that were refused and wait for their client to read why. They belong to no source any more, but each has a
// descriptor: beyond so many of one source, and of all, a client is told and closed at once.

const SOURCE_PART = 1 / 4

export class Refusals {
  readonly #max: number
  readonly #perSource: number
  readonly #counts = new Map<string, number>()
  #size = 0

  constructor(max: number) {
    this.#max = max
    this.#perSource = Math.max(1, Math.floor(max * SOURCE_PART))
  }

  /** Whether this one may wait; then `end` is called when it is over. */
  begin(source: string): boolean {
    const count = this.#counts.get(source) ?? 0
    if (this.#size >= this.#max || count >= this.#perSource) return false
    this.#counts.set(source, count + 1)
    this.#size++
    return true
  }

  end(source: string): void {
    const count = (this.#counts.get(source) ?? 0) - 1
    if (count > 0) this.#counts.set(source, count)
    else this.#counts.delete(source)
    this.#size--
  }
}
