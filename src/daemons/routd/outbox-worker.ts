// Delivers waiting outbox messages: notices of the instance, failed sends of tools, and those of processes that died. Any
// number of processes may run it.
import { setTimeout as pause } from 'node:timers/promises'
import { DELIVERY_LEASE_MS, type DeliveryHost, deliver } from '../../core/delivery/delivery.ts'
import { claimOutbox, hasDueRows, type OutboxRow } from '../../core/delivery/outbox.ts'
import type { Log } from '../../lib/log/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import { StoreWatcher } from '../process/store-watcher.ts'

const CONCURRENCY = 16
/** How long running deliveries may take when the daemon stops. */
const STOP_MS = 5000

export interface OutboxWorkerOptions {
  readonly host: DeliveryHost
  readonly log: Pick<Log, 'warn'>
}

export class OutboxWorker {
  readonly #options: OutboxWorkerOptions
  readonly #sending = new Set<Promise<void>>()
  readonly #watcher: StoreWatcher

  constructor(options: OutboxWorkerOptions) {
    this.#options = options
    this.#watcher = new StoreWatcher({ host: options.host, work: 'outbox', check: () => this.#claim() })
  }

  /** Claims nothing more; the next process takes over deliveries that do not finish in time. */
  async close(): Promise<void> {
    await this.#watcher.close()
    await Promise.race([Promise.all(this.#sending), pause(STOP_MS, undefined, { ref: false })])
  }

  async #claim(): Promise<void> {
    const { engine, clock } = this.#options.host
    const limit = CONCURRENCY - this.#sending.size
    if (limit <= 0) return
    const now = clock.now()
    if (!(await engine.read((tx) => hasDueRows(tx, now)))) return
    const claimed = await engine.transaction((tx) => claimOutbox(tx, { now, forMs: DELIVERY_LEASE_MS, limit }))
    for (const row of claimed) this.#deliver(row)
  }

  #deliver(row: OutboxRow & { readonly isUnclear: boolean }): void {
    const { host, log } = this.#options
    const sending = deliver(host, row)
      .then(({ state, error }) => {
        if (state === 'failed' || state === 'unknown')
          log.warn({ message: row.id, chat: row.jid, state, error }, 'message was not delivered')
      })
      .catch((error) => {
        // The row can be claimed again when its lease expires.
        if (!(error instanceof Refusal)) host.faults.report('delivery', error)
      })
      .finally(() => {
        this.#sending.delete(sending)
        this.#watcher.checkSoon()
      })
    this.#sending.add(sending)
  }
}
