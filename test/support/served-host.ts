// A served instance for one test, and a raw HTTP client.
import { once } from 'node:events'
import { connect } from 'node:net'
import type { TestContext } from 'node:test'
import { type BearerRequest, issueBearer } from '../../src/core/access/bearers.ts'
import { LiveSettings } from '../../src/daemons/process/live-settings.ts'
import { type ServeOptions, serve } from '../../src/daemons/serve.ts'
import type { DaemonName } from '../../src/daemons/settings.ts'
import { openLog } from '../../src/lib/log/log.ts'
import { sourceOf } from '../../src/lib/settings.ts'
import { type TestHost, testHost } from './host.ts'

export interface ServedHostOptions {
  readonly on?: TestHost
  readonly daemons?: readonly string[]
  readonly settings?: Record<string, string>
  readonly limits?: ServeOptions['limits']
  /** Whether it follows settings of the store, which reads them every second. */
  readonly isLive?: boolean
}

export interface ServedHost extends TestHost {
  url(daemon?: DaemonName): string
  readonly printed: readonly string[]
  /** The log so far, as objects. */
  logged(): Record<string, unknown>[]
  bearer(request: BearerRequest): Promise<string>
  /** A request with a bearer. */
  ask(path: string, bearer: string, init?: RequestInit): Promise<Response>
  close(): Promise<void>
}

export async function serveHost(t: TestContext, options: ServedHostOptions = {}): Promise<ServedHost> {
  const { on = await testHost(t), daemons, settings, limits, isLive = false } = options
  const [printed, lines]: [string[], string[]] = [[], []]
  const files = [sourceOf('the test', new Map(Object.entries({ WEB_LISTEN: '127.0.0.1:0', ...settings })))]
  const log = await openLog({ to: { write: (line) => lines.push(line) } })
  const live = isLive ? await LiveSettings.open({ host: on.host, log, files: async () => files }) : undefined
  const served = await serve({
    host: on.host,
    sources: (await live?.sources()) ?? files,
    live,
    print: (line) => printed.push(line),
    log,
    ...(daemons ? { daemons } : {}),
    ...(limits ? { limits } : {}),
  })
  t.after(() => served.close())
  const url = (daemon: DaemonName = 'proxyd'): string => served.urls[daemon] ?? `no ${daemon} here`
  return {
    ...on,
    url,
    printed,
    // Several log lines may arrive in one write.
    logged: () =>
      lines.flatMap((text) =>
        text
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line)),
      ),
    bearer: (request) => issueBearer(on.host, request),
    ask: (path, bearer, init = {}) =>
      fetch(url() + path, { ...init, headers: { Authorization: `Bearer ${bearer}`, ...init.headers } }),
    close: () => served.close(),
  }
}

/** Sends these bytes on a new connection and returns everything that the server sends. */
export async function sendRaw(url: string, ...parts: (string | Uint8Array)[]): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk
  })
  // The server may close the connection during the write.
  socket.on('error', () => {})
  for (const part of parts) socket.write(part)
  await once(socket, 'close')
  return answer
}

/** The status of the first response. */
export function statusOf(answer: string): number {
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1] ?? 0)
}
