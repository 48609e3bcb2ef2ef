// The HTTP server under a daemon: one strict parser, bounded heads and times, and a stop that lets answers finish.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { getRequestListener, RequestError } from '@hono/node-server'
import { diskCode } from '../lib/atomic-file.ts'
import { addressOf, problem } from '../lib/http.ts'
import { REFUSALS, Refusal, refuse } from '../lib/refusal.ts'
import type { Listen } from '../lib/settings.ts'
import type { Direct } from './direct.ts'

export interface Limits {
  readonly headMs: number
  /** Head and body together. */
  readonly requestMs: number
  readonly idleMs: number
  readonly headBytes: number
  readonly headers: number
  /** How long answers may take to finish when the daemon stops. */
  readonly drainMs: number
}

export const LIMITS: Limits = {
  headMs: 10_000,
  requestMs: 60_000,
  idleMs: 65_000,
  headBytes: 16_384,
  headers: 100,
  drainMs: 10_000,
}

export interface Listener {
  readonly url: string
  /** Takes no new connections, lets answers finish within the limit, then cuts the rest. */
  close(): Promise<void>
}

export interface ListenerOptions {
  /** Who listens, and which setting says where: for the sentence when it cannot. */
  readonly name: string
  readonly setting: string
  readonly listen: Listen
  /** Asked first. */
  readonly direct?: Direct | undefined
  readonly fetch: (request: Request, env: unknown) => Response | Promise<Response>
  /** Told of what was turned away before it was a request. */
  readonly onFault?: (fault: Fault, remote: string | undefined) => void
  /** Told of what nobody answered on purpose. */
  readonly onStray: (error: unknown) => void
  readonly limits?: Partial<Limits> | undefined
}

export async function openListener(options: ListenerOptions): Promise<Listener> {
  const limits = { ...LIMITS, ...options.limits }
  const { onFault, onStray, direct } = options
  const answer = getRequestListener(options.fetch, { errorHandler: (error) => answerUnreadable(error, onStray) })
  const server = createServer(serverOptions(limits))
  // Above the limit Node drops headers in silence; one more lets `headFault` see that there were too many.
  server.maxHeadersCount = limits.headers + 1
  const refused = new WeakSet<Duplex>()
  const unanswered = new Set<ServerResponse>()
  const currentOf = (socket: Duplex): ServerResponse | undefined =>
    [...unanswered].find((response) => response.socket === socket)
  // One for all of them: a request costs no function of its own.
  function leave(this: ServerResponse): void {
    unanswered.delete(this)
  }
  const turnAway = ({ socket }: IncomingMessage, response: ServerResponse, fault: Fault): void => {
    refused.add(socket)
    onFault?.(fault, socket.remoteAddress)
    refuseHead(response, fault)
  }
  const take = (request: IncomingMessage, response: ServerResponse): void => {
    const { socket, httpVersion } = request
    // Behind a request that was not understood anything may follow, such as a second one that a first server did not see.
    if (refused.has(socket)) return
    unanswered.add(response)
    response.on('close', leave)
    if (httpVersion === '1.0') response.shouldKeepAlive = false
    const fault = headFault(request, limits)
    // It names the host that was asked, so that the rest says all: handlers look at paths.
    if (!fault && request.url?.startsWith('/') === false) request.url = pathOfTarget(request.url)
    if (fault) turnAway(request, response, fault)
    else if (!direct?.(request, response, { client: addressOf(request), isPeer: true })) {
      if (request.headers.expect !== undefined) response.writeContinue()
      void answer(request, response).catch(onStray)
    }
  }
  // A client that has said all may close its half and still wait for the answer; Node would hang up on it. Into an answer
  // that goes on, such as a stream, it means that the client is gone.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on('connection', (socket) => {
    socket.on('end', () => {
      for (const response of unanswered)
        if (response.socket === socket && response.headersSent && !response.writableEnded) return void socket.destroy()
    })
  })
  server.on('request', take)
  // Whoever asks first whether to send a body may be told no before it does.
  server.on('checkContinue', take)
  server.on('checkExpectation', (request, response) => {
    if (!refused.has(request.socket)) turnAway(request, response, NO_EXPECTATION)
  })
  // Nobody tunnels here; unheard, Node would hang up without a word.
  server.on('connect', (request, socket) => {
    onFault?.(NO_PATH, request.socket.remoteAddress)
    refuseClient(socket, NO_PATH, currentOf(socket))
  })
  server.on('clientError', (error, socket) => {
    const fault = CLIENT_FAULTS[diskCode(error) ?? ''] ?? NO_HTTP
    if (diskCode(error) === 'ECONNRESET' || !socket.writable) return void socket.destroy()
    onFault?.(fault, socket instanceof Socket ? socket.remoteAddress : undefined)
    refuseClient(socket, fault, currentOf(socket))
  })
  await bind(server, options)
  // Too many open files, for one: the listener goes on, and an error that nobody hears would end the process.
  server.on('error', onStray)
  return { url: urlOf(server), close: () => drain(server, unanswered, limits.drainMs) }
}

function serverOptions({ headMs, requestMs, idleMs, headBytes }: Limits) {
  return {
    headersTimeout: headMs,
    requestTimeout: requestMs,
    keepAliveTimeout: idleMs,
    maxHeaderSize: headBytes,
    // Node looks for slow requests only so often.
    connectionsCheckingInterval: Math.max(10, Math.min(1000, headMs / 4)),
    // `headFault` asks for it, and answers in our words.
    requireHostHeader: false,
    // The lenient parser is how requests are smuggled.
    insecureHTTPParser: false,
  }
}

const HOST = /^(?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i

/** What the parser lets pass and two servers in a row may read differently. */
function headFault(request: IncomingMessage, limits: Limits): Fault | undefined {
  const { rawHeaders, httpVersion, url = '' } = request
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return NO_HTTP
  if (rawHeaders.length > limits.headers * 2) {
    return { status: 431, detail: `the request has more than ${limits.headers} headers` }
  }
  let host: string | undefined
  let hosts = 0
  let hasCoding = false
  // Over the raw ones: Node makes an object of all headers when it is asked for one.
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'host') {
      host = rawHeaders[at + 1] ?? ''
      hosts++
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') hasCoding = true
  }
  if (host === undefined || hosts > 1 || !isHost(host)) return { status: 400, detail: 'the request needs one Host' }
  const coding = hasCoding ? request.headers['transfer-encoding']?.toLowerCase() : undefined
  if (coding !== undefined && (coding !== 'chunked' || httpVersion === '1.0')) return NO_CODING
  if (url.startsWith('/')) return undefined
  const [, authority] = /^https?:\/\/([^/?#]*)/i.exec(url) ?? []
  if (authority === undefined) return NO_PATH
  const isSaidTwice = authority.toLowerCase() !== host.toLowerCase()
  return isSaidTwice ? { status: 400, detail: 'the request names two hosts' } : undefined
}

/** Path and query of a target that names the host, too, as clients of proxies write it. */
function pathOfTarget(target: string): string {
  const rest = target.replace(/^https?:\/\/[^/?#]*/i, '')
  return rest.startsWith('/') ? rest : `/${rest}`
}

let goodHost = ''

/** Most requests name the same one as the last. */
function isHost(host: string): boolean {
  if (host === goodHost) return true
  if (!HOST.test(host)) return false
  goodHost = host
  return true
}

export interface Fault {
  readonly status: 400 | 408 | 417 | 431
  readonly detail: string
}

const CLIENT_FAULTS: Readonly<Record<string, Fault>> = {
  HPE_HEADER_OVERFLOW: { status: 431, detail: 'the head of the request is too large' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, detail: 'the request did not arrive in time' },
}
const NO_HTTP: Fault = { status: 400, detail: 'this is not HTTP/1.1' }
const NO_PATH: Fault = { status: 400, detail: 'the request has no path' }
const NO_CODING: Fault = { status: 400, detail: 'the one transfer coding is chunked, in HTTP/1.1' }
const NO_EXPECTATION: Fault = { status: 417, detail: 'the one expectation is 100-continue' }
const TITLES = {
  400: 'Bad Request',
  408: 'Request Timeout',
  417: 'Expectation Failed',
  431: 'Request Header Fields Too Large',
} as const

/** E1 holds for what never became a request, too. */
function documentOf({ status, detail }: Fault): string {
  const { title } = REFUSALS.invalid
  return JSON.stringify({ type: 'urn:problem:invalid', title, status, detail, code: 'invalid' })
}

function refuseHead(response: ServerResponse, fault: Fault): void {
  const headers = { 'Content-Type': 'application/problem+json', Connection: 'close' }
  response.writeHead(fault.status, headers).end(documentOf(fault))
}

function refuseClient(socket: Duplex, fault: Fault, answer: ServerResponse | undefined): void {
  // Into an answer that has begun, another one would be read as its body.
  if (answer?.headersSent && !answer.writableFinished) return void socket.destroy()
  const body = documentOf(fault)
  socket.end(
    `HTTP/1.1 ${fault.status} ${TITLES[fault.status]}\r\nContent-Type: application/problem+json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  )
}

/** What does not even give a URL, such as a Host that is none. Errors of the app are answered by the app. */
function answerUnreadable(error: unknown, onStray: ListenerOptions['onStray']): Response {
  if (error instanceof RequestError) {
    return problem(new Refusal('invalid', 'the request has no readable address'), { Connection: 'close' })
  }
  onStray(error)
  return new Response(null, { status: 500 })
}

const BIND_FAULTS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EACCES: 'permission denied',
  EADDRNOTAVAIL: 'this machine does not have the address',
  ENOTFOUND: 'there is no such host',
}

async function bind(server: Server, { name, setting, listen: { host, port } }: ListenerOptions): Promise<void> {
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (error) {
    const code = diskCode(error) ?? ''
    const reason = BIND_FAULTS[code]
    if (reason === undefined) throw error
    const address = `${host.includes(':') ? `[${host}]` : host}:${port}`
    refuse('unavailable', `${name} cannot listen on ${address}: ${reason}`, `set ${setting} to another address`)
  }
}

/** The address as a client writes it: "all addresses" is no place to go to. */
function urlOf(server: Server): string {
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('a TCP server has no port')
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[bound.address] ?? bound.address
  return `http://${bound.family === 'IPv6' ? `[${host}]` : host}:${bound.port}`
}

async function drain(server: Server, unanswered: Iterable<ServerResponse>, drainMs: number): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve))
  // A connection is idle only after its answer has gone out: then it is closed as well, and the answer says so.
  for (const response of unanswered) if (!response.headersSent) response.setHeader('Connection', 'close')
  server.prependListener('request', (_, response) => response.setHeader('Connection', 'close'))
  const sweep = setInterval(() => server.closeIdleConnections(), 20)
  const deadline = setTimeout(() => server.closeAllConnections(), drainMs)
  server.closeIdleConnections()
  await closed
  clearInterval(sweep)
  clearTimeout(deadline)
}
