// Detects commits of other connections and processes by polling the data version of SQLite, which each commit changes.
import { type FaultHandler, guard } from '../../lib/fault-boundary.ts'

/** Not shorter, because each poll wakes up an idle process. */
const POLL_MS = 200

export class DataVersionWatcher {
  /** Undefined if it cannot be read. */
  readonly #read: () => unknown
  readonly #listeners = new Set<(payload: string) => void>()
  readonly #onFault: FaultHandler
  #version: unknown
  #timer: NodeJS.Timeout | undefined

  /** `onFault` gets the exceptions of listeners. */
  constructor(read: () => unknown, onFault: FaultHandler) {
    this.#read = read
    this.#onFault = onFault
  }

  /** Polls only while there are listeners. */
  listen(listener: (payload: string) => void): () => void {
    // A wrapper, also because the same listener may be added twice.
    const added = guard(this.#onFault, listener)
    if (this.#listeners.size === 0) this.#version = this.#read()
    this.#listeners.add(added)
    this.#timer ??= setInterval(
      guard(this.#onFault, () => this.#poll()),
      POLL_MS,
    ).unref()
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
