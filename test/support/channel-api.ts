// The channel protocol of a test host, without a port.
import type { TestContext } from 'node:test'
import { Hono } from 'hono'
import type { AdapterHealthChecks } from '../../src/daemons/routd/adapter-health.ts'
import { mountChannelRoutes } from '../../src/daemons/routd/channel-routes.ts'
import { createErrorHandler, createNotFoundHandler } from '../../src/lib/http/http.ts'
import { openLog } from '../../src/lib/log/log.ts'
import type { TestHost } from './host.ts'

export interface ChannelApi {
  readonly checks: AdapterHealthChecks
  /** `ask('POST /v1/messages', body, token)`, with the channel secret by default. */
  ask(request: string, body?: unknown, bearer?: string, headers?: Record<string, string>): Promise<ChannelApiAnswer>
  /** Returns its token. */
  register(over?: object): Promise<string>
}

export interface ChannelApiAnswer {
  readonly status: number
  readonly body: Record<string, unknown>
  /** The message of a refusal. */
  readonly detail: string
}

export const CHANNEL_SECRET = 'the channel secret'

/** Sends texts and streams as they are, and everything else as JSON. */
function bodyOf(body: unknown): string | ReadableStream {
  return typeof body === 'string' || body instanceof ReadableStream ? body : JSON.stringify(body)
}

export async function openChannelApi(
  t: TestContext,
  { host }: TestHost,
  settings: {
    isPublicAllowed?: boolean
    secret?: string | undefined
    takeoverTimeoutMs?: number
    log?: (line: string) => void
  } = {},
): Promise<ChannelApi> {
  const app = new Hono()
  app.onError(
    createErrorHandler((_, error) => {
      // Tests do not read this log.
      console.error(error)
    }),
  )
  app.notFound(createNotFoundHandler(app))
  const log = await openLog({ to: { write: (line) => settings.log?.(line) } })
  const secret = 'secret' in settings ? settings.secret : CHANNEL_SECRET
  const checks = mountChannelRoutes(
    { host, app, log, defer: (close) => t.after(close) },
    { CHANNEL_SECRET: secret, CHANNEL_REGISTER_ALLOW_PUBLIC: settings.isPublicAllowed ?? false },
    { takeoverTimeoutMs: settings.takeoverTimeoutMs },
  )
  const ask: ChannelApi['ask'] = async (request, body, bearer = CHANNEL_SECRET, headers = {}) => {
    const [method = '', path = ''] = request.split(' ')
    const answer = await app.request(path, {
      method,
      headers: {
        ...(bearer === '' ? {} : { Authorization: `Bearer ${bearer}` }),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: bodyOf(body), duplex: 'half' as const }),
    })
    const read = JSON.parse(await answer.text())
    return { status: answer.status, body: read, detail: String(read.detail ?? '') }
  }
  return {
    checks,
    ask,
    register: async (over = {}) => {
      const { status, body, detail } = await ask('POST /v1/channels/register', {
        name: 'teled',
        url: 'http://127.0.0.1:9/',
        jid_prefixes: ['telegram:'],
        capabilities: { send_text: true },
        ...over,
      })
      if (status !== 200) throw new Error(detail)
      return String(body.token)
    },
  }
}
