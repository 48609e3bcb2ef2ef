// Parses the ClientHello message: server name and whether ECH is offered. Strict: what two servers could read differently is
// unreadable. `parseHost` decides whether the name is a host name.

export type ClientHelloResult =
  /** Incomplete. */
  | { readonly kind: 'more' }
  | { readonly kind: 'not-tls' }
  /** TLS or similar to it, but the server name cannot be trusted. */
  | { readonly kind: 'unreadable'; readonly why: string }
  /** `sni` as sent: labels of letters, digits, `-` and `_`. `ech` is also true for GREASE, which looks the same. */
  | ClientHelloNames

export interface ClientHelloNames {
  readonly kind: 'hello'
  readonly sni: string | undefined
  readonly ech: boolean
}

const SERVER_NAME = 0
const ENCRYPTED_CLIENT_HELLO = 0xfe0d
const HOST_NAME = 0
const MAX_NAME_BYTES = 253
const RANDOM_BYTES = 32
const MAX_SESSION_BYTES = 32

/** `bytes` from `from` to `end` are the body of the handshake message. */
export function readClientHello(bytes: Uint8Array, from: number, end: number): ClientHelloResult {
  const at = skipToExtensions(bytes, from, end)
  if (at < 0) return unreadable('its fields do not fit its length')
  if (!isVersion(u16(bytes, from))) return unreadable('its version is not one of TLS')
  // Extensions are optional before TLS 1.3.
  if (at === end) return { kind: 'hello', sni: undefined, ech: false }
  if (at + 2 > end || at + 2 + u16(bytes, at) !== end) return unreadable('its extensions do not fit its length')
  return readExtensions(bytes, at + 2, end)
}

export function unreadable(why: string): ClientHelloResult {
  return { kind: 'unreadable', why }
}

/** SSL 3.0 to TLS 1.3. */
export function isVersion(version: number): boolean {
  return version >= 0x0300 && version <= 0x0304
}

/** Returns the offset of the extensions or -1. */
function skipToExtensions(bytes: Uint8Array, from: number, end: number): number {
  let at = from + 2 + RANDOM_BYTES
  if (at >= end || u8(bytes, at) > MAX_SESSION_BYTES) return -1
  at += 1 + u8(bytes, at)
  if (at + 2 > end) return -1
  const suiteBytes = u16(bytes, at)
  if (suiteBytes === 0 || suiteBytes % 2 !== 0) return -1
  at += 2 + suiteBytes
  if (at >= end || u8(bytes, at) === 0) return -1
  at += 1 + u8(bytes, at)
  return at > end ? -1 : at
}

function readExtensions(bytes: Uint8Array, from: number, end: number): ClientHelloResult {
  let [nameAt, nameEnd, ech] = [-1, -1, false]
  for (let at = from; at < end; ) {
    if (at + 4 > end) return unreadable('an extension is cut off')
    const type = u16(bytes, at)
    const next = at + 4 + u16(bytes, at + 2)
    if (next > end) return unreadable('an extension is longer than the list of extensions')
    // Some servers take the first of two, others the last.
    if (type === SERVER_NAME && nameAt >= 0) return unreadable('it has two server name extensions')
    if (type === SERVER_NAME) [nameAt, nameEnd] = [at + 4, next]
    if (type === ENCRYPTED_CLIENT_HELLO) ech = true
    at = next
  }
  return nameAt < 0 ? { kind: 'hello', sni: undefined, ech } : readNames(bytes, nameAt, nameEnd, ech)
}

/** The list may hold one host name only: clients send no more, and servers differ in which one they take. */
function readNames(bytes: Uint8Array, at: number, end: number, ech: boolean): ClientHelloResult {
  if (at + 5 > end || at + 2 + u16(bytes, at) !== end)
    return unreadable('its list of server names does not fit its length')
  if (u8(bytes, at + 2) !== HOST_NAME) return unreadable('its server name is not a host name')
  const from = at + 5
  const length = u16(bytes, at + 3)
  if (from + length < end) return unreadable('it names more than one server')
  if (from + length > end) return unreadable('its server name is longer than the list of names')
  if (length === 0 || length > MAX_NAME_BYTES) return unreadable('its server name is empty or too long')
  if (!isName(bytes, from, end)) return unreadable('its server name has characters or dots that no host name has')
  return { kind: 'hello', sni: String.fromCharCode(...bytes.subarray(from, end)), ech }
}

/** Rejects empty labels, so also a trailing dot. */
function isName(bytes: Uint8Array, from: number, end: number): boolean {
  let before = DOT
  for (let at = from; at < end; at++) {
    const byte = u8(bytes, at)
    if (byte === DOT ? before === DOT : IN_LABEL[byte] !== 1) return false
    before = byte
  }
  return before !== DOT
}

const DOT = 0x2e
const IN_LABEL = Uint8Array.from({ length: 256 }, (_, byte) =>
  /[A-Za-z0-9_-]/.test(String.fromCharCode(byte)) ? 1 : 0,
)

export function u8(bytes: Uint8Array, at: number): number {
  return bytes[at] ?? 0
}

export function u16(bytes: Uint8Array, at: number): number {
  return (u8(bytes, at) << 8) | u8(bytes, at + 1)
}
