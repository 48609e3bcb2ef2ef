// Delivers waiting outbox messages: notices of the instance, failed sends of tools, and those of processes that died. Any
// number of processes may run it.
import { setTimeout as pause } from 'node:timers/promises'
import { answeredLink, DELIVERY_LEASE_MS, deliver } from '../../core/delivery/delivery.ts'
import {
  busyKeys,
  type ClaimedOutboxRow,
  claimOutbox,
  claimSuspect,
  hasDueRows,
  setDeliveryAside,
  slotKeys,
} from '../../core/delivery/outbox.ts'
import { hasDueSuspect, noteDueSuspect } from '../../core/delivery/suspect-deliveries.ts'
import { type Suspect, suspects } from '../../core/processes/suspects.ts'
import type { Log } from '../../lib/log/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import { callVerb } from '../../registry/call.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'
import { StoreWatcher } from '../process/store-watcher.ts'
import { INTERNAL_ERROR, type SuspectHandling } from '../process/suspect-handling.ts'

/** Messages that are sent to one platform at a time. */
const PLATFORM_CONCURRENCY = 16
/** How long running deliveries may take when the daemon stops. */
const STOP_MS = 5000

export interface OutboxWorkerOptions {
  readonly host: InstanceHost
  readonly log: Pick<Log, 'warn'>
  readonly suspects?: Pick<SuspectHandling, 'process' | 'isOver'> | undefined
}

export class OutboxWorker {
  readonly #options: OutboxWorkerOptions
  readonly #sending = new Set<Promise<void>>()
  /** By slot key. */
  readonly #counts = new Map<string, number>()
  readonly #watcher: StoreWatcher
  /** This process, while it may claim a suspect: it sends one at a time. */
  #suspectsFor: string | undefined

  constructor(options: OutboxWorkerOptions) {
    this.#options = options
    this.#watcher = new StoreWatcher({ host: options.host, work: 'outbox', check: () => this.#claim() })
    options.suspects?.isOver.then((isOver) => this.#allowSuspect(isOver)).catch(options.host.faults.handler('job'))
  }

  /** Claims nothing more; the next process takes over deliveries that do not finish in time. */
  async close(): Promise<void> {
    await this.#watcher.close()
    await Promise.race([Promise.all(this.#sending), pause(STOP_MS, undefined, { ref: false })])
  }

  #allowSuspect(isAllowed: boolean): void {
    this.#suspectsFor = isAllowed ? this.#options.suspects?.process : undefined
    this.#watcher.checkSoon()
  }

  async #claim(): Promise<void> {
    const { engine, clock } = this.#options.host
    const claim = { now: clock.now(), forMs: DELIVERY_LEASE_MS, limit: PLATFORM_CONCURRENCY, sending: this.#counts }
    await this.#claimSuspect(claim)
    if (!(await engine.read((tx) => hasDueRows(tx, claim.now, busyKeys(claim))))) return
    const claimed = await engine.transaction((tx) => claimOutbox(tx, claim))
    for (const row of claimed) this.#deliver(row)
    if (claimed.length > 0) this.#watcher.checkSoon()
  }

  /** Claims one suspect, which is noted first. */
  async #claimSuspect(claim: { readonly now: number; readonly forMs: number }): Promise<void> {
    const { engine } = this.#options.host
    const process = this.#suspectsFor
    if (process === undefined || !(await engine.read((tx) => hasDueSuspect(tx, claim.now)))) return
    const suspect = await engine.transaction((tx) => noteDueSuspect(tx, claim.now, process))
    if (!suspect) return
    const row = await engine.transaction((tx) => claimSuspect(tx, claim, suspect.id))
    if (row) this.#deliver(row, suspect)
    else await engine.transaction((tx) => suspects.remove(tx, { work: 'delivery', id: suspect.id }))
  }

  #deliver(row: ClaimedOutboxRow, suspect?: Suspect): void {
    const { host } = this.#options
    if (suspect) this.#suspectsFor = undefined
    this.#count(row, 1)
    const sending = this.#attempt(row, suspect)
      .catch((error) => {
        // The row can be claimed again when its lease expires.
        if (!(error instanceof Refusal)) host.faults.report('delivery', error)
      })
      .finally(() => {
        this.#sending.delete(sending)
        this.#count(row, -1)
        if (suspect) this.#allowSuspect(true)
        this.#watcher.checkSoon()
      })
    this.#sending.add(sending)
  }

  #count({ jid }: ClaimedOutboxRow, change: number): void {
    for (const key of slotKeys(jid)) {
      const count = (this.#counts.get(key) ?? 0) + change
      if (count > 0) this.#counts.set(key, count)
      else this.#counts.delete(key)
    }
  }

  async #attempt(row: ClaimedOutboxRow, suspect: Suspect | undefined): Promise<void> {
    const { host, log } = this.#options
    const { id, jid } = row
    try {
      const { state, error } = (await this.#setAsideAnswer(row)) ?? (await deliver(host, row))
      if (state === 'failed' || state === 'unknown')
        log.warn({ message: id, chat: jid, state, error }, 'message was not delivered')
    } catch (error) {
      if (error instanceof Refusal) throw error
      host.faults.report('delivery', error)
      await host.engine.transaction((tx) => setDeliveryAside(tx, host, id, INTERNAL_ERROR))
    }
    if (suspect) await host.engine.transaction((tx) => suspects.remove(tx, { work: 'delivery', id }))
  }

  /** The answer of a webhook is sent to a chat only while its folder may send there. */
  async #setAsideAnswer({
    id,
    jid: to,
    payload,
  }: ClaimedOutboxRow): Promise<{ state: 'failed'; error: string } | undefined> {
    const { host } = this.#options
    const jid = answeredLink({ payload })
    if (jid === undefined) return undefined
    const request = { host, caller: { kind: 'host', sub: 'routd' }, face: 'cli' } as const
    const { fault: error } = await callVerb(request, routeTokensResource.verbs.check_answer, { jid, to })
    if (error === undefined) return undefined
    await host.engine.transaction((tx) => setDeliveryAside(tx, host, id, error))
    return { state: 'failed', error }
  }
}
