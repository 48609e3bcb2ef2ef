// How one daemon reaches another: in this process by a call, in another one through its <DAEMON>_URL.
import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Context } from 'hono'
import { refuse } from '../lib/refusal.ts'
import type { OpenDaemon } from './daemon.ts'
import type { Direct } from './direct.ts'
import { type Onward, openForwarder } from './onward.ts'
import { alreadySent, incomingOf } from './request.ts'
import type { DaemonName } from './settings.ts'

/** A request on the bare Node objects, and what the front door says of it. */
export type Passing = Pick<Onward, 'target' | 'headers'>

export interface Peer {
  /** Whether it runs in this process. */
  readonly isHere: boolean
  /** What it answers before its routes, where it runs in this process. */
  readonly direct?: Direct | undefined
  /** The answer of the other daemon to `request`, which came as `c`. */
  pass(request: Request, c: Context): Response | Promise<Response>
  /** The same where it runs in another process, and nobody made a Request; the status, when the head is passed on. */
  forward?(incoming: IncomingMessage, outgoing: ServerResponse, passing: Passing): Promise<number>
}

export interface Peers {
  (name: DaemonName): Peer
  /** To a server that is no daemon of ours. */
  forward(onward: Onward, c: Context): Promise<Response>
}

export interface OpenPeers {
  readonly peers: Peers
  close(): void
}

/** `here` is filled while the process starts; `urls` is what <DAEMON>_URL says. */
export function openPeers(
  here: ReadonlyMap<DaemonName, Pick<OpenDaemon, 'app' | 'direct'>>,
  urls: ReadonlyMap<DaemonName, string>,
): OpenPeers {
  const forwarder = openForwarder()
  const forward = async (onward: Onward, c: Context): Promise<Response> => {
    const [incoming, outgoing] = [incomingOf(c), outgoingOf(c)]
    if (!incoming || !outgoing) throw new Error('a request without a connection cannot be passed on')
    return alreadySent(await forwarder.forward(incoming, outgoing, onward))
  }
  const remotes = new Map<DaemonName, Peer>()
  for (const [name, text] of urls) {
    const url = mustBeHttp(name, text)
    remotes.set(name, {
      isHere: false,
      pass: (request, c) => {
        const { pathname, search } = new URL(request.url)
        const headers = [...request.headers].flat()
        return forward({ name, url, method: request.method, target: `${pathname}${search}`, headers }, c)
      },
      forward: (incoming, outgoing, passing) =>
        forwarder.forward(incoming, outgoing, { name, url, method: incoming.method ?? 'GET', ...passing }),
    })
  }
  const peers = (name: DaemonName): Peer => {
    const local = here.get(name)
    if (local) return { isHere: true, direct: local.direct, pass: (request, c) => local.app.fetch(request, c.env) }
    return remotes.get(name) ?? refuseAbsent(name)
  }
  return { peers: Object.assign(peers, { forward }), close: () => forwarder.close() }
}

function mustBeHttp(name: DaemonName, text: string): URL {
  const url = new URL(text)
  if (url.protocol === 'http:' || url.protocol === 'https:') return url
  return refuse('invalid', `${name.toUpperCase()}_URL must start with http:// or https://`)
}

function refuseAbsent(name: DaemonName): never {
  refuse('unavailable', `${name} does not run here, and ${name.toUpperCase()}_URL does not say where it does`)
}

function outgoingOf(c: Context): ServerResponse | undefined {
  const env: unknown = c.env
  if (typeof env !== 'object' || env === null || !('outgoing' in env)) return undefined
  return env.outgoing instanceof ServerResponse ? env.outgoing : undefined
}
