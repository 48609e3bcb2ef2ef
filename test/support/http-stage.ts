// Plain HTTP through a proxy on loopback, of either make: every name leads to this machine. Starting a proxy takes longer than
// most of what is asked of it, so one serves a whole file; the tests do not meet, for each has a source address of its own.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, suite, type TestContext } from 'node:test'
import { Dialer } from '../../src/egress/dialer.ts'
import type { Exchange } from '../../src/egress/exchange.ts'
import type { Gate } from '../../src/egress/gate.ts'
import { type HttpManner, serveHttp } from '../../src/egress/http/relay.ts'
import { LIMITS, type Limits } from '../../src/egress/limits.ts'
import { compileSource } from '../../src/egress/match.ts'
import { type EgressProxy, startProxy } from '../../src/egress/proxy.ts'
import { Refusals } from '../../src/egress/refusals.ts'
import { openNetWires } from '../../src/egress/wires/net.ts'
import { IOS, type IoMake, type Line } from '../egress/lab.ts'
import { needs } from './needs.ts'
import { answerEach, type RawEnd, type RawOrigin, rawClient, rawOrigin } from './raw-http.ts'
import { tempDir } from './temp.ts'
import { until } from './until.ts'

/** The same tests for each make, side by side unless told otherwise: most of them wait for a time to be over. */
export function suiteOnBoth(name: string, run: (io: IoMake) => void, concurrency: number = IOS.length): void {
  suite(name, { concurrency }, () => {
    for (const io of IOS) {
      const options = io === 'epoll' ? needs('kernel') : {}
      suite(`${name} on ${io}`, { ...options, concurrency: 1 }, () => run(io))
    }
  })
}

export interface HttpStage {
  readonly proxy: EgressProxy
  readonly port: number
  /** Where its clients come from. */
  readonly source: string
  client(): Promise<RawEnd>
  /** Changes what its clients may reach. */
  allow(...names: readonly string[]): Promise<void>
  /** What the log says of its clients, once it says so much. */
  records(count?: number): Promise<readonly Line[]>
  /** Once nobody is connected to the proxy. */
  empty(): Promise<void>
}

export interface StageOptions {
  /** With limits, the proxy is the test's own. */
  readonly limits?: Partial<Limits>
  readonly allowlist?: readonly string[]
}

interface Running {
  readonly proxy: EgressProxy
  readonly port: number
  readonly lines: Line[]
}

const hostsPath = join(tempDir({ after }), 'hosts')
writeFileSync(hostsPath, '127.0.0.1 allowed.test other.test denied.test\n')

const shared = new Map<IoMake, Promise<Running>>()
after(async () => {
  for (const running of shared.values()) await (await running).proxy.close()
})

let stages = 0

export async function openHttpStage(t: TestContext, io: IoMake, options: StageOptions = {}): Promise<HttpStage> {
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
    client: () => rawClient(t, port, source),
    allow,
    records: async (count = 1) => {
      const find = (): readonly Line[] => lines.filter((line) => line.source === source)
      await until(() => find().length >= count)
      return find()
    },
    empty: () => until(async () => (await proxy.snapshot()).connections === 0),
  }
}

async function runAlone(t: TestContext, io: IoMake, limits: Partial<Limits>): Promise<Running> {
  const running = await start(io, limits)
  t.after(() => running.proxy.close())
  return running
}

async function runShared(io: IoMake): Promise<Running> {
  const running = shared.get(io) ?? start(io, {})
  shared.set(io, running)
  return running
}

async function start(io: IoMake, limits: Partial<Limits>): Promise<Running> {
  const lines: Line[] = []
  const proxy = await startProxy({
    io,
    listen: { host: '127.0.0.1', port: 0 },
    limits: { drainMs: 0, ...limits },
    dns: { hostsPath },
    log: (text) => {
      // Not caught by anybody: it fails the test at hand.
      if (text.includes('by a fault of the proxy')) throw new Error(text)
      for (const line of text.trimEnd().split('\n')) lines.push(JSON.parse(line))
    },
  })
  return { proxy, port: proxy.forward?.port ?? 0, lines }
}

export interface HttpParts {
  readonly records: Exchange[]
  client(): Promise<RawEnd>
  /** Every name that is being looked up leads here, and is forgotten at once. */
  resolve(): void
}

export interface PartsOptions {
  readonly responseMs?: number
  /** Names are looked up until `resolve` is called. */
  readonly asksLong?: boolean
}

/** Of plain HTTP, only the parts: with a manner of one's own, in this thread. */
export async function openHttpParts(
  t: TestContext,
  manner: HttpManner,
  { responseMs = LIMITS.responseMs, asksLong = false }: PartsOptions = {},
): Promise<HttpParts> {
  const wires = openNetWires()
  const limits: Limits = { ...LIMITS, responseMs }
  const asked = new Set<string>()
  const resolve = (): void => {
    for (const name of asked) dialer.resolved(name, { kind: 'addresses', addresses: ['127.0.0.1'], ttlMs: 0 })
    asked.clear()
  }
  const dialer = new Dialer(wires, { denyPrivate: false, limits }, (name) => {
    asked.add(name)
    if (!asksLong) setImmediate(resolve)
  })
  const source = compileSource({ ip: '127.0.0.1', id: 'job-1', allowlist: ['allowed.test'] })
  const records: Exchange[] = []
  const gate: Gate = {
    wires,
    limits,
    refusals: new Refusals(limits.maxRefused),
    dialer,
    verifySni: true,
    via: 'egress-proxy-test',
    denyMessage: undefined,
    isStopping: false,
    isCrowded: false,
    find: (address) => (address === '127.0.0.1' ? source : undefined),
    enter: () => true,
    leave: () => {},
    done: (exchange) => records.push(exchange),
  }
  const bound = await wires.listen({ host: '127.0.0.1', port: 0 }, (client) => {
    const bytes = (first: Buffer): void => void serveHttp(gate, client, first, manner, () => {})
    client.owner = { bytes, ended: () => client.close(), drained() {}, closed() {} }
  })
  t.after(() => bound.close())
  return { records, client: () => rawClient(t, bound.port), resolve }
}

export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** An origin that answers every request with these bytes. */
export function saying(t: TestContext, answer: string): Promise<RawOrigin> {
  return rawOrigin(t, (end) => answerEach(end, () => answer))
}

/** What a client reads that sends this, ends, and waits for the end. */
export async function ask(stage: Pick<HttpStage, 'client'>, request: string): Promise<string> {
  const client = await stage.client()
  client.send(request)
  client.socket.end()
  return client.over()
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
