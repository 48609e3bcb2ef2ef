// Parses the destination of a request from a CONNECT target, a Host header or an absolute-form target. Repairs nothing:
// anything but a valid host and port is rejected.
import { type CanonicalHost, parseHost } from './host.ts'

export interface HostPort {
  readonly host: CanonicalHost
  readonly port: number
}

/** The result of parsing an absolute-form request target. */
export type AbsoluteTarget =
  /** `path` is the rest including the query, unchanged; `/` if empty. */
  | { readonly kind: 'target'; readonly host: CanonicalHost; readonly port: number; readonly path: string }
  | { readonly kind: 'https' }
  | { readonly kind: 'scheme'; readonly scheme: string }
  | { readonly kind: 'malformed' }

const HTTP_PORT = 80
const LAST_PORT = 65_535
const MALFORMED: AbsoluteTarget = { kind: 'malformed' }
const HTTPS: AbsoluteTarget = { kind: 'https' }

const HASH = 0x23
const SLASH = 0x2f
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const QUESTION = 0x3f
const OPEN = 0x5b
const DELETE = 0x7f

/** The target of a CONNECT, which must have a port. */
export function parseAuthority(text: string): HostPort | undefined {
  const found = parseHostHeader(text)
  return found?.port === undefined ? undefined : { host: found.host, port: found.port }
}

/** A Host header, or the part between `//` and the path. An empty port counts as none (RFC 3986). */
export function parseHostHeader(text: string): { host: CanonicalHost; port: number | undefined } | undefined {
  const colon = findColon(text)
  if (colon < 0) return undefined
  const hasPort = colon + 1 < text.length
  const port = hasPort ? readPort(text, colon + 1) : undefined
  if (hasPort && port === undefined) return undefined
  const host = parseHost(text.slice(0, colon))
  return host && { host, port }
}

/** `http://host[:port]/path?query`, the form that proxies receive. The path is forwarded unchanged. */
export function parseAbsoluteTarget(target: string): AbsoluteTarget {
  const scheme = target.startsWith('http://') ? 'http' : readScheme(target)
  if (scheme === 'https') return HTTPS
  if (scheme !== 'http') return scheme === undefined ? MALFORMED : { kind: 'scheme', scheme }
  const start = 'http://'.length
  const slash = findPath(target, start)
  const authority = parseHostHeader(target.slice(start, slash))
  if (!authority || !isSendable(target, slash)) return MALFORMED
  const { host, port = HTTP_PORT } = authority
  return { kind: 'target', host, port, path: showPath(target, slash) }
}

/** The value of a Host header: IPv6 in brackets, without the default port. */
export function showAuthority(host: CanonicalHost, port: number, defaultPort: number): string {
  return port === defaultPort ? bracketed(host.text) : showHostPort(host.text, port)
}

/** `host:port`, with IPv6 in brackets. */
export function showHostPort(host: string, port: number): string {
  return `${bracketed(host)}:${port}`
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

/** The position of the colon before the port; the end of the text if there is none, -1 for malformed brackets. */
function findColon(text: string): number {
  if (text.charCodeAt(0) === OPEN) {
    const after = text.indexOf(']') + 1
    return after > 0 && (after === text.length || text.charCodeAt(after) === COLON) ? after : -1
  }
  // The first colon: unbracketed IPv6 leaves an invalid port and is rejected without guessing.
  const colon = text.indexOf(':')
  return colon < 0 ? text.length : colon
}

/** 1 to 65535 in plain decimal, from `start` to the end: no sign, no leading zero, no overflow. */
function readPort(text: string, start: number): number | undefined {
  const digits = text.length - start
  if (digits < 1 || digits > 5 || text.charCodeAt(start) === ZERO) return undefined
  let port = 0
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < ZERO || code > NINE) return undefined
    port = port * 10 + code - ZERO
  }
  return port <= LAST_PORT ? port : undefined
}

/** In lower case; undefined for targets without a scheme, such as `/path` and `host:443`. */
function readScheme(target: string): string | undefined {
  return /^([a-z][a-z0-9+.-]*):\/\//i.exec(target)?.[1]?.toLowerCase()
}

function findPath(target: string, start: number): number {
  for (let at = start; at < target.length; at++) {
    const code = target.charCodeAt(at)
    if (code === SLASH || code === QUESTION) return at
  }
  return target.length
}

/**
 * Rejects blanks, control characters and fragments. Bytes beyond ASCII pass, as clients send them; characters beyond a byte
 * do not, since their lower byte may be a line feed.
 */
function isSendable(target: string, start: number): boolean {
  for (let at = start; at < target.length; at++) {
    const code = target.charCodeAt(at)
    if (code <= 0x20 || code === HASH || code === DELETE || code > 0xff) return false
  }
  return true
}

function showPath(target: string, start: number): string {
  const path = target.slice(start)
  return path.charCodeAt(0) === SLASH ? path : `/${path}`
}
