// A proxy on loopback with a fake DNS, recording origins, clients that send exact bytes, and access to its log lines.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer, type IncomingMessage, type RequestListener } from 'node:http'
import { connect, createServer as createTcpServer, type Socket } from 'node:net'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { createServer as createTlsServer, type TLSSocket, type TlsOptions } from 'node:tls'
import { Worker } from 'node:worker_threads'
import { type EgressProxy, type ProxyOptions, startProxy } from '../../src/egress/proxy.ts'
import { type FakeDns, openFakeDns } from '../support/fake-dns.ts'
import { connectPeer, Peer, type PeerOptions, portOf } from '../support/raw-socket.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

export const IO_MODES = ['epoll', 'net'] as const
export type IoMode = (typeof IO_MODES)[number]

export const ALLOWED = 'allowed.test'
export const OTHER = 'other.test'
export const DENIED = 'denied.test'
const NAMES = [ALLOWED, `www.${ALLOWED}`, OTHER, DENIED]

export type LogLine = Readonly<Record<string, unknown>>

export interface LabOptions
  extends Pick<ProxyOptions, 'denyPrivate' | 'verifySni' | 'denyMessage' | 'limits' | 'admin'> {
  readonly io: IoMode
  /** The allowlist of 127.0.0.1; undefined registers no source. */
  readonly allowlist?: readonly string[] | undefined
  readonly host?: string
  /** Resolves names with the fake DNS instead of a hosts file. */
  readonly usesDns?: boolean
}

export interface Lab {
  readonly proxy: EgressProxy
  readonly port: number
  /** The log so far. */
  readonly lines: LogLine[]
  readonly dns: FakeDns
  client(options?: PeerOptions): Promise<Peer>
  /** Sends a request and returns everything received until the end. */
  ask(request: string, options?: PeerOptions): Promise<string>
  /** Opens a tunnel; the peer sees only its payload. */
  tunnel(port: number, options?: PeerOptions & { readonly name?: string; readonly early?: string }): Promise<Peer>
  /** Waits for a log line with these fields. */
  line(expected: LogLine): Promise<LogLine>
}

export async function openLab(t: TestContext, options: LabOptions): Promise<Lab> {
  const { io, allowlist = [ALLOWED, OTHER], host = '127.0.0.1', usesDns = false, limits, ...rest } = options
  const dns = await openFakeDns(t)
  const hostsPath = join(tempDir(t), 'hosts')
  writeFileSync(hostsPath, usesDns ? '' : `127.0.0.1 ${NAMES.join(' ')}\n`)
  const lines: LogLine[] = []
  const proxy = await startProxy({
    ...rest,
    io,
    listen: { host, port: 0 },
    limits: { drainMs: 0, ...limits },
    dns: { servers: [dns.server], hostsPath },
    // An invalid JSON line fails the test that caused it.
    log: (text) =>
      void lines.push(
        ...text
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line)),
      ),
  })
  t.after(() => proxy.close())
  if (options.allowlist !== undefined || !('allowlist' in options))
    await proxy.sources.set({ ip: '127.0.0.1', id: 'job-1', allowlist })
  const port = proxy.forward?.port ?? 0
  const lab: Omit<Lab, 'tunnel'> = {
    proxy,
    port,
    lines,
    dns,
    client: (from) => connectPeer(t, port, from),
    ask: async (request, from) => {
      const client = await connectPeer(t, port, from)
      client.send(request)
      const answer = await client.over()
      client.socket.destroy()
      return answer
    },
    line: async (expected) => {
      const find = (): LogLine | undefined => lines.find((line) => hasFields(line, expected))
      await until(() => find() !== undefined).catch(() => {
        throw new Error(`no line with ${JSON.stringify(expected)}: ${JSON.stringify(lines.slice(-8))}`)
      })
      return find() ?? {}
    },
  }
  return { ...lab, tunnel: (to, more = {}) => openTunnel(t, port, to, more) }
}

function hasFields(line: LogLine, expected: LogLine): boolean {
  return Object.entries(expected).every(([key, value]) => line[key] === value)
}

export function connectRequest(port: number, name = ALLOWED): string {
  return `CONNECT ${name}:${port} HTTP/1.1\r\nHost: ${name}:${port}\r\n\r\n`
}

export function getRequest(port: number, name = ALLOWED, path = '/'): string {
  return `GET http://${name}:${port}${path} HTTP/1.1\r\nHost: ${name}:${port}\r\nConnection: close\r\n\r\n`
}

type TunnelOptions = NonNullable<Parameters<Lab['tunnel']>[1]>

async function openTunnel(t: TestContext, proxy: number, port: number, options: TunnelOptions): Promise<Peer> {
  const { name = ALLOWED, early = '', host = '127.0.0.1', from } = options
  const local = from === undefined ? {} : { localAddress: from }
  const socket = connect({ port: proxy, host, allowHalfOpen: true, ...local })
  t.after(() => socket.destroy())
  socket.write(connectRequest(port, name) + early, 'latin1')
  const head = await readHead(socket)
  if (!head.startsWith('HTTP/1.1 200 ')) throw new Error(`no tunnel: ${head}`)
  return new Peer(socket)
}

/** Reads the first response head and puts back the bytes after it. */
async function readHead(socket: Socket): Promise<string> {
  let text = ''
  for (;;) {
    const bytes: Buffer | null = socket.read()
    if (bytes === null) {
      if (socket.readableEnded || socket.destroyed) return text
      await Promise.race([once(socket, 'readable'), once(socket, 'close')])
      continue
    }
    text += bytes.toString('latin1')
    const end = text.indexOf('\r\n\r\n')
    if (end < 0) continue
    if (text.length > end + 4) socket.unshift(Buffer.from(text.slice(end + 4), 'latin1'))
    return text.slice(0, end + 4)
  }
}

export interface HttpOrigin {
  readonly port: number
  readonly requests: IncomingMessage[]
  readonly connections: { count: number }
}

/** Records every request; responds with `ok` by default. */
export async function openHttpOrigin(t: TestContext, serve?: RequestListener, host = '127.0.0.1'): Promise<HttpOrigin> {
  const requests: IncomingMessage[] = []
  const connections = { count: 0 }
  const server = createHttpServer((request, response) => {
    requests.push(request)
    if (serve) serve(request, response)
    else request.resume().on('end', () => response.end('ok'))
  })
  server.on('connection', () => connections.count++)
  server.listen(0, host)
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: portOf(server), requests, connections }
}

export interface Certificate {
  readonly key: Buffer
  readonly cert: Buffer
}

/** A self-signed certificate for these names. */
export function makeCertificate(t: TestContext, names: readonly string[] = [ALLOWED, `*.${ALLOWED}`]): Certificate {
  const folder = tempDir(t)
  const [out, keyout] = [join(folder, 'certificate.pem'), join(folder, 'key.pem')]
  const make = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30']
  const about = ['-subj', `/CN=${names[0]}`, '-addext', `subjectAltName=${names.map((name) => `DNS:${name}`)}`]
  execFileSync('openssl', [...make, ...about, '-out', out, '-keyout', keyout], { stdio: 'ignore' })
  return { key: readFileSync(keyout), cert: readFileSync(out) }
}

export interface TlsOrigin {
  readonly port: number
  readonly sockets: TLSSocket[]
  /** All connections, including those without a handshake. */
  readonly connections: { count: number }
}

/** Echoes by default. */
export async function openTlsOrigin(
  t: TestContext,
  options: TlsOptions,
  serve: (socket: TLSSocket) => void = (socket) => void socket.pipe(socket),
): Promise<TlsOrigin> {
  const sockets: TLSSocket[] = []
  const connections = { count: 0 }
  const raw = new Set<Socket>()
  const server = createTlsServer(options, (socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    serve(socket)
  })
  server.on('connection', (socket: Socket) => {
    connections.count++
    raw.add(socket)
  })
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of raw) socket.destroy()
    server.close()
  })
  return { port: portOf(server), sockets, connections }
}

/** A port that neither accepts nor refuses connections: its backlog is full, and the listening thread is blocked. */
export async function openBlackHole(t: TestContext): Promise<number> {
  const program = `
    const { createServer } = require('node:net')
    const { parentPort } = require('node:worker_threads')
    const server = createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      setImmediate(() => {
        // Reports the port and blocks in one step: in between it would accept connections.
        parentPort.postMessage(server.address().port)
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
      })
    })`
  const worker = new Worker(program, { eval: true })
  t.after(() => void worker.terminate())
  const [port] = await once(worker, 'message')
  const fillers: Socket[] = []
  t.after(() => {
    for (const filler of fillers) filler.destroy()
  })
  // Connections beyond the backlog stay pending, and so do all later ones.
  for (let count = 0; count < 4; count++) fillers.push(connect({ port, host: '127.0.0.1' }).on('error', () => {}))
  await until(() => fillers.some(({ connecting }) => connecting) && fillers.some(({ connecting }) => !connecting))
  return port
}

/** Number of connections from this machine to this port in state SYN_SENT. */
export function countPendingConnects(port: number): number {
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  const SYN_SENT = '02'
  const rows = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((path) => readFileSync(path, 'utf8').split('\n').slice(1))
  return rows.filter((row) => {
    const [, , to = '', state] = row.trim().split(/\s+/)
    return to.endsWith(`:${hex}`) && state === SYN_SENT
  }).length
}

/** A TCP server that closes with all its connections after the test. */
export async function openTcpServer(t: TestContext, serve: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket.on('error', () => {}))
    serve(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return portOf(server)
}
