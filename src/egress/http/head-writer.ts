// Writes forwarded heads: hop-by-hop fields are removed (RFC 9110, 7.6.1), all others keep their order, spelling and
// repetitions. Only Via is added.
import { randomBytes } from 'node:crypto'
import type { RequestHead, ResponseHead } from './head.ts'
import type { HeaderField } from './header-field.ts'

/** Name of every egress-proxy in Proxy-Status. */
const PSEUDONYM = 'egress-proxy'
const NAME_LETTERS = 12

/** Unique name of this proxy in Via, so that a request may pass several of them. */
export function makeViaName(): string {
  const letters = Array.from(randomBytes(NAME_LETTERS), (byte) => String.fromCharCode(97 + (byte % 26)))
  return `${PSEUDONYM}-${letters.join('')}`
}

const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Framing of the body sent to the client. */
export type ResponseFraming = 'as-is' | 'chunked' | 'until-close'

export interface RequestHeadOptions {
  readonly path: string
  /** Value of the Host field, whatever the client sent. */
  readonly authority: string
  /** Whether to ask the origin to close the connection afterwards. */
  readonly close: boolean
  readonly via: string
}

export function writeRequestHead(head: RequestHead, { path, authority, close, via }: RequestHeadOptions): string {
  let text = `${head.method} ${path} HTTP/1.1\r\n`
  if (head.host === undefined) text += `Host: ${authority}\r\n`
  for (const field of head.fields) {
    const { name, key, value } = field
    if (key === 'host') text += `${name}: ${authority}\r\n`
    else if (key === 'transfer-encoding') text += `${name}: chunked\r\n`
    else if (key === 'max-forwards') text += `${name}: ${decrementMaxForwards(head.method, value)}\r\n`
    else if (!isDropped(field, head.connectionTokens) && !(key === 'expect' && head.minor === 0))
      text += `${name}: ${value}\r\n`
  }
  return `${text}${hopByHopFields(head, close)}Via: 1.${head.minor} ${via}\r\n\r\n`
}

/** Hop-by-hop fields of the connection to the origin. */
function hopByHopFields(head: RequestHead, close: boolean): string {
  if (head.upgrade !== undefined) return `Connection: upgrade\r\nUpgrade: ${head.upgrade}\r\n`
  const wantsTrailers = head.wantsTrailers && head.connectionTokens.includes('te')
  if (wantsTrailers) return `Connection: ${close ? 'close, ' : ''}TE\r\nTE: trailers\r\n`
  return close ? 'Connection: close\r\n' : ''
}

function decrementMaxForwards(method: string, value: string): string {
  return (method === 'TRACE' || method === 'OPTIONS') && /^\d{1,9}$/.test(value) ? `${Number(value) - 1}` : value
}

export interface ResponseHeadOptions {
  readonly framing: ResponseFraming
  /** The client connection closes after this response. */
  readonly close: boolean
  readonly trailers: boolean
  readonly via: string
}

export function writeResponseHead(head: ResponseHead, { framing, close, trailers, via }: ResponseHeadOptions): string {
  const { status, connectionTokens } = head
  let text = `HTTP/1.1 ${status} ${head.reason}\r\n`
  for (const field of head.fields) {
    const { name, key, value } = field
    if (key === 'transfer-encoding') text += framing === 'chunked' ? `${name}: chunked\r\n` : ''
    else if (key === 'trailer') text += trailers ? `${name}: ${value}\r\n` : ''
    else if (!isDropped(field, connectionTokens) && !isReserved(field) && !isForbiddenLength(key, status))
      text += `${name}: ${value}\r\n`
  }
  if (status === 101) return `${text}Connection: upgrade\r\nUpgrade: ${head.upgrade ?? ''}\r\n\r\n`
  if (status < 200) return `${text}\r\n`
  return `${text}${close ? 'Connection: close\r\n' : ''}Via: 1.${head.minor} ${via}\r\n\r\n`
}

function isDropped({ key }: HeaderField, listed: readonly string[]): boolean {
  return HOP_BY_HOP.has(key) || (listed.length > 0 && listed.includes(key))
}

/** Fields that only the proxy may set: a client must be able to tell its denials from the origin's responses. */
function isReserved({ key, value }: HeaderField): boolean {
  return key === 'x-proxy-error' || (key === 'proxy-status' && value.toLowerCase().includes(PSEUDONYM))
}

/** Content-Length is not allowed in responses without a body. */
function isForbiddenLength(key: string, status: number): boolean {
  return key === 'content-length' && (status < 200 || status === 204)
}

/** Writes trailer fields, except those for framing, routing or hop-by-hop use. */
export function writeTrailers(fields: readonly HeaderField[]): string {
  let text = ''
  for (const { name, key, value } of fields) {
    if (!HOP_BY_HOP.has(key) && key !== 'content-length' && key !== 'host') text += `${name}: ${value}\r\n`
  }
  return text
}

export function hasViaLoop(fields: readonly HeaderField[], via: string): boolean {
  return fields.some(({ key, value }) => key === 'via' && value.includes(via))
}
