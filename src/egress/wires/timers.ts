// Many timers of few lengths. Those of one length end in the order they were started, so each length has a list, and
// starting and cancelling cost nothing that grows with their number. Lengths are rounded up to be few, whatever is asked for.
import type { Timer } from '../wire.ts'

class Entry implements Timer {
  readonly dueMs: number
  readonly run: () => void
  before: Entry | undefined
  behind: Entry | undefined
  #line: Line | undefined

  constructor(line: Line, dueMs: number, run: () => void) {
    this.#line = line
    this.dueMs = dueMs
    this.run = run
  }

  cancel(): void {
    this.#line?.remove(this)
    this.#line = undefined
    // Whoever keeps this one must not keep those that stood beside it, and through them all that ever came behind.
    this.before = undefined
    this.behind = undefined
  }
}

class Line {
  first: Entry | undefined
  #last: Entry | undefined

  add(entry: Entry): void {
    entry.before = this.#last
    if (this.#last) this.#last.behind = entry
    else this.first = entry
    this.#last = entry
  }

  remove({ before, behind }: Entry): void {
    if (before) before.behind = behind
    else this.first = behind
    if (behind) behind.before = before
    else this.#last = before
  }
}

export class Timers {
  readonly #lines = new Map<number, Line>()

  add(askedMs: number, nowMs: number, run: () => void): Timer {
    const ms = roundUp(askedMs)
    let line = this.#lines.get(ms)
    if (!line) {
      line = new Line()
      this.#lines.set(ms, line)
    }
    const entry = new Entry(line, nowMs + ms, run)
    line.add(entry)
    return entry
  }

  /** When the next one ends, or nothing. */
  nextMs(): number | undefined {
    let next: number | undefined
    for (const { first } of this.#lines.values())
      if (first && (next === undefined || first.dueMs < next)) next = first.dueMs
    return next
  }

  /** Runs those that have ended. */
  run(nowMs: number): void {
    for (const line of this.#lines.values()) {
      while (line.first && line.first.dueMs <= nowMs) {
        const { first } = line
        first.cancel()
        first.run()
      }
    }
  }
}

/** A hundredth of a second, or for long ones a hundredth of their length: below a thousand of them up to an hour. */
function roundUp(ms: number): number {
  const step = Math.max(10, 2 ** (Math.floor(Math.log2(Math.max(ms, 1))) - 6))
  return Math.ceil(ms / step) * step
}
