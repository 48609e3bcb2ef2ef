// Where a request wants to go, in each of the ways it can be written. Nothing is repaired: what is not plainly a host and
// a port is nothing.
import { type Host, parseHost } from './host.ts'

export interface HostPort {
  readonly host: Host
  readonly port: number
}

/** What an absolute-form request target asks for. */
export type Absolute =
  /** `path` is the rest, byte for byte, with the query; `/` when there is none. */
  | { readonly kind: 'target'; readonly host: Host; readonly port: number; readonly path: string }
  | { readonly kind: 'https' }
  | { readonly kind: 'scheme'; readonly scheme: string }
  | { readonly kind: 'malformed' }

const HTTP_PORT = 80
const LAST_PORT = 65_535
const MALFORMED: Absolute = { kind: 'malformed' }
const HTTPS: Absolute = { kind: 'https' }

const HASH = 0x23
const SLASH = 0x2f
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const QUESTION = 0x3f
const OPEN = 0x5b
const DELETE = 0x7f

/** The target of a CONNECT: the port must be there. */
export function parseAuthority(text: string): HostPort | undefined {
  const found = parseHostHeader(text)
  return found?.port === undefined ? undefined : { host: found.host, port: found.port }
}

/** The value of a Host header, or what stands between `//` and the path. An empty port is none, as RFC 3986 has it. */
export function parseHostHeader(text: string): { host: Host; port: number | undefined } | undefined {
  const colon = findColon(text)
  if (colon < 0) return undefined
  const hasPort = colon + 1 < text.length
  const port = hasPort ? readPort(text, colon + 1) : undefined
  if (hasPort && port === undefined) return undefined
  const host = parseHost(text.slice(0, colon))
  return host && { host, port }
}

/** `http://host[:port]/path?query`, the form in which a proxy is asked. The path is handed on as it is. */
export function parseAbsolute(target: string): Absolute {
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

/** For a Host header: IPv6 in brackets, and no port where it is the default one. */
export function showAuthority(host: Host, port: number, defaultPort: number): string {
  return port === defaultPort ? bracketed(host.text) : showHostPort(host.text, port)
}

/** `host:port`, with IPv6 in brackets. */
export function showHostPort(host: string, port: number): string {
  return `${bracketed(host)}:${port}`
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

/** Where the colon before the port stands; the end of the text when there is none, -1 when brackets are amiss. */
function findColon(text: string): number {
  if (text.charCodeAt(0) === OPEN) {
    const after = text.indexOf(']') + 1
    return after > 0 && (after === text.length || text.charCodeAt(after) === COLON) ? after : -1
  }
  // The first: of IPv6 without brackets the rest is no port, so nobody has to guess which colon is meant.
  const colon = text.indexOf(':')
  return colon < 0 ? text.length : colon
}

/** 1 to 65535 in plain decimal, from `start` to the end. No sign and no leading zero, and too large never wraps round. */
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

/** In lower case; nothing for what has none, such as `/path` and `host:443`. */
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
 * No blank, control character or fragment. Bytes beyond ASCII pass, as clients send them; a character beyond a byte does
 * not, for its lower half may be a line feed.
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
