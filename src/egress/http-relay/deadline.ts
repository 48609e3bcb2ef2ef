// A timeout that is often moved. Moving it later only stores a number: when the timer fires too early, it is set again.
import type { TcpTransport, Timer } from '../transport/transport.ts'

export class Deadline {
  readonly #transport: TcpTransport
  readonly #run: () => void
  #timer: Timer | undefined
  #firesAt = Number.POSITIVE_INFINITY
  #dueAt = Number.POSITIVE_INFINITY

  constructor(transport: TcpTransport, run: () => void) {
    this.#transport = transport
    this.#run = run
  }

  set(ms: number): void {
    const now = this.#transport.now()
    this.#dueAt = now + ms
    if (this.#dueAt < this.#firesAt) this.#arm(now)
  }

  /** Disables it until the next `set`. */
  disarm(): void {
    this.#dueAt = Number.POSITIVE_INFINITY
  }

  /** Like `clear`, and cancels the timer. */
  dispose(): void {
    this.disarm()
    this.#timer?.cancel()
    this.#timer = undefined
    this.#firesAt = Number.POSITIVE_INFINITY
  }

  #arm(now: number): void {
    this.#timer?.cancel()
    this.#firesAt = this.#dueAt
    this.#timer = this.#transport.after(Math.max(1, this.#dueAt - now), () => this.#fire())
  }

  #fire(): void {
    this.#timer = undefined
    this.#firesAt = Number.POSITIVE_INFINITY
    if (this.#dueAt === Number.POSITIVE_INFINITY) return
    const now = this.#transport.now()
    if (now < this.#dueAt) {
      this.#arm(now)
      return
    }
    this.disarm()
    this.#run()
  }
}
