// The HTTP server of a daemon: strict parsing, limits on headers and times, and a graceful shutdown.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { getRequestListener, RequestError } from '@hono/node-server'
import { type FaultHandler, guard } from '../../lib/fault-boundary.ts'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { peerAddress, problemResponse } from '../../lib/http/http.ts'
import { setUserTimeout } from '../../lib/http/socket-timeout.ts'
import { REFUSALS, Refusal, refuse } from '../../lib/refusal.ts'
import type { ListenEndpoint } from '../../lib/settings.ts'
import type { RawHandler } from './raw-request.ts'

export interface HttpLimits {
  readonly headMs: number
  /** For headers and body together. A form may take longer: it may have files. */
  readonly requestMs: number
  /** How much of a form must arrive each time after that. */
  readonly formRate: { readonly bytes: number; readonly ms: number }
  readonly idleMs: number
  /** How long a client may leave sent data unacknowledged or unread. */
  readonly unreadMs: number
  readonly headBytes: number
  readonly headers: number
  /** How long the rest of a refused body is discarded after the response. */
  readonly discardMs: number
  /** How long responses may take to finish when the daemon stops. */
  readonly drainMs: number
}

export const HTTP_LIMITS: HttpLimits = {
  headMs: 10_000,
  requestMs: 60_000,
  formRate: { bytes: 320 * 1024, ms: 10_000 },
  idleMs: 65_000,
  unreadMs: 60_000,
  headBytes: 16_384,
  headers: 100,
  discardMs: 5_000,
  drainMs: 10_000,
}

/** Discarding allocates memory, so under a flood the other connections are reset. */
const DISCARDS_MAX = 8

export interface HttpListener {
  readonly url: string
  /** Accepts no new connections, lets responses finish within `drainMs`, then closes the rest. */
  close(): Promise<void>
}

export interface HttpListenerOptions {
  /** The daemon, for error messages. */
  readonly name: string
  /** The setting of the address, for error messages. */
  readonly setting: string
  readonly listen: ListenEndpoint
  /** Called before `fetch`. */
  readonly rawHandler?: RawHandler | undefined
  readonly fetch: (request: Request, env: unknown) => Response | Promise<Response>
  /** Called for malformed requests. */
  readonly onFault?: (fault: HttpFault, remote: string | undefined) => void
  /** Called for unexpected errors. */
  readonly onBackgroundError: FaultHandler
  readonly limits?: Partial<HttpLimits> | undefined
}

export async function openHttpListener(options: HttpListenerOptions): Promise<HttpListener> {
  const limits = { ...HTTP_LIMITS, ...options.limits }
  const { onFault, onBackgroundError, rawHandler } = options
  const handle = getRequestListener(options.fetch, {
    errorHandler: (error) => unreadableResponse(error, onBackgroundError),
  })
  const server = createServer(serverOptions(limits))
  // Node silently drops headers above the limit; one more lets `headFault` detect them.
  server.maxHeadersCount = limits.headers + 1
  const refused = new WeakSet<Duplex>()
  const unanswered = new Set<ServerResponse>()
  /** The latest request of each connection. */
  const requests = new WeakMap<Duplex, IncomingMessage>()
  const discarding = new Set<Socket>()
  const isValidHost = createHostCheck()
  const currentResponse = (socket: Duplex): ServerResponse | undefined =>
    [...unanswered].find((response) => response.socket === socket)
  // Shared, so that no request allocates a closure.
  function forgetResponse(this: ServerResponse): void {
    unanswered.delete(this)
    requests.delete(this.req.socket)
  }
  /** Node calls it after the last response. */
  function closeConnection(this: Socket): void {
    const request = requests.get(this)
    if (!request || request.complete || discarding.size >= DISCARDS_MAX)
      return void Socket.prototype.destroySoon.call(this)
    // No later request of this connection can be answered.
    refused.add(this)
    discarding.add(this)
    this.once('close', () => discarding.delete(this))
    discardBody(this, request, limits.discardMs)
  }
  const refuseRequest = ({ socket }: IncomingMessage, response: ServerResponse, fault: HttpFault): void => {
    refused.add(socket)
    onFault?.(fault, socket.remoteAddress)
    sendFault(response, fault)
  }
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    try {
      handleRequest(request, response)
    } catch (error) {
      onBackgroundError(error)
      request.socket.destroy()
    }
  }
  const handleRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const { socket, httpVersion } = request
    // Request smuggling: bytes after a malformed request may be a request that a proxy in front did not see.
    if (refused.has(socket)) return
    unanswered.add(response)
    response.on('close', forgetResponse)
    requests.set(socket, request)
    if (httpVersion === '1.0') response.shouldKeepAlive = false
    const fault = headFault(request, limits, isValidHost)
    // An absolute-form target names the same host as Host (see `headFault`), and handlers expect a path.
    if (!fault && request.url?.startsWith('/') === false) request.url = pathOfTarget(request.url)
    if (fault) refuseRequest(request, response, fault)
    else if (!rawHandler?.(request, response, { client: peerAddress(request), isSocketAddress: true })) {
      if (request.headers.expect !== undefined) response.writeContinue()
      handle(request, response).catch(onBackgroundError)
    }
  }
  // A client may close its half of the connection and still wait for the response; by default Node would hang up. Once a
  // response has started, such as a stream, the half-close means that the client has disconnected.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on('connection', (socket) => {
    socket.destroySoon = closeConnection
    socket.on('end', () => {
      for (const response of unanswered)
        if (response.socket === socket && response.headersSent && !response.writableEnded) return void socket.destroy()
    })
  })
  server.on('request', onRequest)
  // A request with Expect: 100-continue may be refused before its body is sent.
  server.on('checkContinue', onRequest)
  const onExpectation = (request: IncomingMessage, response: ServerResponse): void => {
    if (!refused.has(request.socket)) refuseRequest(request, response, BAD_EXPECTATION)
  }
  server.on('checkExpectation', guard(onBackgroundError, onExpectation))
  // Without this listener Node closes the connection of a CONNECT without a response.
  const onConnect = (request: IncomingMessage, socket: Duplex): void => {
    onFault?.(NO_PATH, request.socket.remoteAddress)
    sendFaultToSocket(socket, NO_PATH, currentResponse(socket))
  }
  server.on('connect', guard(onBackgroundError, onConnect))
  const onClientError = (error: Error, socket: Duplex): void => {
    const request = requests.get(socket)
    // Node reports a slow request once.
    if (errnoCode(error) === 'ERR_HTTP_REQUEST_TIMEOUT' && request && isArrivingForm(request))
      return void watchForm(request, limits.formRate, {
        onSlow: () => refuseClient(error, socket),
        onError: onBackgroundError,
      })
    refuseClient(error, socket)
  }
  const refuseClient = (error: Error, socket: Duplex): void => {
    const fault = CLIENT_FAULTS[errnoCode(error) ?? ''] ?? BAD_VERSION
    if (errnoCode(error) === 'ECONNRESET' || !socket.writable) return void socket.destroy()
    onFault?.(fault, socket instanceof Socket ? socket.remoteAddress : undefined)
    sendFaultToSocket(socket, fault, currentResponse(socket))
  }
  server.on('clientError', guard(onBackgroundError, onClientError))
  await bind(server, options)
  // Otherwise a client that lost its network holds its stream for 15 minutes.
  setUserTimeout(server, limits.unreadMs)
  // An unhandled error, such as too many open files, would end the process; the listener can continue.
  server.on('error', onBackgroundError)
  return { url: urlOf(server), close: () => drain(server, unanswered, limits.drainMs) }
}

function isArrivingForm({ complete, headers }: IncomingMessage): boolean {
  return !complete && (headers['content-type'] ?? '').toLowerCase().startsWith('multipart/form-data')
}

function watchForm(
  request: IncomingMessage,
  { bytes, ms }: HttpLimits['formRate'],
  { onSlow, onError }: { onSlow(): void; readonly onError: FaultHandler },
): void {
  const { socket } = request
  let before = socket.bytesRead
  const check = (): void => {
    const arrived = socket.bytesRead - before
    before = socket.bytesRead
    const isOver = !isArrivingForm(request) || socket.destroyed
    if (!isOver && arrived >= bytes) return
    clearInterval(timer)
    if (!isOver) onSlow()
  }
  const timer = setInterval(guard(onError, check), ms).unref()
}

/**
 * Closes the connection once the body has arrived. Closing with unread bytes would reset the connection, and the client,
 * or a web server in front, might lose the response that it has not read yet.
 */
function discardBody(socket: Socket, request: IncomingMessage, maxMs: number): void {
  const timer = setTimeout(() => socket.destroy(), maxMs)
  socket.once('close', () => clearTimeout(timer))
  request.once('end', () => socket.destroySoon())
  socket.end()
  request.resume()
}

function serverOptions({ headMs, requestMs, idleMs, unreadMs, headBytes }: HttpLimits) {
  return {
    // The kernel probes idle clients while a response is being produced.
    keepAlive: true,
    keepAliveInitialDelay: unreadMs / 2,
    headersTimeout: headMs,
    requestTimeout: requestMs,
    keepAliveTimeout: idleMs,
    maxHeaderSize: headBytes,
    // The interval in which Node enforces the timeouts.
    connectionsCheckingInterval: Math.max(10, headMs / 4),
    // `headFault` checks it and sends a problem document.
    requireHostHeader: false,
    // The lenient parser allows request smuggling.
    insecureHTTPParser: false,
  }
}

const HOST = /^(?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i

/** Finds what the parser accepts but a proxy in front may read differently. */
function headFault(
  request: IncomingMessage,
  limits: HttpLimits,
  isValidHost: (host: string) => boolean,
): HttpFault | undefined {
  const { rawHeaders, httpVersion, url = '' } = request
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return BAD_VERSION
  if (rawHeaders.length > limits.headers * 2) {
    return { status: 431, detail: `the request has more than ${limits.headers} headers` }
  }
  let host: string | undefined
  let hosts = 0
  let hasCoding = false
  // `request.headers` would build an object of all headers.
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'host') {
      host = rawHeaders[at + 1] ?? ''
      hosts++
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') hasCoding = true
  }
  if (host === undefined || hosts > 1 || !isValidHost(host))
    return { status: 400, detail: 'the request must have one valid Host header' }
  const coding = hasCoding ? request.headers['transfer-encoding']?.toLowerCase() : undefined
  if (coding !== undefined && (coding !== 'chunked' || httpVersion === '1.0')) return BAD_CODING
  if (url.startsWith('/')) return undefined
  const [, authority] = /^https?:\/\/([^/?#]*)/i.exec(url) ?? []
  if (authority === undefined) return NO_PATH
  const isSameHost = authority.toLowerCase() === host.toLowerCase()
  return isSameHost ? undefined : { status: 400, detail: 'the host of the request line and the Host header differ' }
}

/** Path and query of an absolute-form target. */
function pathOfTarget(target: string): string {
  const rest = target.replace(/^https?:\/\/[^/?#]*/i, '')
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** Remembers the last valid host: most requests name the same one. */
function createHostCheck(): (host: string) => boolean {
  let lastValid: string | undefined
  return (host) => {
    if (host === lastValid) return true
    if (!HOST.test(host)) return false
    lastValid = host
    return true
  }
}

export interface HttpFault {
  readonly status: 400 | 408 | 417 | 431
  readonly detail: string
}

const CLIENT_FAULTS: Readonly<Record<string, HttpFault>> = {
  HPE_HEADER_OVERFLOW: { status: 431, detail: 'the request headers are too large' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, detail: 'the request did not arrive in time' },
}
const BAD_VERSION: HttpFault = { status: 400, detail: 'the request is not HTTP/1.1' }
const NO_PATH: HttpFault = { status: 400, detail: 'the request has no path' }
const BAD_CODING: HttpFault = { status: 400, detail: 'Transfer-Encoding must be chunked, in HTTP/1.1' }
const BAD_EXPECTATION: HttpFault = { status: 417, detail: 'Expect must be 100-continue' }
const TITLES = {
  400: 'Bad Request',
  408: 'Request Timeout',
  417: 'Expectation Failed',
  431: 'Request Header Fields Too Large',
} as const

/** See docs/decisions.md#http-errors. */
function problemText({ status, detail }: HttpFault): string {
  const { title } = REFUSALS.invalid
  return JSON.stringify({ type: 'urn:problem:invalid', title, status, detail, code: 'invalid' })
}

function sendFault(response: ServerResponse, fault: HttpFault): void {
  const headers = { 'Content-Type': 'application/problem+json', Connection: 'close' }
  response.writeHead(fault.status, headers).end(problemText(fault))
}

function sendFaultToSocket(socket: Duplex, fault: HttpFault, response: ServerResponse | undefined): void {
  // After a response has started, the client would read this one as part of its body.
  if (response?.headersSent && !response.writableFinished) return void socket.destroy()
  const body = problemText(fault)
  socket.end(
    `HTTP/1.1 ${fault.status} ${TITLES[fault.status]}\r\nContent-Type: application/problem+json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  )
}

/** For requests that have no valid URL. The app handles its own errors. */
function unreadableResponse(error: unknown, onError: HttpListenerOptions['onBackgroundError']): Response {
  if (error instanceof RequestError) {
    return problemResponse(new Refusal('invalid', 'the request has no valid URL'), { Connection: 'close' })
  }
  onError(error)
  return new Response(null, { status: 500 })
}

const BIND_FAULTS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EACCES: 'permission denied',
  EADDRNOTAVAIL: 'this machine does not have the address',
  ENOTFOUND: 'there is no such host',
}

async function bind(server: Server, { name, setting, listen: { host, port } }: HttpListenerOptions): Promise<void> {
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (error) {
    const code = errnoCode(error) ?? ''
    const reason = BIND_FAULTS[code]
    if (reason === undefined) throw error
    const address = `${host.includes(':') ? `[${host}]` : host}:${port}`
    refuse('unavailable', `${name} cannot listen on ${address}: ${reason}`, `set ${setting} to another address`)
  }
}

/** A URL to connect to: wildcard addresses become loopback. */
function urlOf(server: Server): string {
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('a TCP server has no port')
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[bound.address] ?? bound.address
  return `http://${bound.family === 'IPv6' ? `[${host}]` : host}:${bound.port}`
}

async function drain(server: Server, unanswered: Iterable<ServerResponse>, drainMs: number): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve))
  // A connection becomes idle, and is closed, only after its response; the response announces that.
  for (const response of unanswered) if (!response.headersSent) response.setHeader('Connection', 'close')
  server.prependListener('request', (_, response) => response.setHeader('Connection', 'close'))
  const sweep = setInterval(() => server.closeIdleConnections(), 20)
  const deadline = setTimeout(() => server.closeAllConnections(), drainMs)
  server.closeIdleConnections()
  await closed
  clearInterval(sweep)
  clearTimeout(deadline)
}
