// Batches access log lines. A source that is refused in a loop does not fill the disk: above a rate, its refusals are only counted
// and reported in one line.

import type { TcpTransport, Timer } from '../transport/transport.ts'
import { type AccessRecord, formatAccessLine, formatSuppressedLine } from './access-record.ts'

const GATHER_MS = 100
const GATHER_CHARACTERS = 65_536
/** Per source and second. Requests that were allowed or have sent data are always logged. */
const REFUSALS_MAX = 200
const SECOND_MS = 1000

export class AccessLog {
  readonly #wires: TcpTransport
  readonly #write: (lines: string) => void
  /** Refusals in the current second, by source. */
  readonly #refused = new Map<string, number>()
  #second = 0
  #lines = ''
  #timer: Timer | undefined
  #stamp = ''
  #stampedMs = 0

  constructor(wires: TcpTransport, write: (lines: string) => void) {
    this.#wires = wires
    this.#write = write
  }

  add(exchange: AccessRecord, nowMs: number): void {
    if (nowMs !== this.#stampedMs) this.#advanceSecond(nowMs)
    const hasSent = exchange.verdict === 'allow' || exchange.bytesUp > 0
    if (!hasSent && this.#isOverLimit(exchange.source)) return
    this.#lines += formatAccessLine(exchange, this.#stamp)
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

  /** Also reports what the last second suppressed. */
  close(): void {
    this.#reportSuppressed()
    this.flush()
  }

  #advanceSecond(nowMs: number): void {
    const second = Math.floor(nowMs / SECOND_MS)
    if (second !== this.#second) this.#reportSuppressed()
    this.#second = second
    this.#stampedMs = nowMs
    this.#stamp = new Date(nowMs).toISOString()
  }

  #isOverLimit(source: string): boolean {
    const count = (this.#refused.get(source) ?? 0) + 1
    this.#refused.set(source, count)
    // Report the count at the end of the second, even without further requests.
    if (count === REFUSALS_MAX + 1) this.#wires.after(SECOND_MS, () => this.#reportOverdue())
    return count > REFUSALS_MAX
  }

  #reportOverdue(): void {
    this.#reportSuppressed()
    this.flush()
  }

  #reportSuppressed(): void {
    for (const [source, count] of this.#refused)
      if (count > REFUSALS_MAX) this.#lines += formatSuppressedLine(source, count - REFUSALS_MAX, this.#stamp)
    this.#refused.clear()
  }
}
