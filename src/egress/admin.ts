// The admin listener: plain HTTP/1.1 on one address or several. What is asked there is judged in admin/request.ts.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { diskCode } from '../lib/atomic-file.ts'
import { problemOf } from '../lib/http.ts'
import { Refusal } from '../lib/refusal.ts'
import type { Listen } from '../lib/settings.ts'
import { answerRequest, type OnFault } from './admin/request.ts'
import type { AdminParts } from './admin/routes.ts'
import { listenFault } from './listen-fault.ts'
import type { Endpoint } from './wire.ts'

export interface AdminOptions {
  /** The head of a request, and all of it. */
  readonly headMs?: number
  readonly requestMs?: number
  readonly onFault: OnFault
}

export interface Admin {
  readonly endpoints: readonly Endpoint[]
  /** Requests that are under way are answered. */
  close(): Promise<void>
}

const HEAD_MS = 5_000
const REQUEST_MS = 10_000
const CONNECTIONS_MAX = 1_000
/** How long whoever is being answered when the listener closes may take to read it. */
const STOP_MS = 2_000

/** Listens at every address; of several, those that this machine does not have are left out. */
export async function openAdmin(at: readonly Listen[], parts: AdminParts, options: AdminOptions): Promise<Admin> {
  const servers: Server[] = []
  /** What each open connection is being answered, or was answered last. */
  const connections: Connections = new Map()
  const close = async (): Promise<void> => void (await Promise.all(servers.map((server) => stop(server, connections))))
  try {
    for (const [index, listen] of at.entries()) {
      const server = serverOf(connections, parts, options)
      const isSpare = index < at.length - 1 || servers.length > 0
      if (await bind(server, listen, isSpare)) servers.push(server)
    }
  } catch (error) {
    await close()
    throw error
  }
  return { endpoints: servers.map(endpointOf), close }
}

type Connections = Map<Duplex, ServerResponse | undefined>

function serverOf(connections: Connections, parts: AdminParts, options: AdminOptions): Server {
  const { headMs = HEAD_MS, requestMs = REQUEST_MS, onFault } = options
  const server = createServer(
    {
      headersTimeout: headMs,
      requestTimeout: requestMs,
      // Node looks for slow requests only so often.
      connectionsCheckingInterval: Math.min(1000, Math.ceil(headMs / 4)),
      // The lenient parser is how requests are smuggled.
      insecureHTTPParser: false,
    },
    (request, response) => {
      connections.set(request.socket, response)
      void answerRequest(request, response, parts, onFault)
    },
  )
  server.maxConnections = CONNECTIONS_MAX
  server.on('connection', (socket) => {
    connections.set(socket, undefined)
    socket.on('close', () => connections.delete(socket))
  })
  server.on('clientError', (error, socket) => {
    const last = connections.get(socket)
    // Into an answer that has begun another one would be read as its body, and behind it as the next request's.
    const isAnswered = last?.headersSent && !(last.writableFinished && last.req.complete)
    if (diskCode(error) === 'ECONNRESET' || !socket.writable || isAnswered) socket.destroy()
    else hangUp(socket, CLIENT_FAULTS[diskCode(error) ?? ''] ?? NO_HTTP)
  })
  // Unheard, Node would hang up without a word.
  server.on('connect', (_, socket) => hangUp(socket, NO_PROXY))
  // Too many open files, for one: the listener goes on, and an error that nobody hears would end the process.
  server.on('listening', () => server.on('error', (error) => onFault(randomUUID(), error)))
  return server
}

interface Fault {
  readonly status: number
  readonly phrase: string
  readonly detail: string
}

const CLIENT_FAULTS: Readonly<Record<string, Fault>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    phrase: 'Request Header Fields Too Large',
    detail: 'the head of the request is too large',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    phrase: 'Request Timeout',
    detail: 'the request did not arrive in time',
  },
}
const NO_HTTP: Fault = { status: 400, phrase: 'Bad Request', detail: 'this is not HTTP/1.1' }
const NO_PROXY: Fault = { status: 400, phrase: 'Bad Request', detail: 'this is the admin listener, not the proxy' }

/** Tells somebody whose bytes are no request, and closes. */
function hangUp(socket: Duplex, { status, phrase, detail }: Fault): void {
  const body = `${JSON.stringify({ ...problemOf(new Refusal('invalid', detail)).problem, status })}\n`
  socket.end(
    `HTTP/1.1 ${status} ${phrase}\r\nContent-Type: application/problem+json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  )
}

const MISSING = ['EADDRNOTAVAIL', 'EAFNOSUPPORT']

/** False when the machine does not have the address, and can do without. */
async function bind(server: Server, listen: Listen, isSpare: boolean): Promise<boolean> {
  const { host, port } = listen
  try {
    server.listen(port, host)
    await once(server, 'listening')
    return true
  } catch (error) {
    const isMissing = MISSING.includes(diskCode(error) ?? '')
    // "All addresses" of a machine without IPv6.
    if (isMissing && host === '::') return bind(server, { host: '0.0.0.0', port }, isSpare)
    if (isMissing && isSpare) return false
    throw listenFault('admin', listen, error)
  }
}

function endpointOf(server: Server): Endpoint {
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('a TCP server has no port')
  return { address: bound.address, port: bound.port }
}

async function stop(server: Server, connections: Connections): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  // Node would wait for those that never asked for anything, and for the next request of those that are being answered.
  for (const [socket, response] of connections) {
    if (!response || response.writableFinished) socket.destroy()
    else if (!response.headersSent) response.setHeader('Connection', 'close')
  }
  const deadline = setTimeout(() => server.closeAllConnections(), STOP_MS)
  await closed
  clearTimeout(deadline)
}
