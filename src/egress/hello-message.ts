// What a ClientHello says: the server's name and whether ECH is offered. Strict: what two servers could read in two ways is
// unreadable. Whether the name is a host name, an address or neither is for `parseHost` to say.

export type Hello =
  /** Nothing can be said yet. */
  | { readonly kind: 'more' }
  | { readonly kind: 'not-tls' }
  /** TLS, or made to look like it, but no name may be taken from it. */
  | { readonly kind: 'unreadable'; readonly why: string }
  /** `sni` as sent: letters, digits, `-`, `_` and single dots between them. `ech` is true for GREASE too: nobody can tell them apart. */
  | Named

export interface Named {
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

/** The body of the handshake message, which is `bytes` from `from` to `end`, and all of it. */
export function readMessage(bytes: Uint8Array, from: number, end: number): Hello {
  const at = skipToExtensions(bytes, from, end)
  if (at < 0) return unreadable('its fields do not fit its length')
  if (!isVersion(u16(bytes, from))) return unreadable('its version is not one of TLS')
  // Extensions came with TLS 1.0 as an appendix: a hello may end before them.
  if (at === end) return { kind: 'hello', sni: undefined, ech: false }
  if (at + 2 > end || at + 2 + u16(bytes, at) !== end) return unreadable('its extensions do not fit its length')
  return readExtensions(bytes, at + 2, end)
}

export function unreadable(why: string): Hello {
  return { kind: 'unreadable', why }
}

/** SSL 3.0 to TLS 1.3. Real clients send 0x0301 and 0x0303, and what it says is otherwise ignored. */
export function isVersion(version: number): boolean {
  return version >= 0x0300 && version <= 0x0304
}

/** Where the extensions begin, or -1. */
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

function readExtensions(bytes: Uint8Array, from: number, end: number): Hello {
  let [nameAt, nameEnd, ech] = [-1, -1, false]
  for (let at = from; at < end; ) {
    if (at + 4 > end) return unreadable('an extension is cut off')
    const type = u16(bytes, at)
    const next = at + 4 + u16(bytes, at + 2)
    if (next > end) return unreadable('an extension is longer than what holds it')
    // Of two, one server takes the first and another the last.
    if (type === SERVER_NAME && nameAt >= 0) return unreadable('it has two server name extensions')
    if (type === SERVER_NAME) [nameAt, nameEnd] = [at + 4, next]
    if (type === ENCRYPTED_CLIENT_HELLO) ech = true
    at = next
  }
  return nameAt < 0 ? { kind: 'hello', sni: undefined, ech } : readNames(bytes, nameAt, nameEnd, ech)
}

/** A list in form, of one host name in practice: no client sends more, and servers differ in which they take. */
function readNames(bytes: Uint8Array, at: number, end: number, ech: boolean): Hello {
  if (at + 5 > end || at + 2 + u16(bytes, at) !== end)
    return unreadable('its list of server names does not fit its length')
  if (u8(bytes, at + 2) !== HOST_NAME) return unreadable('its server name is not a host name')
  const from = at + 5
  const length = u16(bytes, at + 3)
  if (from + length < end) return unreadable('it names more than one server')
  if (from + length > end) return unreadable('its server name is longer than what holds it')
  if (length === 0 || length > MAX_NAME_BYTES) return unreadable('its server name is empty or too long')
  if (!isName(bytes, from, end)) return unreadable('its server name has characters or dots that no host name has')
  return { kind: 'hello', sni: String.fromCharCode(...bytes.subarray(from, end)), ech }
}

/** Labels of letters, digits, `-` and `_`, none of them empty: so no trailing dot, no NUL, no port, no brackets. */
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

/** Only ever asked for what is there. */
export function u8(bytes: Uint8Array, at: number): number {
  return bytes[at] ?? 0
}

export function u16(bytes: Uint8Array, at: number): number {
  return (u8(bytes, at) << 8) | u8(bytes, at + 1)
}
