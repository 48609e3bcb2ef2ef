// Plain HTTP through a proxy on loopback, of either make: every name leads to this machine. Starting a proxy takes longer than
// most of what is asked of it, so one serves a whole file; the tests do not meet, for each has a source address of its own.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, suite, type TestContext } from 'node:test'
import { Dialer } from '../../src/egress/connection/dialer.ts'
import type { EgressContext } from '../../src/egress/connection/egress-context.ts'
import { DEFAULT_PROXY_LIMITS, type ProxyLimits } from '../../src/egress/connection/limits.ts'
import { LingerLimit } from '../../src/egress/connection/linger-limit.ts'
import { type HttpRelayOptions, serveHttp } from '../../src/egress/http-relay/http-relay.ts'
import { compileSource } from '../../src/egress/policy/policy.ts'
import { type EgressProxy, startProxy } from '../../src/egress/proxy.ts'
import type { AccessRecord } from '../../src/egress/reporting/access-record.ts'
import { openNodeTransport } from '../../src/egress/transport/node-transport.ts'
import { IO_MODES, type IoMode, type LogLine } from '../egress/lab.ts'
import { needs } from './needs.ts'
import { answerEach, rawOrigin } from './raw-http.ts'
import { connectPeer, type Peer, type PeerServer } from './raw-socket.ts'
import { tempDir } from './temp.ts'
import { until } from './until.ts'

/** The same tests for each make, side by side unless told otherwise: most of them wait for a time to be over. */
export function suiteOnBoth(name: string, run: (io: IoMode) => void, concurrency: number = IO_MODES.length): void {
  suite(name, { concurrency }, () => {
    for (const io of IO_MODES) {
      const options = io === 'epoll' ? needs('kernel') : {}
      suite(`${name} on ${io}`, { ...options, concurrency: 1 }, () => run(io))
    }
  })
}

export interface HttpFixture {
  readonly proxy: EgressProxy
  readonly port: number
  /** Where its clients come from. */
  readonly source: string
  client(): Promise<Peer>
  /** Changes what its clients may reach. */
  allow(...names: readonly string[]): Promise<void>
  /** What the log says of its clients, once it says so much. */
  records(count?: number): Promise<readonly LogLine[]>
  /** Once nobody is connected to the proxy. */
  empty(): Promise<void>
}

export interface HttpFixtureOptions {
  /** With limits, the proxy is the test's own. */
  readonly limits?: Partial<ProxyLimits>
  readonly allowlist?: readonly string[]
}

interface Running {
  readonly proxy: EgressProxy
  readonly port: number
  readonly lines: LogLine[]
}

const hostsPath = join(tempDir({ after }), 'hosts')
writeFileSync(hostsPath, '127.0.0.1 allowed.test other.test denied.test\n')

const shared = new Map<IoMode, Promise<Running>>()
after(async () => {
  for (const running of shared.values()) await (await running).proxy.close()
})

let stages = 0

export async function openHttpFixture(
  t: TestContext,
  io: IoMode,
  options: HttpFixtureOptions = {},
): Promise<HttpFixture> {
  const { proxy, port, lines } = options.limits ? await runAlone(t, io, options.limits) : await runShared(io)
  const number = ++stages
  const source = `127.1.${number >> 8}.${number & 255}`
  const allow = async (...allowlist: readonly string[]): Promise<void> => {
    await proxy.sources.set({ ip: source, id: 'job-1', allowlist })
  }
  await allow(...(options.allowlist ?? ['allowed.test']))
  return {
    proxy,
    port,
    source,
    client: () => connectPeer(t, port, { from: source }),
    allow,
    records: async (count = 1) => {
      const find = (): readonly LogLine[] => lines.filter((line) => line.source === source)
      await until(() => find().length >= count)
      return find()
    },
    empty: () => until(async () => (await proxy.snapshot()).connections === 0),
  }
}

async function runAlone(t: TestContext, io: IoMode, limits: Partial<ProxyLimits>): Promise<Running> {
  const running = await start(io, limits)
  t.after(() => running.proxy.close())
  return running
}

async function runShared(io: IoMode): Promise<Running> {
  const running = shared.get(io) ?? start(io, {})
  shared.set(io, running)
  return running
}

async function start(io: IoMode, limits: Partial<ProxyLimits>): Promise<Running> {
  const lines: LogLine[] = []
  const proxy = await startProxy({
    io,
    listen: { host: '127.0.0.1', port: 0 },
    limits: { drainMs: 0, ...limits },
    dns: { hostsPath },
    log: (text) => {
      // Not caught by anybody: it fails the test at hand.
      if (text.includes('internal error on a connection')) throw new Error(text)
      for (const line of text.trimEnd().split('\n')) lines.push(JSON.parse(line))
    },
  })
  return { proxy, port: proxy.forward?.port ?? 0, lines }
}

export interface HttpParts {
  readonly records: AccessRecord[]
  client(): Promise<Peer>
  /** Every name that is being looked up leads here, and is forgotten at once. */
  resolve(): void
}

export interface PartsOptions {
  readonly responseMs?: number
  /** Names are looked up until `resolve` is called. */
  readonly asksLong?: boolean
}

/** Of plain HTTP, only the parts: with a options of one's own, in this thread. */
export async function openHttpParts(
  t: TestContext,
  options: HttpRelayOptions,
  { responseMs = DEFAULT_PROXY_LIMITS.responseMs, asksLong = false }: PartsOptions = {},
): Promise<HttpParts> {
  const transport = openNodeTransport()
  const limits: ProxyLimits = { ...DEFAULT_PROXY_LIMITS, responseMs }
  const asked = new Set<string>()
  const resolve = (): void => {
    for (const name of asked) dialer.completeLookup(name, { kind: 'addresses', addresses: ['127.0.0.1'], ttlMs: 0 })
    asked.clear()
  }
  const dialer = new Dialer(transport, { denyPrivate: false, limits }, (name) => {
    asked.add(name)
    if (!asksLong) setImmediate(resolve)
  })
  const source = compileSource({ ip: '127.0.0.1', id: 'job-1', allowlist: ['allowed.test'] })
  const records: AccessRecord[] = []
  const context: EgressContext = {
    transport,
    limits,
    refusals: new LingerLimit(limits.maxRefused),
    dialer,
    verifySni: true,
    via: 'egress-proxy-test',
    denyMessage: undefined,
    isStopping: false,
    isNearCapacity: false,
    findSource: (address) => (address === '127.0.0.1' ? source : undefined),
    addSession: () => true,
    removeSession: () => {},
    recordAccess: (exchange) => records.push(exchange),
  }
  const bound = await transport.listen({ host: '127.0.0.1', port: 0 }, (client) => {
    const bytes = (first: Buffer): void => void serveHttp(context, client, first, options, () => {})
    client.owner = { received: bytes, ended: () => client.close(), drained() {}, closed() {} }
  })
  t.after(() => bound.close())
  return { records, client: () => connectPeer(t, bound.port), resolve }
}

export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** An origin that answers every request with these bytes. */
export function originReplying(t: TestContext, answer: string): Promise<PeerServer> {
  return rawOrigin(t, (end) => answerEach(end, () => answer))
}

/** What a client reads that sends this, ends, and waits for the end. */
export async function ask(stage: Pick<HttpFixture, 'client'>, request: string): Promise<string> {
  const client = await stage.client()
  client.send(request)
  client.socket.end()
  return client.over()
}

/** Three requests of one client, one after the other, each answered with `OK`. */
export async function askThrice(client: Peer, port: number): Promise<void> {
  for (let count = 1; count <= 3; count++) {
    client.send(get(port))
    await until(() => client.text.split('\r\n\r\nok').length > count)
  }
}

/** A request that has reached its origin, which has not answered yet. */
export async function openRequest(t: TestContext, io: IoMode) {
  const stage = await openHttpFixture(t, io)
  const origin = await rawOrigin(t, () => {})
  const client = await stage.client()
  client.send(get(origin.port))
  await until(() => origin.peers[0]?.text.includes('\r\n\r\n') === true)
  return { stage, origin, client }
}

/** A request for the allowed name, on the port of an origin. */
export function requestFor(method: string, port: number, path = '/', fields = '', body = ''): string {
  return `${method} http://allowed.test:${port}${path} HTTP/1.1\r\nHost: allowed.test:${port}\r\n${fields}\r\n${body}`
}

export function get(port: number, path = '/', fields = ''): string {
  return requestFor('GET', port, path, fields)
}

/** With the part of the name in Via that is another one in each proxy left out. */
export function plainVia(text: string): string {
  return text.replace(/(Via: 1\.\d egress-proxy)-[a-z]{12}\r\n/g, '$1\r\n')
}
