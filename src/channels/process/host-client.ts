// The adapter's requests to svc: registration, and events, each sent until svc has stored it or refuses it.
import { setTimeout as pause } from 'node:timers/promises'
import type { Log } from '../../lib/log/log.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import type { EventReceipt, InboundEvent } from './port.ts'

/** svc removes adapters that do not answer, and a new version may forget them. */
const REGISTER_EVERY_MS = 60_000
const PAUSE_MS = 250
const PAUSE_MAX_MS = 10_000
const TIMEOUT_MS = 30_000

export interface Registration {
  readonly name: string
  readonly url: string
  readonly jid_prefixes: readonly string[]
  readonly capabilities: Readonly<Record<string, boolean>>
}

export interface HostClientOptions {
  readonly hostUrl: string
  readonly secret: string
  readonly registration: Registration
  readonly log: Log
  readonly signal: AbortSignal
}

/** The process stops: the event stays at the platform. */
export class StoppedError extends Error {}

interface HostResponse {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly retryAfterMs: number | undefined
}

export class HostClient {
  readonly #options: HostClientOptions
  #token: string | undefined
  #registering: Promise<void> | undefined

  constructor(options: HostClientOptions) {
    this.#options = options
  }

  /** With which svc authenticates itself; undefined until svc has answered. */
  get token(): string | undefined {
    return this.#token
  }

  /** Registers, and then again now and then. Resolves when the process stops. */
  async keepRegistered(): Promise<void> {
    const { signal } = this.#options
    while (!signal.aborted) {
      await this.#register().catch(() => undefined)
      await pause(REGISTER_EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined)
    }
  }

  async receive(event: InboundEvent): Promise<EventReceipt> {
    const { log } = this.#options
    const body = JSON.stringify(toWire(event))
    for (let attempt = 0; ; attempt++) {
      const response = await this.#post('/v1/messages', body, this.#token).catch(() => undefined)
      if (response?.status === 200) {
        if (response.body.duplicate === true) return 'duplicate'
        return response.body.ignored === undefined ? 'stored' : 'ignored'
      }
      if (response?.status === 401) await this.#register().catch(() => undefined)
      else if (response && isFinal(response.status)) {
        log.warn(
          { status: response.status, chat: event.chat_jid, detail: response.body.detail },
          'svc refused an event',
        )
        return 'refused'
      }
      await this.#pause(attempt, response?.retryAfterMs)
    }
  }

  /** Until svc accepts it. */
  #register(): Promise<void> {
    this.#registering ??= this.#tryRegister().finally(() => {
      this.#registering = undefined
    })
    return this.#registering
  }

  async #tryRegister(): Promise<void> {
    const { registration, secret, log } = this.#options
    const body = JSON.stringify(registration)
    for (let attempt = 0; ; attempt++) {
      const response = await this.#post('/v1/channels/register', body, secret).catch(() => undefined)
      if (response?.status === 200 && typeof response.body.token === 'string') {
        this.#token = response.body.token
        return
      }
      if (response && attempt === 0)
        log.warn({ status: response.status, detail: response.body.detail }, 'svc did not accept the registration')
      await this.#pause(attempt, response?.retryAfterMs)
    }
  }

  async #post(path: string, body: string, bearer = ''): Promise<HostResponse> {
    const { hostUrl, signal } = this.#options
    if (signal.aborted) throw new StoppedError()
    const response = await fetch(hostUrl + path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${bearer}` },
      body,
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    })
    const parsed = tryParseJson(await response.text())
    const retryAfter = response.headers.get('retry-after') ?? ''
    return {
      status: response.status,
      body: typeof parsed === 'object' && parsed !== null ? { ...parsed } : {},
      retryAfterMs: /^\d{1,5}$/.test(retryAfter) ? Number(retryAfter) * 1000 : undefined,
    }
  }

  async #pause(attempt: number, retryAfterMs = 0): Promise<void> {
    const { signal } = this.#options
    const ms = Math.max(Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(attempt, 10)), retryAfterMs)
    await pause(ms, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) throw new StoppedError()
  }
}

/** Statuses that another attempt would get, too. */
function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && ![408, 425, 429].includes(status)
}

function toWire({ attachments, ...event }: InboundEvent): object {
  if (attachments === undefined || attachments.length === 0) return event
  return {
    ...event,
    attachments: attachments.map(({ data, ...rest }) => ({
      ...rest,
      ...(data === undefined ? {} : { data: Buffer.from(data).toString('base64') }),
    })),
  }
}
