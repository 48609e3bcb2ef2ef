// The admin listener: plain HTTP/1.1 on one or more addresses. admin/request.ts handles the requests.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { guard } from '../../lib/fault-boundary.ts'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { problemOf } from '../../lib/http/http.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { ListenEndpoint } from '../../lib/settings.ts'
import { listenError } from '../transport/listen-error.ts'
import type { SocketAddress } from '../transport/transport.ts'
import { handleAdminRequest, type OnInternalError } from './request.ts'
import type { AdminContext } from './routes.ts'

export interface AdminOptions {
  /** Timeouts of the request head and of the whole request. */
  readonly headMs?: number
  readonly requestMs?: number
  readonly onFault: OnInternalError
}

export interface AdminServer {
  readonly endpoints: readonly SocketAddress[]
  /** Finishes requests in progress. */
  close(): Promise<void>
}

const HEAD_MS = 5_000
const REQUEST_MS = 10_000
const CONNECTIONS_MAX = 1_000
/** How long a client may take to read its response when the listener closes. */
const STOP_MS = 2_000

/** Listens on every address; if there are several, skips those that this machine does not have. */
export async function openAdminServer(
  at: readonly ListenEndpoint[],
  context: AdminContext,
  options: AdminOptions,
): Promise<AdminServer> {
  const servers: Server[] = []
  /** The current or last response of each open connection. */
  const connections: Connections = new Map()
  const close = async (): Promise<void> => void (await Promise.all(servers.map((server) => stop(server, connections))))
  try {
    for (const [index, listen] of at.entries()) {
      const server = serverOf(connections, context, options)
      const isOptional = index < at.length - 1 || servers.length > 0
      if (await bind(server, listen, isOptional)) servers.push(server)
    }
  } catch (error) {
    await close()
    throw error
  }
  return { endpoints: servers.map(endpointOf), close }
}

type Connections = Map<Duplex, ServerResponse | undefined>

function serverOf(connections: Connections, context: AdminContext, options: AdminOptions): Server {
  const { headMs = HEAD_MS, requestMs = REQUEST_MS, onFault } = options
  const reportFault = (error: unknown): void => onFault(randomUUID(), error)
  const server = createServer(
    {
      headersTimeout: headMs,
      requestTimeout: requestMs,
      // Interval of Node's check for slow requests.
      connectionsCheckingInterval: Math.min(1000, Math.ceil(headMs / 4)),
      // The lenient parser allows request smuggling.
      insecureHTTPParser: false,
    },
    (request, response) => {
      connections.set(request.socket, response)
      handleAdminRequest(request, response, context, onFault).catch(reportFault)
    },
  )
  server.maxConnections = CONNECTIONS_MAX
  server.on('connection', (socket) => {
    connections.set(socket, undefined)
    socket.on('close', () => connections.delete(socket))
  })
  const onClientError = (error: Error, socket: Duplex): void => {
    const last = connections.get(socket)
    // After a response has begun, another one would be read as its body or as the next response.
    const isAnswered = last?.headersSent && !(last.writableFinished && last.req.complete)
    if (errnoCode(error) === 'ECONNRESET' || !socket.writable || isAnswered) socket.destroy()
    else rejectConnection(socket, CLIENT_FAULTS[errnoCode(error) ?? ''] ?? NO_HTTP)
  }
  server.on('clientError', guard(reportFault, onClientError))
  // Without a listener Node closes the connection without a response.
  const onConnect = (_: unknown, socket: Duplex): void => rejectConnection(socket, NO_PROXY)
  server.on('connect', guard(reportFault, onConnect))
  // For example too many open files: the server keeps listening, and an unhandled error would end the process.
  server.on('listening', () => server.on('error', reportFault))
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
    detail: 'the request head is too large',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    phrase: 'Request Timeout',
    detail: 'the request did not arrive in time',
  },
}
const NO_HTTP: Fault = { status: 400, phrase: 'Bad Request', detail: 'this is not HTTP/1.1' }
const NO_PROXY: Fault = { status: 400, phrase: 'Bad Request', detail: 'this is the admin listener, not the proxy' }

/** Answers bytes that are not a request, and closes. */
function rejectConnection(socket: Duplex, { status, phrase, detail }: Fault): void {
  const body = `${JSON.stringify({ ...problemOf(new Refusal('invalid', detail)).problem, status })}\n`
  socket.end(
    `HTTP/1.1 ${status} ${phrase}\r\nContent-Type: application/problem+json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  )
}

const MISSING = ['EADDRNOTAVAIL', 'EAFNOSUPPORT']

/** Returns false if the machine lacks an address that is optional. */
async function bind(server: Server, listen: ListenEndpoint, isOptional: boolean): Promise<boolean> {
  const { host, port } = listen
  try {
    server.listen(port, host)
    await once(server, 'listening')
    return true
  } catch (error) {
    const isMissing = MISSING.includes(errnoCode(error) ?? '')
    // "All addresses" on a machine without IPv6.
    if (isMissing && host === '::') return bind(server, { host: '0.0.0.0', port }, isOptional)
    if (isMissing && isOptional) return false
    throw listenError('admin', listen, error)
  }
}

function endpointOf(server: Server): SocketAddress {
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('a TCP server has no port')
  return { address: bound.address, port: bound.port }
}

async function stop(server: Server, connections: Connections): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  // Node would wait for idle connections and for further requests on busy ones.
  for (const [socket, response] of connections) {
    if (!response || response.writableFinished) socket.destroy()
    else if (!response.headersSent) response.setHeader('Connection', 'close')
  }
  const deadline = setTimeout(() => server.closeAllConnections(), STOP_MS)
  await closed
  clearTimeout(deadline)
}
