// Polls the health of registered adapters and removes those that stop responding. Processes share the work by claims.
import type { AddressPolicy } from '../../channels/address-policy.ts'
import { checkHealth } from '../../channels/index.ts'
import {
  CHANNELS_CHANGED,
  type ChannelRegistration,
  channelRegistrations,
  channelToken,
  claimHealthChecks,
  HEALTH_CHECK_EVERY_MS,
  HEALTH_FAILS_MAX,
  type HealthCheck,
  isElsewhere,
  recordHealth,
} from '../../core/delivery/channel-registrations.ts'
import { describeConnection, NEEDS_PERSON } from '../../core/delivery/health-reports.ts'
import type { Log } from '../../lib/log/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'

const TICK_MS = 5000
/** How long a registration from another address waits for the answer of the old one. */
const TAKEOVER_TIMEOUT_MS = 2000

export interface HealthCheckOptions {
  readonly addresses: AddressPolicy
  readonly takeoverTimeoutMs?: number | undefined
}

export class AdapterHealthChecks {
  readonly #host: InstanceHost
  readonly #log: Log
  readonly #addresses: AddressPolicy
  readonly #takeoverTimeoutMs: number
  readonly #stop = new AbortController()
  readonly #timer: NodeJS.Timeout
  #checking: Promise<void> | undefined

  constructor(host: InstanceHost, log: Log, { addresses, takeoverTimeoutMs }: HealthCheckOptions) {
    this.#host = host
    this.#log = log
    this.#addresses = addresses
    this.#takeoverTimeoutMs = takeoverTimeoutMs ?? TAKEOVER_TIMEOUT_MS
    this.#timer = setInterval(
      host.faults.guard('job', () => this.check()),
      TICK_MS,
    ).unref()
  }

  /** Checks the adapters that are due. */
  check(): Promise<void> {
    this.#checking ??= this.#checkDue()
      .catch((error) => {
        if (!(error instanceof Refusal)) this.#host.faults.report('job', error)
      })
      .finally(() => {
        this.#checking = undefined
      })
    return this.#checking
  }

  /** The registration of this name and secret at another address, if that address does not answer now. */
  async findSilent({
    name,
    url,
    secret_name,
  }: Pick<ChannelRegistration, 'name' | 'url' | 'secret_name'>): Promise<ChannelRegistration | undefined> {
    const row = await this.#host.engine.read((tx) => channelRegistrations.find(tx, { name }))
    if (!row || row.secret_name !== secret_name || !isElsewhere(row, url)) return undefined
    const [addresses, stop, timeoutMs] = [this.#addresses, this.#stop.signal, this.#takeoverTimeoutMs]
    // Without the token: another program may have the old address by now.
    const { isAlive } = await checkHealth({ url: row.url, addresses, stop, timeoutMs })
    return isAlive || stop.aborted ? undefined : row
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#stop.abort()
    await this.#checking
  }

  async #checkDue(): Promise<void> {
    const { engine, clock } = this.#host
    const due = { now: clock.now(), everyMs: HEALTH_CHECK_EVERY_MS }
    const claimed = await engine.transaction((tx) => claimHealthChecks(tx, due))
    await Promise.all(claimed.map((registration) => this.#checkAdapter(registration)))
  }

  async #checkAdapter(registration: ChannelRegistration): Promise<void> {
    const { engine, signals, keyring } = this.#host
    const token = channelToken(keyring, registration)
    const [addresses, stop] = [this.#addresses, this.#stop.signal]
    const check = await checkHealth({ url: registration.url, addresses, stop, token })
    if (this.#stop.signal.aborted) return
    const isRemoved = await engine.transaction((tx) => recordHealth(tx, this.#host, registration, check))
    if (!isRemoved) return this.#logChange(registration, check)
    this.#log.warn({ adapter: registration.name }, `adapter removed: ${HEALTH_FAILS_MAX} health checks failed`)
    signals.emit([CHANNELS_CHANGED])
  }

  /** Without the QR code, which is a secret. */
  #logChange({ name, state }: ChannelRegistration, { report }: HealthCheck): void {
    if (!report || report.state === (state ?? 'ok')) return
    const text = `adapter ${describeConnection(report)}`
    if (NEEDS_PERSON.includes(report.state)) this.#log.warn({ adapter: name }, text)
    else this.#log.info({ adapter: name }, text)
  }
}
