// How one daemon reaches another: in this process by a call, in another one through its <DAEMON>_URL.
import { Agent, type ClientRequest, type IncomingMessage, request as requestPlain, ServerResponse } from 'node:http'
import { request as requestSecure, Agent as SecureAgent } from 'node:https'
import { pipeline } from 'node:stream/promises'
import type { Context, Hono } from 'hono'
import { diskCode } from '../lib/atomic-file.ts'
import { withoutHops } from '../lib/hop-headers.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { alreadySent, incomingOf } from './request.ts'
import type { DaemonName } from './settings.ts'

export interface Peer {
  /** Whether it runs in this process. */
  readonly isHere: boolean
  /** The answer of the other daemon to `request`, which came as `c`. */
  pass(request: Request, c: Context): Response | Promise<Response>
}

export type Peers = (name: DaemonName) => Peer

export interface OpenPeers {
  readonly peers: Peers
  close(): void
}

const CONNECT_MS = 5000
/** Until the head of the answer; a stream may then go on as long as it likes. */
const HEAD_MS = 60_000

/** `here` is filled while the process starts; `urls` is what <DAEMON>_URL says. */
export function openPeers(
  here: ReadonlyMap<DaemonName, { app: Hono }>,
  urls: ReadonlyMap<DaemonName, string>,
): OpenPeers {
  const agents: (Agent | SecureAgent)[] = []
  const remotes = new Map<DaemonName, Peer>()
  for (const [name, text] of urls) {
    const url = mustBeHttp(name, text)
    const agent = url.protocol === 'https:' ? new SecureAgent({ keepAlive: true }) : new Agent({ keepAlive: true })
    agents.push(agent)
    remotes.set(name, { isHere: false, pass: (request, c) => forward({ name, url, agent }, request, c) })
  }
  const peers: Peers = (name) => {
    const local = here.get(name)
    if (local) return { isHere: true, pass: (request, c) => local.app.fetch(request, c.env) }
    return remotes.get(name) ?? refuseAbsent(name)
  }
  return { peers, close: () => agents.forEach((agent) => void agent.destroy()) }
}

function mustBeHttp(name: DaemonName, text: string): URL {
  const url = new URL(text)
  if (url.protocol === 'http:' || url.protocol === 'https:') return url
  return refuse('invalid', `${name.toUpperCase()}_URL must start with http:// or https://`)
}

function refuseAbsent(name: DaemonName): never {
  refuse('unavailable', `${name} does not run here, and ${name.toUpperCase()}_URL does not say where it does`)
}

interface Remote {
  readonly name: DaemonName
  readonly url: URL
  readonly agent: Agent | SecureAgent
}

/** Bytes go through as they come, both ways, with back-pressure; only heads are touched. */
async function forward({ name, url, agent }: Remote, request: Request, c: Context): Promise<Response> {
  const [incoming, outgoing] = [incomingOf(c), outgoingOf(c)]
  if (!incoming || !outgoing) throw new Error('a request without a connection cannot be passed on')
  const { pathname, search } = new URL(request.url)
  const send = url.protocol === 'https:' ? requestSecure : requestPlain
  const onward = send(url, {
    method: request.method,
    // As it stands, never resolved against the address: "//evil/" would be a host.
    path: `${url.pathname.replace(/\/$/, '')}${pathname}${search}`,
    headers: onwardHeaders(request.headers, incoming),
    agent,
  })
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) onward.destroy()
  })
  const answered = headOf(onward, name)
  if (hasBody(incoming)) incoming.pipe(onward)
  else onward.end()
  const answer = await answered
  const status = answer.statusCode ?? 0
  if (status < 200 || status > 599) refuse('unavailable', `${name} does not speak HTTP`)
  outgoing.writeHead(status, withoutHops(answer.rawHeaders)).flushHeaders()
  // Whichever side breaks off takes the other one along: half an answer must not look like a whole one.
  pipeline(answer, outgoing).catch(() => {})
  answer.once('end', () => dropRest(incoming, onward))
  return alreadySent(status)
}

/** An answer may come before the body is over. Node then sends no more of it, and the next request would wait behind it. */
function dropRest(incoming: IncomingMessage, onward: ClientRequest): void {
  if (onward.writableEnded) return
  incoming.unpipe(onward).resume()
  onward.destroy()
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

/** Framed as it came. Left to itself, Node would send the body of a DELETE without saying where it ends. */
function onwardHeaders(headers: Headers, { headers: { 'transfer-encoding': chunked } }: IncomingMessage) {
  const { host, ...rest } = Object.fromEntries(headers)
  return chunked === undefined ? rest : { ...rest, 'transfer-encoding': 'chunked' }
}

function headOf(onward: ClientRequest, name: DaemonName): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => onward.destroy(new Error('late')), HEAD_MS)
    let connecting: NodeJS.Timeout | undefined
    onward.once('socket', (socket) => {
      if (!socket.connecting) return
      connecting = setTimeout(() => onward.destroy(new Error('late')), CONNECT_MS)
      socket.once('connect', () => clearTimeout(connecting))
    })
    const settle = (): void => {
      clearTimeout(late)
      clearTimeout(connecting)
    }
    onward.once('response', (answer) => {
      settle()
      resolve(answer)
    })
    // Stays: after the head an error has its way through the answer, and here nobody waits for it any more.
    onward.on('error', (error) => {
      settle()
      reject(new Refusal('unavailable', `${name} cannot be reached (${diskCode(error) ?? 'no answer in time'})`))
    })
  })
}

function outgoingOf(c: Context): ServerResponse | undefined {
  const env: unknown = c.env
  if (typeof env !== 'object' || env === null || !('outgoing' in env)) return undefined
  return env.outgoing instanceof ServerResponse ? env.outgoing : undefined
}
