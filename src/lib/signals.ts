// Word within one process that something was committed. A hint: whoever must know looks at the store.

/** `isWork` is false where something is there to be read, and nothing to be done about it. */
export type Listener = (keys: readonly string[], isWork: boolean) => void

export class Signals {
  readonly #listeners = new Set<Listener>()

  on(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Without keys: it may concern anybody. */
  emit(keys: readonly string[] = [], isWork = true): void {
    for (const listener of this.#listeners) listener(keys, isWork)
  }
}
