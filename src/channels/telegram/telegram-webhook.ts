// Receives by webhook: Telegram sends each update in a request of its own, and again until it is answered with 2xx. The parts of an
// album are separate updates here, and each is stored as it arrives: Telegram sends the next of a chat only after the answer.
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Api, GrammyError } from 'grammy'
import type { Update } from 'grammy/types'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import { type ConnectorContext, PlatformError, type WebhookRequest, type WebhookResponse } from '../process/port.ts'
import { isSameSecret } from '../process/webhook-requests.ts'
import { callApi } from './telegram-api.ts'
import { ALLOWED_UPDATES, type Bot } from './telegram-events.ts'

const SECRET = 'webhook secret'
const SECRET_HEADER = 'x-telegram-bot-api-secret-token'
/** Requests at once: svc takes 32 of a network. */
const CONNECTIONS_MAX = 16
const CHECK_MS = 60_000
/** A failed delivery counts as long. */
const RECENT_S = 120
const ERROR_MAX = 200
const VALUES_MAX = 200_000

/** What it has in common with polling. */
export interface TelegramReceiver {
  identify(): Promise<Bot>
  store(bot: Bot, updates: readonly Update[]): Promise<void>
  /** Waits before another attempt, and reports why; throws what is no fault of the platform. */
  waitAfter(error: unknown, failures: number): Promise<void>
}

export class TelegramWebhook {
  readonly #context: ConnectorContext
  readonly #api: Api
  readonly #receiver: TelegramReceiver
  readonly #secret: string
  /** Updates on their way to svc: a repeat joins the first delivery. */
  readonly #running = new Map<number, Promise<void>>()
  #bot: Bot | undefined

  constructor(context: ConnectorContext, api: Api, receiver: TelegramReceiver) {
    this.#context = context
    this.#api = api
    this.#receiver = receiver
    this.#secret = context.state.cursor(SECRET) ?? randomBytes(32).toString('base64url')
    context.state.setCursor(SECRET, this.#secret)
  }

  /** Keeps the webhook set, and reports what Telegram says of it. */
  async run(): Promise<void> {
    const { signal } = this.#context
    let [failures, isSet] = [0, false]
    while (!signal.aborted) {
      try {
        this.#bot ??= await this.#receiver.identify()
        await this.#keepSet(isSet)
        failures = 0
        isSet = true
        await pause(CHECK_MS, undefined, { signal }).catch(() => undefined)
      } catch (error) {
        if (signal.aborted) return
        isSet = false
        await this.#receiver.waitAfter(error, failures++)
      }
    }
  }

  async receive({ method, headers, body }: WebhookRequest): Promise<WebhookResponse> {
    if (method !== 'POST') return { status: 405 }
    if (!isSameSecret(headers[SECRET_HEADER] ?? '', this.#secret)) return { status: 401 }
    const bot = this.#bot
    if (!bot) throw new PlatformError('unavailable', 'the account is not known yet')
    const update = tryParseJson(Buffer.from(body).toString(), VALUES_MAX)
    if (isUpdate(update)) await callApi(this.#store(bot, update))
    // It would come again for ever.
    else this.#context.log.warn('an update of Telegram cannot be read')
    return { status: 200 }
  }

  #store(bot: Bot, update: Update): Promise<void> {
    const { update_id: id } = update
    const running = this.#running.get(id)
    if (running) return running
    const stored = this.#receiver.store(bot, [update])
    this.#running.set(id, stored)
    const end = (): void => void this.#running.delete(id)
    stored.then(end, end)
    return stored
  }

  async #keepSet(isSet: boolean): Promise<void> {
    const { setHealth, log, webhookUrl = '' } = this.#context
    const info = await this.#api.getWebhookInfo(this.#signal())
    if (isSet && info.url !== webhookUrl) log.warn('another program has changed the webhook of this bot')
    if (!isSet || info.url !== webhookUrl) await this.#set(webhookUrl)
    const failedAt = info.url === webhookUrl ? Number(info.last_error_date) || 0 : 0
    const isFailing = info.pending_update_count > 0 && this.#context.now() / 1000 - failedAt < RECENT_S
    if (isFailing) setHealth('stale', `Telegram cannot deliver: ${String(info.last_error_message).slice(0, ERROR_MAX)}`)
    else setHealth('ok')
  }

  async #set(url: string): Promise<void> {
    const options = {
      ...{ secret_token: this.#secret, allowed_updates: ALLOWED_UPDATES },
      ...{ max_connections: CONNECTIONS_MAX, drop_pending_updates: false },
    }
    await this.#api.setWebhook(url, options, this.#signal()).catch((error) => {
      if (!(error instanceof GrammyError) || error.error_code !== 400) throw error
      throw new PlatformError('refused', `Telegram does not take the address ${url}: ${error.description}`)
    })
  }

  #signal() {
    // The package declares the signal of another library.
    return this.#context.signal as Parameters<Api['getMe']>[0]
  }
}

function isUpdate(value: unknown): value is Update {
  return isObject(value) && Number.isSafeInteger(value.update_id)
}
