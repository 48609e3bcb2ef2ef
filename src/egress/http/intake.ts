// What a client sends, handed on as far as it can be taken, and held back where it cannot. Whoever sends ahead is not read
// any further until it is his turn: at most what one read brought is kept.

import type { Wire } from '../wire.ts'
import { Backlog } from './backlog.ts'

export interface Taker {
  /** Takes something from `at` on, and says where it ended; `at` itself when nothing can be taken now. */
  take(bytes: Buffer, at: number): number
  /** Everything that could be taken is. */
  settle(): void
}

export class Intake {
  readonly #client: Wire
  readonly #taker: Taker
  readonly #backlog = new Backlog()
  #isTaking = false
  #isPaused = false

  constructor(client: Wire, taker: Taker) {
    this.#client = client
    this.#taker = taker
  }

  get isEmpty(): boolean {
    return this.#backlog.length === 0
  }

  /** What nobody has taken. */
  get rest(): Buffer {
    return this.#backlog.bytes
  }

  push(bytes: Buffer): void {
    if (!this.isEmpty) {
      this.#backlog.add(bytes)
      this.advance()
      return
    }
    const at = this.#take(bytes)
    if (at < bytes.length) this.#backlog.add(bytes.subarray(at))
    this.#taker.settle()
  }

  /** Goes on with what is there, where something has changed. */
  advance(): void {
    // Whoever takes may change something himself: then the loop that is running goes on.
    if (this.#isTaking) return
    if (!this.isEmpty) this.#backlog.skip(this.#take(this.#backlog.bytes))
    this.#taker.settle()
  }

  setPaused(isPaused: boolean): void {
    if (isPaused === this.#isPaused) return
    this.#isPaused = isPaused
    if (isPaused) this.#client.pause()
    else this.#client.resume()
  }

  #take(bytes: Buffer): number {
    let at = 0
    this.#isTaking = true
    while (at < bytes.length) {
      const next = this.#taker.take(bytes, at)
      if (next === at) break
      at = next
    }
    this.#isTaking = false
    return at
  }
}
