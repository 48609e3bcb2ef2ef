// When the work behind the answers is done: at once while nobody waits, and in larger pieces under load.
import type { Tidied } from './lane.ts'

/** So much work behind the answers, or work that has waited so long, is not put off any longer. */
const DUE_ITEMS = 50_000
const DUE_MS = 2000
/** A few items are tidied after the first pause; many wait for a longer one, because together they cost less. */
const FEW = 64
const PAUSE_MS = 1
const LONG_PAUSE_MS = 20
const AGAIN_MS = 1000

export class Tidying {
  readonly #tidy: () => Promise<Tidied>
  readonly #tell: (tidied: Tidied) => void
  #items = 0
  /** When the first of them came. */
  #since = 0
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #isOver = false

  constructor(tidy: () => Promise<Tidied>, tell: (tidied: Tidied) => void) {
    this.#tidy = tidy
    this.#tell = tell
    // What an earlier process left.
    this.#soon(PAUSE_MS)
  }

  /** So many items were written; `isUrgent`: somebody waits for what comes of it. */
  note(items: number, isUrgent = false): void {
    const now = performance.now()
    if (this.#items === 0) this.#since = now
    this.#items += items
    if (this.#items >= DUE_ITEMS || now - this.#since >= DUE_MS) this.#start()
    else this.#soon(isUrgent || this.#items < FEW ? PAUSE_MS : LONG_PAUSE_MS)
  }

  /** Resolved when nothing runs any more; what is left is the next process's. */
  async close(): Promise<void> {
    this.#isOver = true
    clearTimeout(this.#timer)
    await this.#running
  }

  #soon(ms: number): void {
    clearTimeout(this.#timer)
    if (!this.#isOver) this.#timer = setTimeout(() => this.#start(), ms)
  }

  #start(): void {
    clearTimeout(this.#timer)
    if (this.#isOver || this.#running) return
    this.#items = 0
    this.#running = this.#run()
  }

  async #run(): Promise<void> {
    let next: number | undefined
    try {
      const tidied = await this.#tidy()
      this.#tell(tidied)
      if (tidied.isMore) next = 0
    } catch {
      // Whoever writes is told what is wrong with the store; this only comes after.
      next = AGAIN_MS
    }
    this.#running = undefined
    if (next !== undefined) this.#soon(next)
    else if (this.#items > 0) this.#soon(PAUSE_MS)
  }
}
