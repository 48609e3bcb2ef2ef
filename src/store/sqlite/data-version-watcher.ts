// Notices commits of other connections, also in other processes: each changes the data version that SQLite tells a connection.
import type { SqliteConnection } from './connection.ts'

/** Every look wakes an idle process. */
const LOOK_MS = 200

export class DataVersionWatcher {
  readonly #connection: SqliteConnection
  readonly #listeners = new Set<(about: string) => void>()
  #version: unknown
  #timer: NodeJS.Timeout | undefined

  /** Closes the connection when it is closed. */
  constructor(connection: SqliteConnection) {
    this.#connection = connection
    connection.makeReadOnly()
  }

  /** Nothing is looked at while there is no listener. */
  listen(listener: (about: string) => void): () => void {
    // A function of its own: the same listener may be given twice.
    const heard = (about: string): void => listener(about)
    if (this.#listeners.size === 0) this.#version = this.#read()
    this.#listeners.add(heard)
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
    return () => {
      this.#listeners.delete(heard)
      if (this.#listeners.size === 0) this.#stop()
    }
  }

  close(): void {
    this.#stop()
    this.#listeners.clear()
    this.#connection.close()
  }

  #stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #look(): void {
    const version = this.#read()
    if (version === this.#version) return
    this.#version = version
    for (const listener of [...this.#listeners]) listener('')
  }

  /** A hint must not fail: a caller that reads or writes is told what is wrong with the store. */
  #read(): unknown {
    try {
      return this.#connection.pragma('data_version')
    } catch {
      return undefined
    }
  }
}
