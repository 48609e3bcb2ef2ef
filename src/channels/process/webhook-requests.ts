// Requests of the platform that svc passes on, as an envelope of JSON. See docs/channels.md#receive-requests-of-the-platform.
import { createHash, timingSafeEqual } from 'node:crypto'
import { isObject } from '../../lib/text/json.ts'
import { StoppedError } from './host-client.ts'
import { type Connector, PlatformError, type WebhookRequest, type WebhookResponse } from './port.ts'

/** svc stops to wait before the connector does, and the platform delivers again. */
const RUNNING_MAX = 64
const RETRY_S = 2

export class WebhookReceiver {
  readonly #connector: Connector
  #running = 0

  constructor(connector: Connector) {
    this.#connector = connector
  }

  async receive(members: Readonly<Record<string, unknown>>): Promise<WebhookResponse> {
    const connector = this.#connector
    if (!connector.webhook) throw new PlatformError('unsupported', 'the account takes no webhooks')
    if (this.#running >= RUNNING_MAX)
      throw new PlatformError('unavailable', 'too many requests wait for svc', { retryAfterS: RETRY_S })
    this.#running++
    try {
      const { status, headers = {}, body = '' } = await connector.webhook(readWebhookRequest(members))
      return { status, headers, body }
    } catch (error) {
      throw error instanceof StoppedError ? new PlatformError('unavailable', 'the adapter stops') : error
    } finally {
      this.#running--
    }
  }
}

function readWebhookRequest({ method, path, query, headers, body }: Readonly<Record<string, unknown>>): WebhookRequest {
  const given = isObject(headers) ? Object.entries(headers) : []
  return {
    method: textOr(method, ''),
    path: textOr(path, '/'),
    query: textOr(query, ''),
    headers: Object.fromEntries(given.filter((each): each is [string, string] => typeof each[1] === 'string')),
    body: Buffer.from(textOr(body, ''), 'base64'),
  }
}

function textOr(value: unknown, absent: string): string {
  return typeof value === 'string' ? value : absent
}

/** In constant time; hashing hides the lengths. */
export function isSameSecret(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}
