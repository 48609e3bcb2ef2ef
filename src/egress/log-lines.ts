// The lines of the log, gathered and handed over many at a time. A source that is refused in a loop does not fill the disk:
// beyond so many a second its refusals are counted, and the count is the line.
import { type Exchange, lineOf, lineOfLeftOut } from './exchange.ts'
import type { Timer, Wires } from './wire.ts'

const GATHER_MS = 100
const GATHER_CHARACTERS = 65_536
/** Of one source in one second. What was allowed, or has sent anything, is never left out. */
const REFUSALS_MAX = 200
const SECOND_MS = 1000

export class LogLines {
  readonly #wires: Wires
  readonly #write: (lines: string) => void
  /** Refusals of the current second, by source. */
  readonly #refused = new Map<string, number>()
  #second = 0
  #lines = ''
  #timer: Timer | undefined
  #stamp = ''
  #stampedMs = 0

  constructor(wires: Wires, write: (lines: string) => void) {
    this.#wires = wires
    this.#write = write
  }

  add(exchange: Exchange, nowMs: number): void {
    if (nowMs !== this.#stampedMs) this.#moveOn(nowMs)
    const hasSent = exchange.verdict === 'allow' || exchange.bytesUp > 0
    if (!hasSent && this.#isTooMuch(exchange.source)) return
    this.#lines += lineOf(exchange, this.#stamp)
    if (this.#lines.length > GATHER_CHARACTERS) this.flush()
    else this.#timer ??= this.#wires.after(GATHER_MS, () => this.flush())
  }

  flush(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    const lines = this.#lines
    this.#lines = ''
    if (lines !== '') this.#write(lines)
  }

  /** Says what the last second left out, too. */
  close(): void {
    this.#sayLeftOut()
    this.flush()
  }

  #moveOn(nowMs: number): void {
    const second = Math.floor(nowMs / SECOND_MS)
    if (second !== this.#second) this.#sayLeftOut()
    this.#second = second
    this.#stampedMs = nowMs
    this.#stamp = new Date(nowMs).toISOString()
  }

  #isTooMuch(source: string): boolean {
    const count = (this.#refused.get(source) ?? 0) + 1
    this.#refused.set(source, count)
    // The count is said when the second is over, whether or not anything else happens.
    if (count === REFUSALS_MAX + 1) this.#wires.after(SECOND_MS, () => this.#sayOverdue())
    return count > REFUSALS_MAX
  }

  #sayOverdue(): void {
    this.#sayLeftOut()
    this.flush()
  }

  #sayLeftOut(): void {
    for (const [source, count] of this.#refused)
      if (count > REFUSALS_MAX) this.#lines += lineOfLeftOut(source, count - REFUSALS_MAX, this.#stamp)
    this.#refused.clear()
  }
}
