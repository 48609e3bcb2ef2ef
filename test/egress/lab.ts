// A proxy on loopback with everything around it that a test of its behaviour needs: names, origins that remember, clients
// that send exactly these bytes, and the log line by line.
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

export const IOS = ['epoll', 'net'] as const
export type IoMake = (typeof IOS)[number]

export const ALLOWED = 'allowed.test'
export const OTHER = 'other.test'
export const DENIED = 'denied.test'
const NAMES = [ALLOWED, `www.${ALLOWED}`, OTHER, DENIED]

export type Line = Readonly<Record<string, unknown>>

export interface LabOptions
  extends Pick<ProxyOptions, 'denyPrivate' | 'verifySni' | 'denyMessage' | 'limits' | 'admin'> {
  readonly io: IoMake
  /** What 127.0.0.1 may reach; nothing registers nobody. */
  readonly allowlist?: readonly string[] | undefined
  readonly host?: string
  /** Names are asked of the fake DNS alone, and not in a hosts file. */
  readonly asksDns?: boolean
}

export interface Lab {
  readonly proxy: EgressProxy
  readonly port: number
  /** All of the log so far. */
  readonly lines: Line[]
  readonly dns: FakeDns
  client(options?: PeerOptions): Promise<Peer>
  /** What a client is answered that sends this and reads to the end. */
  ask(request: string, options?: PeerOptions): Promise<string>
  /** A tunnel that is open; only its payload is told. */
  tunnel(port: number, options?: PeerOptions & { readonly name?: string; readonly early?: string }): Promise<Peer>
  /** The line that says this, once it is there. */
  line(says: Line): Promise<Line>
}

export async function openLab(t: TestContext, options: LabOptions): Promise<Lab> {
  const { io, allowlist = [ALLOWED, OTHER], host = '127.0.0.1', asksDns = false, limits, ...rest } = options
  const dns = await openFakeDns(t)
  const hostsPath = join(tempDir(t), 'hosts')
  writeFileSync(hostsPath, asksDns ? '' : `127.0.0.1 ${NAMES.join(' ')}\n`)
  const lines: Line[] = []
  const proxy = await startProxy({
    ...rest,
    io,
    listen: { host, port: 0 },
    limits: { drainMs: 0, ...limits },
    dns: { servers: [dns.server], hostsPath },
    // A line that is no JSON fails the test that made it.
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
    line: async (says) => {
      const find = (): Line | undefined => lines.find((line) => isLike(line, says))
      await until(() => find() !== undefined).catch(() => {
        throw new Error(`no line says ${JSON.stringify(says)}: ${JSON.stringify(lines.slice(-8))}`)
      })
      return find() ?? {}
    },
  }
  return { ...lab, tunnel: (to, more = {}) => openTunnel(t, port, to, more) }
}

function isLike(line: Line, says: Line): boolean {
  return Object.entries(says).every(([key, value]) => line[key] === value)
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

/** The first head that comes; what is behind it is left to whoever reads next. */
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

/** Remembers every request; answers `ok` unless told otherwise. */
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

/** Its own authority, for these names. */
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
  /** Of connections, whether or not a handshake was ever done. */
  readonly connections: { count: number }
}

/** Echoes what it is told, unless it is to do something else. */
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

/**
 * A port that takes no connection and refuses none: whoever connects waits. It belongs to a thread that has gone to sleep,
 * and its queue is full.
 */
export async function openBlackHole(t: TestContext): Promise<number> {
  const program = `
    const { createServer } = require('node:net')
    const { parentPort } = require('node:worker_threads')
    const server = createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      setImmediate(() => {
        // Told and asleep in one go: between the two it would take whoever is quick.
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
  // Those that do not fit into the queue stay without an answer, and so will everybody behind them.
  for (let count = 0; count < 4; count++) fillers.push(connect({ port, host: '127.0.0.1' }).on('error', () => {}))
  await until(() => fillers.some(({ connecting }) => connecting) && fillers.some(({ connecting }) => !connecting))
  return port
}

/** How many connections to this port are being tried by this machine now. */
export function tryingCount(port: number): number {
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  const SYN_SENT = '02'
  const rows = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((path) => readFileSync(path, 'utf8').split('\n').slice(1))
  return rows.filter((row) => {
    const [, , to = '', state] = row.trim().split(/\s+/)
    return to.endsWith(`:${hex}`) && state === SYN_SENT
  }).length
}

/** A server of this process that closes with everything it has. */
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
