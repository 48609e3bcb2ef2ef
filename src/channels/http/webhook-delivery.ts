// Passes a request of a chat platform to the adapter of its account. The adapter's answer is foreign text on the origin of svc, so
// only its status, a few headers and types that browsers do not run are passed back.
import { z } from 'zod'
import { ChannelError } from '../../core/delivery/channel.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import { sendAdapterRequest } from '../adapter-request.ts'
import type { Adapter } from '../registered-adapter.ts'

export type WebhookAdapter = Pick<Adapter, 'url' | 'token' | 'addresses' | 'timeoutMs'>

export interface WebhookEnvelope {
  readonly method: string
  /** After the account, as it was sent. */
  readonly path: string
  /** Without the question mark. */
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  /** Base64. */
  readonly body: string
}

export interface WebhookAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Telegram waits for a minute, Slack for three seconds: both deliver again. */
const TIMEOUT_MS = 30_000
const ANSWER_MAX = 512 * 1024
const HEADERS_MAX = 20
const CONTENT_TYPE = /^(?:application\/(?:json|xml)|text\/(?:plain|xml))(?:; ?charset=utf-8)?$/i
const HEADER_VALUE = /^[\x20-\x7e]{0,1000}$/

const Answer = z.object({
  status: z.int().refine((status) => (status >= 200 && status < 300) || (status >= 400 && status < 600)),
  headers: z.record(z.string(), z.string()).default({}),
  body: z.string().default(''),
})

/** Undefined if the adapter is away or has failed: the platform should deliver again. */
export async function deliverPlatformWebhook(
  { url, token, addresses, timeoutMs = TIMEOUT_MS }: WebhookAdapter,
  envelope: WebhookEnvelope,
): Promise<WebhookAnswer | undefined> {
  const body = Buffer.from(JSON.stringify(envelope))
  const headers = {
    'Content-Type': 'application/json',
    'Content-Length': String(body.length),
    ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
  }
  try {
    const request = { method: 'POST', url: new URL(`${url}/webhook`), headers, body } as const
    const { status, text } = await sendAdapterRequest({ ...request, addresses, timeoutMs, bodyMaxBytes: ANSWER_MAX })
    return status === 200 ? parseWebhookAnswer(text) : undefined
  } catch (error) {
    if (error instanceof ChannelError) return undefined
    throw error
  }
}

export function parseWebhookAnswer(text: string): WebhookAnswer | undefined {
  const { data } = Answer.safeParse(tryParseJson(text))
  if (!data) return undefined
  const passed = Object.entries(data.headers)
    .map(([name, value]) => [name.toLowerCase(), value] as const)
    .filter(([name, value]) => isPassed(name, value))
  return { ...data, headers: Object.fromEntries(passed.slice(0, HEADERS_MAX)) }
}

function isPassed(name: string, value: string): boolean {
  if (name === 'content-type') return CONTENT_TYPE.test(value)
  if (name === 'retry-after') return /^\d{1,6}$/.test(value)
  return /^x-[a-z0-9-]{1,60}$/.test(name) && !OWN_HEADERS.test(name) && HEADER_VALUE.test(value)
}

/** Those that mean something to browsers and proxies. */
const OWN_HEADERS = /^x-(?:request-id$|content-type-options$|frame-options$|accel-|sendfile|forwarded-)/
