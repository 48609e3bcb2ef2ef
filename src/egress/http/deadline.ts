// One time limit that moves with what a connection is doing. Moving it costs a number and no timer: the timer looks, when
// it rings, whether it has become too early.
import type { Timer, Wires } from '../wire.ts'

export class Deadline {
  readonly #wires: Wires
  readonly #run: () => void
  #timer: Timer | undefined
  #ringsAt = Number.POSITIVE_INFINITY
  #dueAt = Number.POSITIVE_INFINITY

  constructor(wires: Wires, run: () => void) {
    this.#wires = wires
    this.#run = run
  }

  set(ms: number): void {
    const now = this.#wires.now()
    this.#dueAt = now + ms
    if (this.#dueAt < this.#ringsAt) this.#arm(now)
  }

  /** Nothing is due until the next `set`. */
  clear(): void {
    this.#dueAt = Number.POSITIVE_INFINITY
  }

  /** For good: no timer is left. */
  cancel(): void {
    this.clear()
    this.#timer?.cancel()
    this.#timer = undefined
    this.#ringsAt = Number.POSITIVE_INFINITY
  }

  #arm(now: number): void {
    this.#timer?.cancel()
    this.#ringsAt = this.#dueAt
    this.#timer = this.#wires.after(Math.max(1, this.#dueAt - now), () => this.#ring())
  }

  #ring(): void {
    this.#timer = undefined
    this.#ringsAt = Number.POSITIVE_INFINITY
    if (this.#dueAt === Number.POSITIVE_INFINITY) return
    const now = this.#wires.now()
    if (now < this.#dueAt) {
      this.#arm(now)
      return
    }
    this.clear()
    this.#run()
  }
}
