// Asks the adapters for their health, and forgets those that do not answer. Of several processes one asks.
import type { AddressRule } from '../../channels/adapter-lookup.ts'
import { checkHealth } from '../../channels/index.ts'
import {
  CHANNELS_CHANGED,
  type ChannelRegistration,
  claimChecks,
  HEALTH_FAILS_MAX,
  noteHealth,
} from '../../core/channel-registrations.ts'
import type { Log } from '../../lib/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'

const EVERY_MS = 30_000
const LOOK_MS = 5000

export class HealthChecks {
  readonly #host: Host
  readonly #log: Log
  readonly #addresses: AddressRule
  readonly #stop = new AbortController()
  readonly #looking: NodeJS.Timeout
  #checking: Promise<void> | undefined

  constructor(host: Host, log: Log, addresses: AddressRule) {
    this.#host = host
    this.#log = log
    this.#addresses = addresses
    this.#looking = setInterval(() => void this.check(), LOOK_MS).unref()
  }

  /** Asks those whose time has come. */
  check(): Promise<void> {
    this.#checking ??= this.#check()
      .catch((error) => {
        if (!(error instanceof Refusal)) this.#host.onStray?.(error)
      })
      .finally(() => {
        this.#checking = undefined
      })
    return this.#checking
  }

  async close(): Promise<void> {
    clearInterval(this.#looking)
    this.#stop.abort()
    await this.#checking
  }

  async #check(): Promise<void> {
    const { engine, clock } = this.#host
    const due = { now: clock.now(), everyMs: EVERY_MS }
    const claimed = await engine.transaction((tx) => claimChecks(tx, due))
    await Promise.all(claimed.map((registration) => this.#ask(registration)))
  }

  async #ask(registration: ChannelRegistration): Promise<void> {
    const { engine, clock, signals } = this.#host
    const isHealthy = await checkHealth(registration.url, this.#addresses, this.#stop.signal)
    if (this.#stop.signal.aborted) return
    const isForgotten = await engine.transaction((tx) => noteHealth(tx, registration, isHealthy, clock.now()))
    if (!isForgotten) return
    this.#log.warn({ adapter: registration.name }, `forgotten: it did not answer ${HEALTH_FAILS_MAX} times`)
    signals.emit([CHANNELS_CHANGED])
  }
}
