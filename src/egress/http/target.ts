// Determines the origin of a plain request: from the request target on the forward port, from the Host field on the
// transparent port, whose clients do not know of the proxy.

import type { CanonicalHost } from '../address/host.ts'
import { parseAbsoluteTarget, parseHostHeader, showAuthority } from '../address/host-port.ts'
import type { ProxyErrorCode } from '../connection/error-responses.ts'
import type { RequestHead } from './head.ts'

export interface OriginTarget {
  readonly host: CanonicalHost
  readonly port: number
  readonly path: string
  /** Value of the Host field sent to the origin. */
  readonly authority: string
}

export interface BadTarget {
  readonly code: ProxyErrorCode
  readonly why?: string
}

export type TargetReader = (head: RequestHead) => OriginTarget | BadTarget

const HTTP_PORT = 80

/** Accepts the absolute form only. */
export function forwardTarget(head: RequestHead): OriginTarget | BadTarget {
  const { method, target, host } = head
  const absolute = parseAbsoluteTarget(target)
  if (absolute.kind === 'https') return bad('use CONNECT for https://')
  if (absolute.kind === 'scheme') return bad('only http:// is supported')
  if (absolute.kind === 'malformed') return target.includes('://') ? bad('invalid request target') : NOT_A_PROXY_REQUEST
  const authority = showAuthority(absolute.host, absolute.port, HTTP_PORT)
  // Host is not used (RFC 9112, 3.2.2), but another server could read a malformed one differently.
  if (host !== undefined && host !== authority && !parseHostHeader(host)) return bad('invalid Host header')
  const path = method === 'OPTIONS' && hasNoPath(target) ? '*' : absolute.path
  return { host: absolute.host, port: absolute.port, path, authority }
}

/** `OPTIONS http://host` is about the server as a whole (RFC 9112, 3.2.4). */
function hasNoPath(target: string): boolean {
  return !/[/?]/.test(target.slice('http://'.length))
}

/** Takes the host from the Host field and the port from the connection. An absolute target must match. */
export function transparentTarget(head: RequestHead, port: number = HTTP_PORT): OriginTarget | BadTarget {
  const { method, target, host: text } = head
  const hostHeader = text === undefined ? undefined : parseHostHeader(text)
  if (!hostHeader) return bad(text === undefined ? 'missing Host header' : 'invalid Host header')
  const authority = showAuthority(hostHeader.host, hostHeader.port ?? port, HTTP_PORT)
  const targetWith = (path: string): OriginTarget => ({ host: hostHeader.host, port, path, authority })
  if (target.startsWith('/')) return target.includes('#') ? bad('request target has a fragment') : targetWith(target)
  if (target === '*' && method === 'OPTIONS') return targetWith('*')
  const absolute = parseAbsoluteTarget(target)
  if (absolute.kind !== 'target') return bad('request target is not a path')
  const isSame = absolute.host.text === hostHeader.host.text && absolute.port === (hostHeader.port ?? port)
  return isSame ? targetWith(absolute.path) : bad('request target does not match the Host header')
}

const NOT_A_PROXY_REQUEST: BadTarget = { code: 'not-a-proxy-request' }

function bad(why: string): BadTarget {
  return { code: 'bad-request', why }
}
