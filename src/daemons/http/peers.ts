// How daemons reach each other: by a call within the process, or through <DAEMON>_URL.
import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Context, Hono } from 'hono'
import { refuse } from '../../lib/refusal.ts'
import type { DaemonName } from '../settings.ts'
import { openForwarder, type UpstreamRequest } from './http-forwarder.ts'
import type { RawHandler } from './raw-request.ts'
import { alreadySentResponse, incomingOf } from './request-middleware.ts'

export type ForwardedRequest = Pick<UpstreamRequest, 'target' | 'headers' | 'headMs'>

export interface Peer {
  /** Whether it runs in this process. */
  readonly isLocal: boolean
  /** Set only for a local peer. */
  readonly rawHandler?: RawHandler | undefined
  /** Sends `request`, which arrived as `c`. */
  fetch(request: Request, c: Context): Response | Promise<Response>
  /** Forwards the Node request to a remote peer; resolves with the status when the response headers are sent. */
  forward?(incoming: IncomingMessage, outgoing: ServerResponse, forwarded: ForwardedRequest): Promise<number>
}

export interface Peers {
  (name: DaemonName): Peer
  /** Whether the daemon runs in this process. */
  isLocal(name: DaemonName): boolean
  /** Of the daemons in other processes. */
  readonly urls: ReadonlyMap<DaemonName, URL>
  /** Forwards to a server that is not a daemon of this instance. */
  forward(upstream: UpstreamRequest, c: Context): Promise<Response>
}

/** A daemon of this process. */
export interface LocalDaemon {
  readonly app: Hono
  readonly rawHandler?: RawHandler | undefined
}

export interface OpenPeers {
  readonly peers: Peers
  close(): void
}

/** `local` is filled while the process starts; `urls` are the settings <DAEMON>_URL. */
export function openPeers(
  local: ReadonlyMap<DaemonName, LocalDaemon>,
  urls: ReadonlyMap<DaemonName, string>,
): OpenPeers {
  const forwarder = openForwarder()
  const forward = async (upstream: UpstreamRequest, c: Context): Promise<Response> => {
    const [incoming, outgoing] = [incomingOf(c), outgoingOf(c)]
    if (!incoming || !outgoing) throw new Error('cannot forward a request without a connection')
    return alreadySentResponse(await forwarder.forward(incoming, outgoing, upstream))
  }
  const remotes = new Map<DaemonName, Peer>()
  const remoteUrls = new Map<DaemonName, URL>()
  for (const [name, text] of urls) {
    const url = mustBeHttp(name, text)
    remoteUrls.set(name, url)
    remotes.set(name, {
      isLocal: false,
      fetch: (request, c) => {
        const { pathname, search } = new URL(request.url)
        const headers = [...request.headers].flat()
        return forward({ name, url, method: request.method, target: `${pathname}${search}`, headers }, c)
      },
      forward: (incoming, outgoing, forwarded) =>
        forwarder.forward(incoming, outgoing, { name, url, method: incoming.method ?? 'GET', ...forwarded }),
    })
  }
  const peers = (name: DaemonName): Peer => {
    const daemon = local.get(name)
    if (daemon)
      return { isLocal: true, rawHandler: daemon.rawHandler, fetch: (request, c) => daemon.app.fetch(request, c.env) }
    const fault = `${name} does not run in this process and ${name.toUpperCase()}_URL is not set`
    return remotes.get(name) ?? refuse('unavailable', fault)
  }
  const isLocal = (name: DaemonName): boolean => local.has(name)
  return { peers: Object.assign(peers, { isLocal, urls: remoteUrls, forward }), close: () => forwarder.close() }
}

function mustBeHttp(name: DaemonName, text: string): URL {
  const url = new URL(text)
  if (url.protocol === 'http:' || url.protocol === 'https:') return url
  return refuse('invalid', `${name.toUpperCase()}_URL must start with http:// or https://`)
}

export function outgoingOf(c: Context): ServerResponse | undefined {
  const env: unknown = c.env
  if (typeof env !== 'object' || env === null || !('outgoing' in env)) return undefined
  return env.outgoing instanceof ServerResponse ? env.outgoing : undefined
}
