// What a client's connection waits for, and how long. There is no limit for a transfer that moves.

import type { Limits } from '../limits.ts'
import type { Wires } from '../wire.ts'
import { Deadline } from './deadline.ts'

export type Wait =
  /** The rest of a head. Due from its first byte on, however it trickles. */
  | 'head'
  /** The next request, with connections to origins kept for it, or without. */
  | 'idle'
  | 'idle-alone'
  /** A connection; whoever dials has limits of his own. */
  | 'dial'
  /** The head of an answer. */
  | 'answer'
  /** That anything moves. */
  | 'bytes'
  /** That the client ends, too. */
  | 'leave'

export class Patience {
  readonly #limits: Limits
  readonly #deadline: Deadline
  #wait: Wait = 'dial'

  constructor(wires: Wires, limits: Limits, ring: (wait: Wait) => void) {
    this.#limits = limits
    this.#deadline = new Deadline(wires, () => ring(this.#wait))
  }

  /** From now on. */
  begin(wait: Wait, already = 0): void {
    this.#wait = wait
    const ms = this.#msOf(wait) - already
    if (ms === Number.POSITIVE_INFINITY) this.#deadline.clear()
    else this.#deadline.set(Math.max(1, ms))
  }

  /** The same, unless it is what is waited for already. */
  keep(wait: Wait): void {
    if (wait !== this.#wait) this.begin(wait)
  }

  cancel(): void {
    this.#deadline.cancel()
  }

  #msOf(wait: Wait): number {
    const { headMs, keepAliveMs, originIdleMs, responseMs, idleMs, lingerMs } = this.#limits
    if (wait === 'head') return headMs
    if (wait === 'idle') return Math.min(keepAliveMs, originIdleMs)
    if (wait === 'idle-alone') return keepAliveMs
    if (wait === 'bytes') return idleMs
    if (wait === 'leave') return lingerMs
    return wait === 'answer' && responseMs > 0 ? responseMs : Number.POSITIVE_INFINITY
  }
}
