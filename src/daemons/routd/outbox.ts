// Sends what waits in the outbox: what the instance itself says, what a tool could not send at once, and what a process that
// died has left behind. Any number of processes may do it.
import { setTimeout as pause } from 'node:timers/promises'
import { DELIVERY_LEASE_MS, type DeliveryHost, deliver } from '../../core/delivery.ts'
import { claimOutbox, hasDue, type Outbox } from '../../core/outbox.ts'
import type { Log } from '../../lib/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import { Lookout } from '../lookout.ts'

const AT_ONCE = 16
/** How long after a stop what is being sent may take. */
const STOP_MS = 5000

export interface OutboxWorkerOptions {
  readonly host: DeliveryHost
  readonly log: Pick<Log, 'warn'>
}

export class OutboxWorker {
  readonly #options: OutboxWorkerOptions
  readonly #sending = new Set<Promise<void>>()
  readonly #lookout: Lookout

  constructor(options: OutboxWorkerOptions) {
    this.#options = options
    this.#lookout = new Lookout({ host: options.host, look: () => this.#look() })
  }

  /** Takes nothing more; what does not come to its end in time is taken up by the next process. */
  async close(): Promise<void> {
    await this.#lookout.close()
    await Promise.race([Promise.all(this.#sending), pause(STOP_MS, undefined, { ref: false })])
  }

  async #look(): Promise<void> {
    const { engine, clock } = this.#options.host
    const limit = AT_ONCE - this.#sending.size
    if (limit <= 0) return
    const now = clock.now()
    if (!(await engine.read((tx) => hasDue(tx, now)))) return
    const claimed = await engine.transaction((tx) => claimOutbox(tx, { now, forMs: DELIVERY_LEASE_MS, limit }))
    for (const row of claimed) this.#start(row)
  }

  #start(row: Outbox & { readonly isUnclear: boolean }): void {
    const { host, log } = this.#options
    const sending = deliver(host, row)
      .then(({ state, error }) => {
        if (state === 'failed' || state === 'unknown')
          log.warn({ message: row.id, chat: row.jid, state, error }, 'not sent')
      })
      .catch((error) => {
        // The row is held until its lease is over, and then looked at by whoever is next.
        if (!(error instanceof Refusal)) host.onStray?.(error)
      })
      .finally(() => {
        this.#sending.delete(sending)
        this.#lookout.soon()
      })
    this.#sending.add(sending)
  }
}
