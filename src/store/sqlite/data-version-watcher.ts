// Detects commits of other connections and processes by polling the data version of SQLite, which each commit changes.

/** Not shorter, because each poll wakes up an idle process. */
const POLL_MS = 200

export class DataVersionWatcher {
  /** Undefined if it cannot be read. */
  readonly #read: () => unknown
  readonly #listeners = new Set<(payload: string) => void>()
  #version: unknown
  #timer: NodeJS.Timeout | undefined

  constructor(read: () => unknown) {
    this.#read = read
  }

  /** Polls only while there are listeners. */
  listen(listener: (payload: string) => void): () => void {
    // A wrapper, because the same listener may be added twice.
    const added = (payload: string): void => listener(payload)
    if (this.#listeners.size === 0) this.#version = this.#read()
    this.#listeners.add(added)
    this.#timer ??= setInterval(() => this.#poll(), POLL_MS).unref()
    return () => {
      this.#listeners.delete(added)
      if (this.#listeners.size === 0) this.#stop()
    }
  }

  close(): void {
    this.#stop()
    this.#listeners.clear()
  }

  #stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #poll(): void {
    const version = this.#read()
    if (version === this.#version) return
    this.#version = version
    for (const listener of [...this.#listeners]) listener('')
  }
}
