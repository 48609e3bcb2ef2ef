// Word within one process that something was committed. A hint: whoever must know looks at the store.

export class Signals {
  readonly #listeners = new Set<(keys: readonly string[]) => void>()

  on(listener: (keys: readonly string[]) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Without keys: it may concern anybody. */
  emit(keys: readonly string[] = []): void {
    for (const listener of this.#listeners) listener(keys)
  }
}
