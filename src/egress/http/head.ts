// The head of a request, and of an answer: read whole, or not at all.
import { type Field, findField, NAMES_MAX, readFields, readNames, TOO_MANY_FIELDS } from './field.ts'
import { type Framing, hasBody, NO_BODY, readFraming, UNTIL_CLOSE } from './framing.ts'

export type { Field } from './field.ts'
export type { Framing } from './framing.ts'

export interface BadHead {
  readonly kind: 'bad'
  readonly status: 400 | 414 | 431 | 501 | 505
  readonly why: string
}

export type HeadResult<H> =
  | { readonly kind: 'more' }
  | BadHead
  /** `end` is where the head ends and the rest begins. */
  | { readonly kind: 'head'; readonly head: H; readonly end: number }

export interface RequestHead {
  readonly method: string
  readonly target: string
  readonly minor: 0 | 1
  readonly fields: readonly Field[]
  /** What `Connection` names: it is meant for us and goes no further. */
  readonly named: readonly string[]
  readonly framing: Framing
  readonly host: string | undefined
  readonly keepAlive: boolean
  /** The protocols that the client would rather speak; nothing unless it has said so properly. */
  readonly upgrade: string | undefined
  readonly expectsContinue: boolean
  /** It asks for something that no proxy knows. */
  readonly expectsMore: boolean
  readonly wantsTrailers: boolean
}

export interface ResponseHead {
  readonly status: number
  readonly reason: string
  readonly minor: 0 | 1
  readonly fields: readonly Field[]
  readonly named: readonly string[]
  readonly framing: Framing
  readonly keepAlive: boolean
  readonly upgrade: string | undefined
}

/** The most that a head may be (decision X7). */
export const HEAD_MAX = 65_536

const END = Buffer.from('\r\n\r\n')
/** Empty lines before a request: some clients send one after a body, and a few send more. */
const EMPTY_LINES_MAX = 16
const CR = 0x0d
const LF = 0x0a
const MORE = { kind: 'more' } as const

const REQUEST_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([\x21-\x7e\x80-\xff]+) HTTP\/1\.([01])$/
const OTHER_VERSION = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [\x21-\x7e\x80-\xff]+ HTTP\/(?!1\.[01])\d\.\d$/
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/

/** `bytes` from the first of a request; the first `seen` of them were not enough the last time. A few empty lines before it are skipped. */
export function readRequestHead(bytes: Buffer, seen = 0): HeadResult<RequestHead> {
  let start = 0
  while (start <= 2 * EMPTY_LINES_MAX && bytes[start] === CR && bytes[start + 1] === LF) start += 2
  if (start > 2 * EMPTY_LINES_MAX) return bad('too many empty lines before the request')
  const whole = findHead(bytes, start, seen, (line) => checkRequestLine(line))
  if (whole.kind !== 'text') return whole
  const line = whole.text.slice(0, whole.text.indexOf('\r\n'))
  const [, method, target, minor] = REQUEST_LINE.exec(line) ?? []
  if (method === undefined || target === undefined) return checkRequestLine(line) ?? bad('no request line')
  const head = requestOf(method, target, minor === '0' ? 0 : 1, whole.text)
  return 'kind' in head ? head : { kind: 'head', head, end: whole.end }
}

/** `method` is that of the request: it decides whether there is a body. Every fault is the origin's. */
export function readResponseHead(bytes: Buffer, method: string, seen = 0): HeadResult<ResponseHead> {
  const whole = findResponseHead(bytes, seen)
  if (whole.kind !== 'text') return whole
  const [, minor, status, reason = ''] = STATUS_LINE.exec(whole.text.slice(0, whole.text.indexOf('\r\n'))) ?? []
  if (status === undefined) return bad('no status line')
  const head = responseOf(Number(status), reason, minor === '0' ? 0 : 1, method, whole.text)
  return 'kind' in head ? head : { kind: 'head', head, end: whole.end }
}

/**
 * Unlike a request's, the lines of an answer may end in LF alone and fields may be folded: old servers write both, a client is
 * sent neither, and only the client asked for is at stake (RFC 9112, 2.2 and 5.2).
 */
function findResponseHead(bytes: Buffer, seen: number): Whole | BadHead | typeof MORE {
  const from = Math.max(0, seen - 2)
  const strict = bytes.indexOf('\n\r\n', from, 'latin1')
  const bare = (strict < 0 ? bytes : bytes.subarray(0, strict + 1)).indexOf('\n\n', from, 'latin1')
  const [last, end] = bare < 0 ? [strict, strict + 3] : [bare, bare + 2]
  if (last >= 0 && end <= HEAD_MAX) return { kind: 'text', text: tidied(bytes.toString('latin1', 0, last + 1)), end }
  const lineEnd = bytes.indexOf(LF)
  if (last >= 0 || bytes.length >= HEAD_MAX) return tooLarge(lineEnd)
  if (lineEnd < 0) return couldBegin(bytes, 0) ? MORE : bad('no HTTP')
  // The line is looked at once, when it is there.
  if (lineEnd < seen || STATUS_LINE.test(bytes.toString('latin1', 0, lineEnd).replace(/\r$/, ''))) return MORE
  return bad('no status line')
}

const UNTIDY = /[^\r]\n|\n[ \t]/

/** Each line ends in CRLF, and each field is one line. A fold after the status line belongs to no field and stays. */
function tidied(text: string): string {
  if (!UNTIDY.test(text)) return text
  const lines = text.replace(/\r?\n/g, '\r\n')
  const start = lines.indexOf('\r\n') + 2
  return lines.slice(0, start) + lines.slice(start).replace(/\r\n[ \t]+/g, ' ')
}

type Whole = { readonly kind: 'text'; readonly text: string; readonly end: number }

/** The lines of the head with their ends, without the empty one. What cannot become a head is refused before it is whole. */
function findHead(
  bytes: Buffer,
  start: number,
  seen: number,
  check: (line: string) => BadHead | undefined,
): Whole | BadHead | typeof MORE {
  const at = bytes.indexOf(END, Math.max(start, seen - 3))
  if (at >= 0 && at + END.length <= HEAD_MAX)
    return { kind: 'text', text: bytes.toString('latin1', start, at + 2), end: at + END.length }
  const lineEnd = bytes.indexOf('\r\n', start, 'latin1')
  if (at >= 0 || bytes.length >= HEAD_MAX) return tooLarge(lineEnd)
  // The line is looked at once, when it is there.
  const fault = lineEnd >= 0 && lineEnd + 2 > seen ? check(bytes.toString('latin1', start, lineEnd)) : undefined
  if (fault) return fault
  if (lineEnd < 0 && !couldBegin(bytes, start)) return bad('no HTTP')
  return hasLoneLineFeed(bytes, Math.max(start, seen)) ? bad('a line feed without a carriage return') : MORE
}

function tooLarge(lineEnd: number): BadHead {
  if (lineEnd < 0 || lineEnd >= HEAD_MAX) return { kind: 'bad', status: 414, why: 'the first line is too long' }
  return { kind: 'bad', status: 431, why: 'the head is too large' }
}

/** TLS and the like are told at once that this is not the place. */
function couldBegin(bytes: Buffer, start: number): boolean {
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
  if (OTHER_VERSION.test(line)) return { kind: 'bad', status: 505, why: 'a version other than HTTP/1.1' }
  return bad('no request line')
}

function requestOf(method: string, target: string, minor: 0 | 1, text: string): RequestHead | BadHead {
  const fields = readFields(text, text.indexOf('\r\n') + 2)
  if (typeof fields === 'string') return badFields(fields)
  const framing = readFraming(fields, minor) ?? NO_BODY
  if (framing.kind === 'bad') return framing
  const named = readConnection(fields)
  if (!named) return bad('a Connection field that is no list of names')
  const nominated = named.find((name) => NEVER_NAMED.has(name))
  if (nominated !== undefined) return bad(`a Connection field that names ${nominated}`)
  // A CONNECT says in its target all that Host would; not every client says it twice.
  const host = readHost(fields, minor === 1 && method !== 'CONNECT')
  if (typeof host === 'object') return host
  return {
    method,
    target,
    minor,
    fields,
    named,
    framing,
    host,
    keepAlive: minor === 1 && !isClosing(fields, named),
    upgrade: minor === 1 && !hasBody(framing) ? readUpgrade(fields, named) : undefined,
    ...readExpect(minor === 1 ? fields : []),
    wantsTrailers: minor === 1 && /(?:^|,)[ \t]*trailers[ \t]*(?:,|$)/i.test(findField(fields, 'te') ?? ''),
  }
}

/** Taking these away would change where the message ends, or to whom it goes. */
const NEVER_NAMED: ReadonlySet<string> = new Set(['host', 'content-length', 'transfer-encoding'])

function responseOf(
  status: number,
  reason: string,
  minor: 0 | 1,
  method: string,
  text: string,
): ResponseHead | BadHead {
  const fields = readFields(text, text.indexOf('\r\n') + 2)
  if (typeof fields === 'string') return badFields(fields)
  const said = readFraming(fields, minor) ?? UNTIL_CLOSE
  if (said.kind === 'bad') return said
  // What names framing is not obeyed, and what is no list names nothing.
  const named = (readConnection(fields) ?? ['close']).filter((name) => !NEVER_NAMED.has(name))
  const isBodiless = method === 'HEAD' || status < 200 || status === 204 || status === 304
  return {
    status,
    reason,
    minor,
    fields,
    named,
    framing: isBodiless ? NO_BODY : said,
    keepAlive: minor === 1 && !named.includes('close'),
    upgrade: readUpgrade(fields, named),
  }
}

const NO_NAMES: readonly string[] = []

function readConnection(fields: readonly Field[]): readonly string[] | undefined {
  let all = NO_NAMES
  for (const { key, value } of fields) {
    if (key !== 'connection') continue
    const names = readNames(value)
    if (!names || all.length + names.length > NAMES_MAX) return undefined
    all = all.length === 0 ? names : [...all, ...names]
  }
  return all
}

/** Old clients say it in a field of their own. */
function isClosing(fields: readonly Field[], named: readonly string[]): boolean {
  return named.includes('close') || findField(fields, 'proxy-connection')?.toLowerCase() === 'close'
}

function readHost(fields: readonly Field[], mustBeThere: boolean): string | undefined | BadHead {
  let host: string | undefined
  for (const { key, value } of fields) {
    if (key !== 'host') continue
    if (host !== undefined) return bad('two Host fields')
    host = value
  }
  return host === undefined && mustBeThere ? bad('no Host field') : host
}

function readUpgrade(fields: readonly Field[], named: readonly string[]): string | undefined {
  if (!named.includes('upgrade')) return undefined
  const all = fields.filter(({ key }) => key === 'upgrade').map(({ value }) => value)
  return all.length > 0 ? all.join(', ') : undefined
}

/** HTTP/1.0 has no expectations. */
function readExpect(fields: readonly Field[]): Pick<RequestHead, 'expectsContinue' | 'expectsMore'> {
  const all = fields.filter(({ key }) => key === 'expect')
  const expectsMore = all.some(({ value }) => value.toLowerCase() !== '100-continue')
  return { expectsContinue: all.length > 0 && !expectsMore, expectsMore }
}

function badFields(why: string): BadHead {
  return why === TOO_MANY_FIELDS ? { kind: 'bad', status: 431, why } : bad(why)
}

function bad(why: string): BadHead {
  return { kind: 'bad', status: 400, why }
}
