// Many timers with few distinct delays. Timers of one delay expire in the order they were started, so each delay has a linked
// list, and starting and cancelling take constant time. Delays are rounded up to keep the number of lists small.
import type { Timer } from './transport.ts'

class TimerNode implements Timer {
  readonly dueMs: number
  readonly run: () => void
  previous: TimerNode | undefined
  next: TimerNode | undefined
  #list: TimerList | undefined

  constructor(list: TimerList, dueMs: number, run: () => void) {
    this.#list = list
    this.dueMs = dueMs
    this.run = run
  }

  cancel(): void {
    this.#list?.remove(this)
    this.#list = undefined
    // A cancelled node that is still referenced must not keep its neighbours, and through them all later ones, in memory.
    this.previous = undefined
    this.next = undefined
  }
}

class TimerList {
  first: TimerNode | undefined
  #last: TimerNode | undefined

  add(node: TimerNode): void {
    node.previous = this.#last
    if (this.#last) this.#last.next = node
    else this.first = node
    this.#last = node
  }

  remove({ previous, next }: TimerNode): void {
    if (previous) previous.next = next
    else this.first = next
    if (next) next.previous = previous
    else this.#last = previous
  }
}

export class Timers {
  readonly #lists = new Map<number, TimerList>()

  add(requestedMs: number, nowMs: number, run: () => void): Timer {
    const ms = roundUp(requestedMs)
    let list = this.#lists.get(ms)
    if (!list) {
      list = new TimerList()
      this.#lists.set(ms, list)
    }
    const node = new TimerNode(list, nowMs + ms, run)
    list.add(node)
    return node
  }

  nextMs(): number | undefined {
    let earliest: number | undefined
    for (const { first } of this.#lists.values())
      if (first && (earliest === undefined || first.dueMs < earliest)) earliest = first.dueMs
    return earliest
  }

  run(nowMs: number): void {
    for (const list of this.#lists.values()) {
      while (list.first && list.first.dueMs <= nowMs) {
        const { first } = list
        first.cancel()
        first.run()
      }
    }
  }
}

/** To 10 ms, or about 1 % of longer delays: fewer than a thousand distinct delays up to an hour. */
function roundUp(ms: number): number {
  const step = Math.max(10, 2 ** (Math.floor(Math.log2(Math.max(ms, 1))) - 6))
  return Math.ceil(ms / step) * step
}
