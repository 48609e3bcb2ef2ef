// Parses the heads of requests and responses. Anything that two parsers could read differently is rejected.

import { type HttpMessageFraming, hasBody, NO_BODY, readFraming, UNTIL_CLOSE } from './framing.ts'
import {
  type HeaderField,
  headerValue,
  NAMES_MAX,
  parseHeaderFields,
  parseTokenList,
  TOO_MANY_FIELDS,
} from './header-field.ts'

export interface BadHead {
  readonly kind: 'bad'
  readonly status: 400 | 414 | 431 | 501 | 505
  readonly why: string
}

export type HeadResult<H> =
  | { readonly kind: 'more' }
  | BadHead
  /** `end` is the offset after the head. */
  | { readonly kind: 'head'; readonly head: H; readonly end: number }

export interface RequestHead {
  readonly method: string
  readonly target: string
  readonly minor: 0 | 1
  readonly fields: readonly HeaderField[]
  /** Field names listed in `Connection`; they are not forwarded. */
  readonly connectionTokens: readonly string[]
  readonly framing: HttpMessageFraming
  readonly host: string | undefined
  readonly keepAlive: boolean
  /** Protocols offered in Upgrade; undefined unless Connection lists it. */
  readonly upgrade: string | undefined
  readonly expectsContinue: boolean
  /** Has an Expect other than 100-continue. */
  readonly hasUnknownExpect: boolean
  readonly wantsTrailers: boolean
}

export interface ResponseHead {
  readonly status: number
  readonly reason: string
  readonly minor: 0 | 1
  readonly fields: readonly HeaderField[]
  readonly connectionTokens: readonly string[]
  readonly framing: HttpMessageFraming
  readonly keepAlive: boolean
  readonly upgrade: string | undefined
}

/** See docs/decisions.md#proxy-limits. */
export const HEAD_MAX = 65_536

const END = Buffer.from('\r\n\r\n')
/** Empty lines allowed before a request: some clients send one or more after a body. */
const EMPTY_LINES_MAX = 16
const CR = 0x0d
const LF = 0x0a
const MORE = { kind: 'more' } as const

const REQUEST_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([\x21-\x7e\x80-\xff]+) HTTP\/1\.([01])$/
const OTHER_VERSION = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [\x21-\x7e\x80-\xff]+ HTTP\/(?!1\.[01])\d\.\d$/
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/

/** The first `seen` bytes were already found to be an incomplete head. Skips a few empty lines before the request. */
export function readRequestHead(bytes: Buffer, seen = 0): HeadResult<RequestHead> {
  let start = 0
  while (start <= 2 * EMPTY_LINES_MAX && bytes[start] === CR && bytes[start + 1] === LF) start += 2
  if (start > 2 * EMPTY_LINES_MAX) return bad('too many empty lines before the request')
  const found = findHead(bytes, start, seen, (line) => checkRequestLine(line))
  if (found.kind !== 'text') return found
  const line = found.text.slice(0, found.text.indexOf('\r\n'))
  const [, method, target, minor] = REQUEST_LINE.exec(line) ?? []
  if (method === undefined || target === undefined) return checkRequestLine(line) ?? bad('invalid request line')
  const head = parseRequest(method, target, minor === '0' ? 0 : 1, found.text)
  return 'kind' in head ? head : { kind: 'head', head, end: found.end }
}

/** `method` of the request decides whether the response has a body. */
export function readResponseHead(bytes: Buffer, method: string, seen = 0): HeadResult<ResponseHead> {
  const found = findResponseHead(bytes, seen)
  if (found.kind !== 'text') return found
  const [, minor, status, reason = ''] = STATUS_LINE.exec(found.text.slice(0, found.text.indexOf('\r\n'))) ?? []
  if (status === undefined) return bad('invalid status line')
  const head = parseResponse(Number(status), reason, minor === '0' ? 0 : 1, method, found.text)
  return 'kind' in head ? head : { kind: 'head', head, end: found.end }
}

/**
 * Unlike in requests, lines may end in LF alone and fields may be folded, because old servers send both. They are normalised
 * before they are forwarded (RFC 9112, 2.2 and 5.2).
 */
function findResponseHead(bytes: Buffer, seen: number): HeadText | BadHead | typeof MORE {
  const from = Math.max(0, seen - 2)
  const crlfEnd = bytes.indexOf('\n\r\n', from, 'latin1')
  const lfEnd = (crlfEnd < 0 ? bytes : bytes.subarray(0, crlfEnd + 1)).indexOf('\n\n', from, 'latin1')
  const [last, end] = lfEnd < 0 ? [crlfEnd, crlfEnd + 3] : [lfEnd, lfEnd + 2]
  if (last >= 0 && end <= HEAD_MAX)
    return { kind: 'text', text: normalizeLines(bytes.toString('latin1', 0, last + 1)), end }
  const lineEnd = bytes.indexOf(LF)
  if (last >= 0 || bytes.length >= HEAD_MAX) return tooLarge(lineEnd)
  if (lineEnd < 0) return canBeHttp(bytes, 0) ? MORE : bad('not HTTP')
  // Check the status line only once.
  if (lineEnd < seen || STATUS_LINE.test(bytes.toString('latin1', 0, lineEnd).replace(/\r$/, ''))) return MORE
  return bad('invalid status line')
}

const NOT_NORMALIZED = /[^\r]\n|\n[ \t]/

/** Normalises line ends to CRLF and unfolds fields. A fold after the status line belongs to no field and stays. */
function normalizeLines(text: string): string {
  if (!NOT_NORMALIZED.test(text)) return text
  const lines = text.replace(/\r?\n/g, '\r\n')
  const start = lines.indexOf('\r\n') + 2
  return lines.slice(0, start) + lines.slice(start).replace(/\r\n[ \t]+/g, ' ')
}

type HeadText = { readonly kind: 'text'; readonly text: string; readonly end: number }

/** Finds the lines of the head, without the empty one. Rejects an invalid start before the head is complete. */
function findHead(
  bytes: Buffer,
  start: number,
  seen: number,
  check: (line: string) => BadHead | undefined,
): HeadText | BadHead | typeof MORE {
  const at = bytes.indexOf(END, Math.max(start, seen - 3))
  if (at >= 0 && at + END.length <= HEAD_MAX)
    return { kind: 'text', text: bytes.toString('latin1', start, at + 2), end: at + END.length }
  const lineEnd = bytes.indexOf('\r\n', start, 'latin1')
  if (at >= 0 || bytes.length >= HEAD_MAX) return tooLarge(lineEnd)
  // Check the request line only once.
  const fault = lineEnd >= 0 && lineEnd + 2 > seen ? check(bytes.toString('latin1', start, lineEnd)) : undefined
  if (fault) return fault
  if (lineEnd < 0 && !canBeHttp(bytes, start)) return bad('not HTTP')
  return hasLoneLineFeed(bytes, Math.max(start, seen)) ? bad('line feed without carriage return') : MORE
}

function tooLarge(lineEnd: number): BadHead {
  if (lineEnd < 0 || lineEnd >= HEAD_MAX) return { kind: 'bad', status: 414, why: 'the first line is too long' }
  return { kind: 'bad', status: 431, why: 'the head is too large' }
}

/** Rejects TLS and other binary protocols at the first byte. */
function canBeHttp(bytes: Buffer, start: number): boolean {
  const first = bytes[start]
  return first === undefined || (first > 0x20 && first < 0x7f) || (first === CR && bytes.length === start + 1)
}

function hasLoneLineFeed(bytes: Buffer, from: number): boolean {
  for (let at = bytes.indexOf(LF, from); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at - 1] !== CR) return true
  }
  return false
}

function checkRequestLine(line: string): BadHead | undefined {
  if (REQUEST_LINE.test(line)) return undefined
  if (OTHER_VERSION.test(line)) return { kind: 'bad', status: 505, why: 'unsupported HTTP version' }
  return bad('invalid request line')
}

function parseRequest(method: string, target: string, minor: 0 | 1, text: string): RequestHead | BadHead {
  const fields = parseHeaderFields(text, text.indexOf('\r\n') + 2)
  if (typeof fields === 'string') return badFields(fields)
  const framing = readFraming(fields, minor) ?? NO_BODY
  if (framing.kind === 'bad') return framing
  const listed = readConnection(fields)
  if (!listed) return bad('invalid Connection header')
  const nominated = listed.find((name) => NEVER_LISTED.has(name))
  if (nominated !== undefined) return bad(`Connection header must not list ${nominated}`)
  // The target of CONNECT repeats Host, and some clients omit it.
  const host = readHost(fields, minor === 1 && method !== 'CONNECT')
  if (typeof host === 'object') return host
  return {
    method,
    target,
    minor,
    fields,
    connectionTokens: listed,
    framing,
    host,
    keepAlive: minor === 1 && !isClosing(fields, listed),
    upgrade: minor === 1 && !hasBody(framing) ? readUpgrade(fields, listed) : undefined,
    ...readExpect(minor === 1 ? fields : []),
    wantsTrailers: minor === 1 && /(?:^|,)[ \t]*trailers[ \t]*(?:,|$)/i.test(headerValue(fields, 'te') ?? ''),
  }
}

/** Removing these would change the framing or the destination. */
const NEVER_LISTED: ReadonlySet<string> = new Set(['host', 'content-length', 'transfer-encoding'])

function parseResponse(
  status: number,
  reason: string,
  minor: 0 | 1,
  method: string,
  text: string,
): ResponseHead | BadHead {
  const fields = parseHeaderFields(text, text.indexOf('\r\n') + 2)
  if (typeof fields === 'string') return badFields(fields)
  const framing = readFraming(fields, minor) ?? UNTIL_CLOSE
  if (framing.kind === 'bad') return framing
  // Ignore listed framing fields; a malformed list counts as close.
  const listed = (readConnection(fields) ?? ['close']).filter((name) => !NEVER_LISTED.has(name))
  const isBodiless = method === 'HEAD' || status < 200 || status === 204 || status === 304
  return {
    status,
    reason,
    minor,
    fields,
    connectionTokens: listed,
    framing: isBodiless ? NO_BODY : framing,
    keepAlive: minor === 1 && !listed.includes('close'),
    upgrade: readUpgrade(fields, listed),
  }
}

const NO_NAMES: readonly string[] = []

function readConnection(fields: readonly HeaderField[]): readonly string[] | undefined {
  let all = NO_NAMES
  for (const { key, value } of fields) {
    if (key !== 'connection') continue
    const names = parseTokenList(value)
    if (!names || all.length + names.length > NAMES_MAX) return undefined
    all = all.length === 0 ? names : [...all, ...names]
  }
  return all
}

/** Old clients use Proxy-Connection instead. */
function isClosing(fields: readonly HeaderField[], listed: readonly string[]): boolean {
  return listed.includes('close') || headerValue(fields, 'proxy-connection')?.toLowerCase() === 'close'
}

function readHost(fields: readonly HeaderField[], isRequired: boolean): string | undefined | BadHead {
  let host: string | undefined
  for (const { key, value } of fields) {
    if (key !== 'host') continue
    if (host !== undefined) return bad('two Host headers')
    host = value
  }
  return host === undefined && isRequired ? bad('missing Host header') : host
}

function readUpgrade(fields: readonly HeaderField[], listed: readonly string[]): string | undefined {
  if (!listed.includes('upgrade')) return undefined
  const all = fields.filter(({ key }) => key === 'upgrade').map(({ value }) => value)
  return all.length > 0 ? all.join(', ') : undefined
}

function readExpect(fields: readonly HeaderField[]): Pick<RequestHead, 'expectsContinue' | 'hasUnknownExpect'> {
  const all = fields.filter(({ key }) => key === 'expect')
  const hasUnknownExpect = all.some(({ value }) => value.toLowerCase() !== '100-continue')
  return { expectsContinue: all.length > 0 && !hasUnknownExpect, hasUnknownExpect }
}

function badFields(why: string): BadHead {
  return why === TOO_MANY_FIELDS ? { kind: 'bad', status: 431, why } : bad(why)
}

function bad(why: string): BadHead {
  return { kind: 'bad', status: 400, why }
}
