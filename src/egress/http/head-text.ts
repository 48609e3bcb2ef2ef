// A head as it goes out: what was meant for this connection alone stays behind (RFC 9110, 7.6.1), everything else keeps its
// order, its spelling and its repetitions. Nothing is added but Via, which the standard asks of a proxy.
import { randomBytes } from 'node:crypto'
import type { Field, RequestHead, ResponseHead } from './head.ts'

/** What every proxy of this kind is called in Proxy-Status. */
const PSEUDONYM = 'egress-proxy'
const NAME_LETTERS = 12

/** What one proxy is called in Via. No other has the same name, so that several may be on the way of one request. */
export function makeViaName(): string {
  const letters = Array.from(randomBytes(NAME_LETTERS), (byte) => String.fromCharCode(97 + (byte % 26)))
  return `${PSEUDONYM}-${letters.join('')}`
}

const HOPS: ReadonlySet<string> = new Set([
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

/** How the answer's body goes to the client. */
export type Sent = 'as-is' | 'chunked' | 'until-close'

export interface RequestWay {
  readonly path: string
  /** Goes into Host, whatever the client wrote there. */
  readonly authority: string
  /** No other request will follow. */
  readonly close: boolean
  /** The name of this proxy. */
  readonly via: string
}

export function writeRequestHead(head: RequestHead, { path, authority, close, via }: RequestWay): string {
  let text = `${head.method} ${path} HTTP/1.1\r\n`
  if (head.host === undefined) text += `Host: ${authority}\r\n`
  for (const field of head.fields) {
    const { name, key, value } = field
    if (key === 'host') text += `${name}: ${authority}\r\n`
    else if (key === 'transfer-encoding') text += `${name}: chunked\r\n`
    else if (key === 'max-forwards') text += `${name}: ${forwardsLeft(head.method, value)}\r\n`
    else if (!isDropped(field, head.named) && !(key === 'expect' && head.minor === 0)) text += `${name}: ${value}\r\n`
  }
  return `${text}${hopsOf(head, close)}Via: 1.${head.minor} ${via}\r\n\r\n`
}

/** What we say to the origin on our own behalf. */
function hopsOf(head: RequestHead, close: boolean): string {
  if (head.upgrade !== undefined) return `Connection: upgrade\r\nUpgrade: ${head.upgrade}\r\n`
  const te = head.wantsTrailers && head.named.includes('te')
  if (te) return `Connection: ${close ? 'close, ' : ''}TE\r\nTE: trailers\r\n`
  return close ? 'Connection: close\r\n' : ''
}

function forwardsLeft(method: string, value: string): string {
  return (method === 'TRACE' || method === 'OPTIONS') && /^\d{1,9}$/.test(value) ? `${Number(value) - 1}` : value
}

export interface ResponseWay {
  readonly sent: Sent
  /** The connection to the client ends behind it. */
  readonly close: boolean
  readonly trailers: boolean
  /** The name of this proxy. */
  readonly via: string
}

export function writeResponseHead(head: ResponseHead, { sent, close, trailers, via }: ResponseWay): string {
  const { status, named } = head
  let text = `HTTP/1.1 ${status} ${head.reason}\r\n`
  for (const field of head.fields) {
    const { name, key, value } = field
    if (key === 'transfer-encoding') text += sent === 'chunked' ? `${name}: chunked\r\n` : ''
    else if (key === 'trailer') text += trailers ? `${name}: ${value}\r\n` : ''
    else if (!isDropped(field, named) && !isForged(field) && !isEmptyLength(key, status))
      text += `${name}: ${value}\r\n`
  }
  if (status === 101) return `${text}Connection: upgrade\r\nUpgrade: ${head.upgrade ?? ''}\r\n\r\n`
  if (status < 200) return `${text}\r\n`
  return `${text}${close ? 'Connection: close\r\n' : ''}Via: 1.${head.minor} ${via}\r\n\r\n`
}

function isDropped({ key }: Field, named: readonly string[]): boolean {
  return HOPS.has(key) || (named.length > 0 && named.includes(key))
}

/** What only we may say: a client must be able to tell our refusal from the origin's. */
function isForged({ key, value }: Field): boolean {
  return key === 'x-proxy-error' || (key === 'proxy-status' && value.toLowerCase().includes(PSEUDONYM))
}

/** These answers have no body, and say no length. */
function isEmptyLength(key: string, status: number): boolean {
  return key === 'content-length' && (status < 200 || status === 204)
}

/** Fields behind a chunked body. What tells where a message ends, or for whom it is, has no place there. */
export function writeTrailers(fields: readonly Field[]): string {
  let text = ''
  for (const { name, key, value } of fields) {
    if (!HOPS.has(key) && key !== 'content-length' && key !== 'host') text += `${name}: ${value}\r\n`
  }
  return text
}

/** Whether a request has passed the proxy of this name. */
export function hasPassedHere(fields: readonly Field[], via: string): boolean {
  return fields.some(({ key, value }) => key === 'via' && value.includes(via))
}
