// A real adapter process, and a server in place of svc that it registers with.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { AccountConfig } from '../../src/channels/process/account-config.ts'
import type { InboundEvent } from '../../src/channels/process/port.ts'
import type { CleanupScope } from './temp.ts'
import { until } from './until.ts'

const ENTRY = fileURLToPath(new URL('../../src/channels/process/main.ts', import.meta.url))
const TOKEN = 'ab'.repeat(24)

/** An event as svc got it, with attachments in base64. */
export type WireEvent = Omit<InboundEvent, 'attachments'> & {
  readonly attachments?: readonly { mime?: string; filename?: string; url?: string; data?: string }[]
}

/** How the server treats the next events: stores them, refuses them, or breaks the connection before or after storing. */
export type HostBehaviour = 'ok' | 'drop before' | 'drop after' | number

export interface FakeHost {
  readonly url: string
  readonly secret: string
  /** All events, as they were sent, also repeats. */
  readonly received: readonly WireEvent[]
  /** Of which those that svc would store: the first with each id in its chat. */
  readonly stored: readonly WireEvent[]
  readonly capabilities: Readonly<Record<string, boolean>>
  /** The address that is registered. */
  readonly adapterUrl: string | undefined
  behave(how: HostBehaviour): void
  /** Forgets all events. */
  clear(): void
  /** Sends a request as svc does. */
  post(path: string, members: Readonly<Record<string, unknown>> | FormData): Promise<AdapterAnswer>
  get(path: string): Promise<AdapterAnswer>
}

export interface AdapterAnswer {
  readonly status: number
  readonly retryAfter: string | null
  readonly body: Record<string, unknown>
}

export async function openFakeHost(t: CleanupScope): Promise<FakeHost> {
  const secret = 'secret-of-the-channel'
  const received: WireEvent[] = []
  const stored = new Map<string, WireEvent>()
  let how: HostBehaviour = 'ok'
  let registration: { url?: string; capabilities?: Record<string, boolean> } = {}
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const answer = (status: number, value: object): void => {
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value))
    }
    if (request.url?.startsWith('/channels/')) {
      const passed = await passOn(registration.url, request, Buffer.concat(chunks))
      return answer(passed, {})
    }
    const body = JSON.parse(Buffer.concat(chunks).toString())
    const bearer = request.headers.authorization
    if (request.url === '/v1/channels/register') {
      if (bearer !== `Bearer ${secret}`) return answer(401, { detail: 'the bearer is missing or not valid' })
      registration = body
      return answer(200, { ok: true, token: TOKEN })
    }
    if (bearer !== `Bearer ${TOKEN}`) return answer(401, { detail: 'the bearer is missing or not valid' })
    received.push(body)
    if (how === 'drop before') return void request.socket.destroy()
    if (typeof how === 'number') return answer(how, { detail: 'as it was told' })
    const key = `${body.chat_jid} ${body.id ?? JSON.stringify(body)}`
    const isKnown = stored.has(key)
    if (!isKnown) stored.set(key, body)
    if (how === 'drop after') return void request.socket.destroy()
    answer(200, { ok: true, ...(isKnown ? { duplicate: true } : {}) })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  const call = async (path: string, init: RequestInit): Promise<AdapterAnswer> => {
    const response = await fetch(registration.url + path, {
      ...init,
      headers: { ...init.headers, Authorization: `Bearer ${TOKEN}` },
    })
    return {
      status: response.status,
      retryAfter: response.headers.get('retry-after'),
      body: JSON.parse(await response.text()),
    }
  }
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    secret,
    received,
    get stored() {
      return [...stored.values()]
    },
    get capabilities() {
      return registration.capabilities ?? {}
    },
    get adapterUrl() {
      return registration.url
    },
    behave: (next) => {
      how = next
    },
    clear: () => {
      received.length = 0
      stored.clear()
    },
    post: (path, members) =>
      members instanceof FormData
        ? call(path, { method: 'POST', body: members })
        : call(path, {
            method: 'POST',
            headers: { 'Content-Type': 'application/json' },
            body: JSON.stringify(members),
          }),
    get: (path) => call(path, {}),
  }
}

/** Passes a request of the platform to the adapter, as routd does. Resolves to the status for the platform. */
async function passOn(adapterUrl: string | undefined, request: IncomingMessage, body: Buffer): Promise<number> {
  const [path = '', query = ''] = (request.url ?? '').split('?', 2)
  const envelope = {
    ...{ method: request.method, path: path.replace(/^\/channels\/[^/]+/, ''), query, headers: request.headers },
    body: body.toString('base64'),
  }
  const response = await fetch(`${adapterUrl}/webhook`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(envelope),
  }).catch(() => undefined)
  if (response?.status !== 200) return 503
  return JSON.parse(await response.text()).status
}

export interface AdapterProcess {
  readonly child: ChildProcess
  /** Lines of its log. */
  readonly log: () => string
  /** Like a crash. */
  kill(): Promise<void>
  /** As svc stops it; resolves to its exit code. */
  stop(): Promise<number | null>
}

/** Starts an adapter and waits until it is registered. */
export async function startAdapter(
  t: CleanupScope,
  host: FakeHost,
  config: Omit<AccountConfig, 'hostUrl' | 'secret'>,
): Promise<AdapterProcess> {
  const before = host.adapterUrl
  const child = spawn(process.execPath, [ENTRY], { stdio: ['pipe', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log += text
  })
  const ended = once(child, 'exit')
  child.stdin.on('error', () => undefined)
  child.stdin.write(`${JSON.stringify({ ...config, hostUrl: host.url, secret: host.secret })}\n`)
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await ended
  }
  t.after(() => void kill())
  await until(() => {
    if (child.exitCode !== null) throw new Error(`the adapter ended with ${child.exitCode}: ${log}`)
    return host.adapterUrl !== before
  })
  return {
    child,
    log: () => log,
    kill,
    stop: async () => {
      child.stdin.end()
      const [code] = await ended
      return code
    },
  }
}

/** What all tests of a suite share; call it in the body of the suite. */
export function shareInSuite<T>(open: (t: CleanupScope) => Promise<T>): () => Promise<T> {
  let shared: Promise<T> | undefined
  const cleanups: (() => void)[] = []
  // Within a test, `after` would belong to that test.
  after(() => {
    for (const cleanup of cleanups.reverse()) cleanup()
  })
  return () => {
    shared ??= open({ after: (cleanup) => void cleanups.push(cleanup) })
    return shared
  }
}
