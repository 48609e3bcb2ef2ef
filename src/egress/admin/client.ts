// Client of a running proxy's admin listener. Ignores proxy variables of the environment: those may point to this very proxy.
import { Agent, type IncomingMessage, request } from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import type { z } from 'zod'
import { refuse } from '../../lib/refusal.ts'

const LIMIT_MS = 10_000
const BODY_MAX = 256 * 1_048_576

const CONNECTION_ERRORS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection is refused',
  ECONNRESET: 'the connection is reset',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the host cannot be looked up now',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
  ETIMEDOUT: 'the connection times out',
}

/** Accepts a URL, and `host:port` and `:port` as for a listener. */
export function readAdminUrl(text: string): URL | undefined {
  const typed = text.startsWith(':') ? `localhost${text}` : text
  const whole = typed.includes('://') ? typed : `http://${typed}`
  if (!URL.canParse(whole)) return undefined
  const url = new URL(whole)
  // Ensure a trailing slash, so that relative paths go below it.
  url.pathname = url.pathname.replace(/\/?$/, '/')
  return ['http:', 'https:'].includes(url.protocol) ? url : undefined
}

/** Fetches a path and validates the response. */
export async function fetchAdmin<S extends z.ZodType>(admin: URL, path: string, shape: S, limitMs = LIMIT_MS) {
  const signal = AbortSignal.timeout(limitMs)
  const shown = showUrl(admin)
  const { status, body } = await get(new URL(path, admin), signal).catch((error: unknown) => {
    if (signal.aborted) refuse('unavailable', `${shown} did not answer within ${limitMs / 1000} seconds`, HINT)
    refuse('unavailable', `nothing answers at ${shown}: ${reasonOf(error)}`, HINT)
  })
  if (status !== 200) refuse('unavailable', `${shown} answered ${status} to GET /${path}`, HINT)
  const result = shape.safeParse(jsonOf(body))
  if (!result.success) refuse('unavailable', `${shown} answered GET /${path} with an unexpected body`, HINT)
  return result.data
}

const HINT =
  'egress-proxy proxy serve starts the proxy; --admin, or EGRESS_ADMIN, sets the address of its admin listener'

async function get(url: URL, signal: AbortSignal): Promise<{ status: number | undefined; body: string }> {
  const isTls = url.protocol === 'https:'
  // The default agent may use a proxy (NODE_USE_ENV_PROXY).
  const agent = isTls ? new TlsAgent() : new Agent()
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const outgoing = (isTls ? tlsRequest : request)(url, { agent, signal }, resolve)
      outgoing.on('error', reject)
      outgoing.end()
    })
    return { status: answer.statusCode, body: await read(answer) }
  } finally {
    agent.destroy()
  }
}

async function read(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of answer) {
    chunks.push(chunk)
    length += chunk.length
    if (length > BODY_MAX) throw new Error('the response is too large')
  }
  return Buffer.concat(chunks).toString()
}

function reasonOf(error: unknown): string {
  // With several addresses, each has its own error.
  const one: unknown = error instanceof AggregateError ? error.errors[0] : error
  if (!(one instanceof Error)) return String(one)
  const code = 'code' in one ? String(one.code) : ''
  return CONNECTION_ERRORS[code] ?? one.message
}

/** Without the password. */
function showUrl({ origin, pathname }: URL): string {
  return pathname === '/' ? origin : origin + pathname
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
