// What a plain request asks for. On the forward port the target says it, and the Host field never does; on the transparent
// one the Host field does, for the client knows of no proxy.
import type { AnswerCode } from '../answers.ts'
import type { Host } from '../host.ts'
import { parseAbsolute, parseHostHeader, showAuthority } from '../host-port.ts'
import type { RequestHead } from './head.ts'

export interface Target {
  readonly host: Host
  readonly port: number
  /** What the origin is asked for, byte for byte. */
  readonly path: string
  /** What it reads in the Host field. */
  readonly authority: string
}

export interface BadTarget {
  readonly code: AnswerCode
  readonly why?: string
}

export type TargetOf = (head: RequestHead) => Target | BadTarget

const HTTP_PORT = 80

/** The absolute form alone. */
export function forwardTarget(head: RequestHead): Target | BadTarget {
  const { method, target, host } = head
  const absolute = parseAbsolute(target)
  if (absolute.kind === 'https') return bad('https:// goes through a proxy by CONNECT')
  if (absolute.kind === 'scheme') return bad('only http:// is fetched here')
  if (absolute.kind === 'malformed') return target.includes('://') ? bad('a malformed target') : NOT_FOR_A_PROXY
  const authority = showAuthority(absolute.host, absolute.port, HTTP_PORT)
  // It is not used (RFC 9112, 3.2.2), but one that is no host is a request that somebody else will read another way.
  if (host !== undefined && host !== authority && !parseHostHeader(host)) return bad('a malformed Host field')
  const path = method === 'OPTIONS' && isWithoutPath(target) ? '*' : absolute.path
  return { host: absolute.host, port: absolute.port, path, authority }
}

/** `OPTIONS http://host` is about the server itself (RFC 9112, 3.2.4). */
function isWithoutPath(target: string): boolean {
  return !/[/?]/.test(target.slice('http://'.length))
}

/** The Host field, and the port that the connection was going to. An absolute target must say the same. */
export function transparentTarget(head: RequestHead, port: number = HTTP_PORT): Target | BadTarget {
  const { method, target, host: text } = head
  const named = text === undefined ? undefined : parseHostHeader(text)
  if (!named) return bad(text === undefined ? 'no Host field' : 'a malformed Host field')
  const authority = showAuthority(named.host, named.port ?? port, HTTP_PORT)
  const found = (path: string): Target => ({ host: named.host, port, path, authority })
  if (target.startsWith('/')) return target.includes('#') ? bad('a fragment in the target') : found(target)
  if (target === '*' && method === 'OPTIONS') return found('*')
  const absolute = parseAbsolute(target)
  if (absolute.kind !== 'target') return bad('a target that is no path')
  const isSame = absolute.host.text === named.host.text && absolute.port === (named.port ?? port)
  return isSame ? found(absolute.path) : bad('a target that is not what the Host field says')
}

const NOT_FOR_A_PROXY: BadTarget = { code: 'not-a-proxy-request' }

function bad(why: string): BadTarget {
  return { code: 'bad-request', why }
}
