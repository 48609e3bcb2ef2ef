// Plain HTTP through a proxy on loopback, with either I/O; every name resolves to this machine. Starting a proxy takes longer
// than most tests, so all tests of a file share one, each with its own source address.
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

/** Runs the same tests on each I/O, concurrently by default, because most tests wait for a timeout. */
export function suiteOnEachIo(name: string, run: (io: IoMode) => void, concurrency: number = IO_MODES.length): void {
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
  /** The source address of its clients. */
  readonly source: string
  connectClient(): Promise<Peer>
  /** Sets the allowlist of its clients. */
  allow(...names: readonly string[]): Promise<void>
  /** Waits for this many log records of its clients and returns all. */
  waitForRecords(count?: number): Promise<readonly LogLine[]>
  /** Waits until the proxy has no connections. */
  untilEmpty(): Promise<void>
}

export interface HttpFixtureOptions {
  /** With limits, the test gets its own proxy. */
  readonly limits?: Partial<ProxyLimits>
  readonly allowlist?: readonly string[]
}

interface RunningProxy {
  readonly proxy: EgressProxy
  readonly port: number
  readonly lines: LogLine[]
}

const hostsPath = join(tempDir({ after }), 'hosts')
writeFileSync(hostsPath, '127.0.0.1 allowed.test other.test denied.test\n')

const shared = new Map<IoMode, Promise<RunningProxy>>()
after(async () => {
  for (const running of shared.values()) await (await running).proxy.close()
})

let fixtureCount = 0

export async function openHttpFixture(
  t: TestContext,
  io: IoMode,
  options: HttpFixtureOptions = {},
): Promise<HttpFixture> {
  const { proxy, port, lines } = options.limits ? await startOwn(t, io, options.limits) : await getShared(io)
  const number = ++fixtureCount
  const source = `127.1.${number >> 8}.${number & 255}`
  const allow = async (...allowlist: readonly string[]): Promise<void> => {
    await proxy.sources.set({ ip: source, id: 'job-1', allowlist })
  }
  await allow(...(options.allowlist ?? ['allowed.test']))
  return {
    proxy,
    port,
    source,
    connectClient: () => connectPeer(t, port, { from: source }),
    allow,
    waitForRecords: async (count = 1) => {
      const find = (): readonly LogLine[] => lines.filter((line) => line.source === source)
      await until(() => find().length >= count)
      return find()
    },
    untilEmpty: () => until(async () => (await proxy.snapshot()).connections === 0),
  }
}

async function startOwn(t: TestContext, io: IoMode, limits: Partial<ProxyLimits>): Promise<RunningProxy> {
  const running = await start(io, limits)
  t.after(() => running.proxy.close())
  return running
}

async function getShared(io: IoMode): Promise<RunningProxy> {
  const running = shared.get(io) ?? start(io, {})
  shared.set(io, running)
  return running
}

async function start(io: IoMode, limits: Partial<ProxyLimits>): Promise<RunningProxy> {
  const lines: LogLine[] = []
  const proxy = await startProxy({
    io,
    listen: { host: '127.0.0.1', port: 0 },
    limits: { drainMs: 0, ...limits },
    dns: { hostsPath },
    log: (text) => {
      // Uncaught, so it fails the running test.
      if (text.includes('internal error on a connection')) throw new Error(text)
      for (const line of text.trimEnd().split('\n')) lines.push(JSON.parse(line))
    },
  })
  return { proxy, port: proxy.forward?.port ?? 0, lines }
}

export interface HttpParts {
  readonly records: AccessRecord[]
  connectClient(): Promise<Peer>
  /** Completes all pending lookups with this machine, without caching. */
  completeLookups(): void
}

export interface PartsOptions {
  readonly responseMs?: number
  /** Lookups stay pending until `completeLookups` is called. */
  readonly hasManualLookups?: boolean
}

/** Only the HTTP relay, in this thread, with the given options. */
export async function openHttpParts(
  t: TestContext,
  options: HttpRelayOptions,
  { responseMs = DEFAULT_PROXY_LIMITS.responseMs, hasManualLookups = false }: PartsOptions = {},
): Promise<HttpParts> {
  const transport = openNodeTransport()
  const limits: ProxyLimits = { ...DEFAULT_PROXY_LIMITS, responseMs }
  const pending = new Set<string>()
  const completeLookups = (): void => {
    for (const name of pending) dialer.completeLookup(name, { kind: 'addresses', addresses: ['127.0.0.1'], ttlMs: 0 })
    pending.clear()
  }
  const dialer = new Dialer(transport, { denyPrivate: false, limits }, (name) => {
    pending.add(name)
    if (!hasManualLookups) setImmediate(completeLookups)
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
    const received = (first: Buffer): void => void serveHttp(context, client, first, options, () => {})
    client.owner = { received, ended: () => client.close(), drained() {}, closed() {} }
  })
  t.after(() => bound.close())
  return { records, connectClient: () => connectPeer(t, bound.port), completeLookups }
}

export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** Opens an origin that sends these bytes for every request. */
export function openReplyingOrigin(t: TestContext, response: string): Promise<PeerServer> {
  return rawOrigin(t, (end) => answerEach(end, () => response))
}

/** Sends the bytes, shuts down its side, and returns everything that the proxy sends until the end. */
export async function sendRequest(fixture: Pick<HttpFixture, 'connectClient'>, request: string): Promise<string> {
  const client = await fixture.connectClient()
  client.send(request)
  client.socket.end()
  return client.over()
}

/** Sends three requests on one connection and waits for each `OK`. */
export async function sendThreeRequests(client: Peer, port: number): Promise<void> {
  for (let count = 1; count <= 3; count++) {
    client.send(get(port))
    await until(() => client.text.split('\r\n\r\nok').length > count)
  }
}

/** Sends a request to an origin that does not respond. */
export async function openPendingRequest(t: TestContext, io: IoMode) {
  const fixture = await openHttpFixture(t, io)
  const origin = await rawOrigin(t, () => {})
  const client = await fixture.connectClient()
  client.send(get(origin.port))
  await until(() => origin.peers[0]?.text.includes('\r\n\r\n') === true)
  return { fixture, origin, client }
}

/** Writes a request for the allowed name and this port. */
export function requestFor(method: string, port: number, path = '/', fields = '', body = ''): string {
  return `${method} http://allowed.test:${port}${path} HTTP/1.1\r\nHost: allowed.test:${port}\r\n${fields}\r\n${body}`
}

export function get(port: number, path = '/', fields = ''): string {
  return requestFor('GET', port, path, fields)
}

/** Removes the random suffix of the proxy name in Via. */
export function removeViaSuffix(text: string): string {
  return text.replace(/(Via: 1\.\d egress-proxy)-[a-z]{12}\r\n/g, '$1\r\n')
}
