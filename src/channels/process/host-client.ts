// The adapter's requests to svc: registration, and events, each sent until svc has stored it or refuses it.
import { Agent, type IncomingMessage, type RequestOptions, request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { Log } from '../../lib/log/log.ts'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import type { EventReceipt, InboundEvent } from './port.ts'

/** svc removes adapters that do not answer, and a new version may forget them. */
const REGISTER_EVERY_MS = 60_000
const PAUSE_MS = 250
const PAUSE_MAX_MS = 10_000
const TIMEOUT_MS = 30_000
/** A larger time would stop the account for as long. */
const RETRY_AFTER_MAX_MS = 60_000
/** svc refuses larger requests. */
const BODY_MAX = 32 * 1024 * 1024

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
  readonly #agent = new Agent({ keepAlive: true })
  #token: string | undefined
  #registering: Promise<void> | undefined
  /** The end of the last event of each chat that is being sent. */
  readonly #receiving = new Map<string, Promise<void>>()

  constructor(options: HostClientOptions) {
    this.#options = options
    options.signal.addEventListener('abort', () => this.#agent.destroy(), { once: true })
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

  /** Events of one chat are sent one after the other. */
  receive(event: InboundEvent): Promise<EventReceipt> {
    const { chat_jid: chat } = event
    const received = (this.#receiving.get(chat) ?? Promise.resolve()).then(() => this.#send(event))
    const ended = received.then(
      () => undefined,
      () => undefined,
    )
    this.#receiving.set(chat, ended)
    ended.then(() => {
      if (this.#receiving.get(chat) === ended) this.#receiving.delete(chat)
    })
    return received
  }

  async #send(event: InboundEvent): Promise<EventReceipt> {
    const { log } = this.#options
    let body = JSON.stringify(toWire(event))
    let isSmallest = !hasFiles(event)
    if (!isSmallest && Buffer.byteLength(body) > BODY_MAX)
      [body, isSmallest] = [JSON.stringify(withoutFiles(event)), true]
    for (let attempt = 0; ; attempt++) {
      if (this.#token === undefined) await this.#register()
      const token = this.#token
      const response = await this.#post('/v1/messages', body, token).catch(() => undefined)
      if (response?.status === 200) {
        if (response.body.duplicate === true) return 'duplicate'
        return response.body.ignored === undefined ? 'stored' : 'ignored'
      }
      // Other events may have registered since.
      if (response?.status === 401) {
        if (token === this.#token) await this.#register()
      } else if (response?.status === 413 && !isSmallest) {
        ;[body, isSmallest] = [JSON.stringify(withoutFiles(event)), true]
        continue
      } else if (response && isFinal(response.status)) {
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
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${bearer}` }
    const response = await this.#exchange(hostUrl + path, { method: 'POST', headers }, body)
    const parsed = tryParseJson(Buffer.concat(await response.toArray()).toString())
    return {
      status: response.statusCode ?? 0,
      body: isObject(parsed) ? parsed : {},
      retryAfterMs: readRetryAfter(response.headers['retry-after']),
    }
  }

  /** Not with fetch, which takes twice as long for small requests. */
  #exchange(url: string, options: RequestOptions, body: string): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const outgoing = request(url, { ...options, agent: this.#agent, timeout: TIMEOUT_MS }, resolve)
      outgoing.on('timeout', () => outgoing.destroy(new Error('svc does not answer')))
      outgoing.on('error', reject).end(body)
    })
  }

  async #pause(attempt: number, retryAfterMs = 0): Promise<void> {
    const { signal } = this.#options
    const ms = Math.max(Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(attempt, 10)), retryAfterMs)
    await pause(ms, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) throw new StoppedError()
  }
}

/** Milliseconds. A date is no number of seconds, and svc sends none. */
export function readRetryAfter(header: string | undefined): number | undefined {
  return /^\d+$/.test(header ?? '') ? Math.min(RETRY_AFTER_MAX_MS, Number(header) * 1000) : undefined
}

/** Statuses that say that the event is wrong, and not the request or the time. */
function isFinal(status: number): boolean {
  return [400, 403, 409, 410, 413, 415, 422].includes(status)
}

function hasFiles({ attachments }: InboundEvent): boolean {
  return attachments?.some(({ data }) => data !== undefined) ?? false
}

/** With a line for each file that svc does not take. */
function withoutFiles({ attachments = [], ...event }: InboundEvent): InboundEvent {
  const lines = attachments
    .filter(({ data }) => data !== undefined)
    .map(({ filename = 'without a name' }) => `[the file ${filename} is too large to receive]`)
  return {
    ...event,
    content: [event.content, ...lines].filter((line) => line !== undefined).join('\n'),
    attachments: attachments.filter(({ data }) => data === undefined),
  }
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
