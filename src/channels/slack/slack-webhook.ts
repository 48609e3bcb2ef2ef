// Receives by the Events API: Slack sends events, presses and commands to one address, signed, and an event again at once, after one
// and after five minutes until it is answered with 2xx. What was lost meanwhile is read from the history at the next start or message.
import { createHmac } from 'node:crypto'
import { tryParseJson } from '../../lib/text/json.ts'
import { PlatformError, type WebhookRequest, type WebhookResponse } from '../process/port.ts'
import { isSameSecret } from '../process/webhook-requests.ts'
import { objectOf, textOf } from './slack-api.ts'
import { identifySlackBot, type SlackConnectionOptions, waitAfterFault } from './slack-connection.ts'
import { readEnvelope, type SlackBot, type SlackContext } from './slack-events.ts'

/** An older request may be one that somebody has recorded. */
const WINDOW_S = 300
const VALUES_MAX = 200_000
const RETRY_S = 5

export class SlackWebhook {
  readonly #options: SlackConnectionOptions
  #bot: SlackBot | undefined
  #restarted = Promise.withResolvers<void>()

  constructor(options: SlackConnectionOptions) {
    this.#options = options
  }

  get bot(): SlackBot | undefined {
    return this.#bot
  }

  /** After a token was refused: asks for the account again. */
  restart(): void {
    this.#restarted.resolve()
  }

  async run(): Promise<void> {
    const { context, call, gaps, intake } = this.#options
    const { signal } = context
    const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    let failures = 0
    while (!signal.aborted) {
      try {
        gaps.begin()
        const bot = await identifySlackBot(call)
        this.#bot = bot
        context.setHealth('ok')
        failures = 0
        const reading = intake.readGaps(this.#slack(bot))
        reading.catch(
          context.guard((error: unknown) => {
            if (!signal.aborted) throw error
          }),
        )
        await Promise.race([stopped, this.#restarted.promise])
        this.#restarted = Promise.withResolvers()
      } catch (error) {
        if (signal.aborted) break
        if (!(error instanceof PlatformError)) throw error
        await waitAfterFault(context, error, failures++)
      }
    }
  }

  async receive(request: WebhookRequest): Promise<WebhookResponse> {
    const { log, secrets, now } = this.#options.context
    if (request.method !== 'POST') return { status: 405 }
    if (!isSigned(request, secrets.signing_secret ?? '', now())) return { status: 401 }
    const { type, payload } = readSlackRequest(request)
    const body = objectOf(payload)
    if (body.type === 'url_verification')
      return { status: 200, headers: { 'content-type': 'text/plain' }, body: textOf(body.challenge) ?? '' }
    if (body.type === 'app_rate_limited') log.warn('Slack holds back events of this workspace, as there are too many')
    const retry = request.headers['x-slack-retry-num']
    if (retry !== undefined)
      log.info({ retry, reason: request.headers['x-slack-retry-reason'] }, 'Slack delivers an event again')
    await this.#store(type, payload)
    return { status: 200 }
  }

  async #store(type: string, payload: unknown): Promise<void> {
    const bot = this.#bot
    if (!bot) throw new PlatformError('unavailable', 'the account is not known yet')
    const slack = this.#slack(bot)
    const stored = readEnvelope(slack, type, payload).map((event) => this.#options.intake.receive(slack, event))
    await Promise.all(stored)
    if (stored.includes(undefined))
      throw new PlatformError('unavailable', 'too many events wait for svc', { retryAfterS: RETRY_S })
  }

  #slack(bot: SlackBot): SlackContext {
    return { bot, areBotsHeard: this.#options.context.settings.bots === 'allow' }
  }
}

/** Over the bytes as they were sent, with their time: `v0=<HMAC>`. */
function isSigned({ headers, body }: WebhookRequest, secret: string, nowMs: number): boolean {
  const at = headers['x-slack-request-timestamp'] ?? ''
  if (secret === '' || !/^\d{1,12}$/.test(at)) return false
  const expected = `v0=${createHmac('sha256', secret).update(`v0:${at}:`).update(body).digest('hex')}`
  const isRight = isSameSecret(headers['x-slack-signature'] ?? '', expected)
  return isRight && Math.abs(Math.floor(nowMs / 1000) - Number(at)) < WINDOW_S
}

/** As the envelopes of Socket Mode have it: presses and commands are forms here. */
export function readSlackRequest({ headers, body }: Pick<WebhookRequest, 'headers' | 'body'>): {
  readonly type: string
  readonly payload: unknown
} {
  const text = Buffer.from(body).toString()
  if (!headers['content-type']?.startsWith('application/x-www-form-urlencoded'))
    return { type: 'events_api', payload: tryParseJson(text, VALUES_MAX) }
  const form = new URLSearchParams(text)
  const payload = form.get('payload')
  if (payload !== null) return { type: 'interactive', payload: tryParseJson(payload, VALUES_MAX) }
  return { type: 'slash_commands', payload: Object.fromEntries(form) }
}
