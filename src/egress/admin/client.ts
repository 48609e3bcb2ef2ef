// Asks a running proxy's admin listener. Never by way of a proxy that the environment names: that may be this very one.
import { Agent, type IncomingMessage, request } from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import type { z } from 'zod'
import { refuse } from '../../lib/refusal.ts'

const LIMIT_MS = 10_000
const BODY_MAX = 256 * 1_048_576

const SAID: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection is refused',
  ECONNRESET: 'the connection is reset',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the host cannot be looked up now',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
  ETIMEDOUT: 'the connection times out',
}

/** A URL as it is typed; `host:port` and `:port`, as a listener is written, are taken too. */
export function readAdminUrl(text: string): URL | undefined {
  const typed = text.startsWith(':') ? `localhost${text}` : text
  const whole = typed.includes('://') ? typed : `http://${typed}`
  if (!URL.canParse(whole)) return undefined
  const url = new URL(whole)
  // Relative paths are put below it, whether or not it ends in a slash.
  url.pathname = url.pathname.replace(/\/?$/, '/')
  return ['http:', 'https:'].includes(url.protocol) ? url : undefined
}

/** What stands at a path, in the shape that it must have. */
export async function askAdmin<S extends z.ZodType>(admin: URL, path: string, shape: S, limitMs = LIMIT_MS) {
  const signal = AbortSignal.timeout(limitMs)
  const shown = showUrl(admin)
  const { status, body } = await get(new URL(path, admin), signal).catch((error: unknown) => {
    if (signal.aborted) refuse('unavailable', `${shown} did not answer within ${limitMs / 1000} seconds`, HINT)
    refuse('unavailable', `nothing answers at ${shown}: ${reasonOf(error)}`, HINT)
  })
  if (status !== 200) refuse('unavailable', `${shown} answered ${status} to GET /${path}`, HINT)
  const result = shape.safeParse(jsonOf(body))
  if (!result.success) refuse('unavailable', `${shown} answered GET /${path} with something else`, HINT)
  return result.data
}

const HINT = 'egress-proxy proxy serve starts the proxy; --admin, or EGRESS_ADMIN, says where its admin listener is'

async function get(url: URL, signal: AbortSignal): Promise<{ status: number | undefined; body: string }> {
  const isTls = url.protocol === 'https:'
  // The default agent may go by way of a proxy (NODE_USE_ENV_PROXY).
  const agent = isTls ? new TlsAgent() : new Agent()
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const asked = (isTls ? tlsRequest : request)(url, { agent, signal }, resolve)
      asked.on('error', reject)
      asked.end()
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
    if (length > BODY_MAX) throw new Error('the answer does not end')
  }
  return Buffer.concat(chunks).toString()
}

function reasonOf(error: unknown): string {
  // Where a host has several addresses, each has its own error.
  const one: unknown = error instanceof AggregateError ? error.errors[0] : error
  if (!(one instanceof Error)) return String(one)
  const code = 'code' in one ? String(one.code) : ''
  return SAID[code] ?? one.message
}

/** Without a password. */
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
