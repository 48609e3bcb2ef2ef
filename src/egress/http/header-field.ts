// Parses header and trailer fields of HTTP/1.1. Everything that two parsers could read differently is rejected: folded lines,
// bare line feeds, whitespace before the colon, control characters.

export interface HeaderField {
  readonly name: string
  /** The name in lower case. */
  readonly key: string
  /** Without surrounding whitespace. Latin-1: one character per byte. */
  readonly value: string
}

/** Thousands of short fields would be an attack on memory. */
const FIELDS_MAX = 1000

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

const TAB = 0x09
const SPACE = 0x20

export const TOO_MANY_FIELDS = 'too many headers'

/** Parses lines that each end in CRLF from `start` to the end of `text`; returns an error message for invalid ones. */
export function parseHeaderFields(text: string, start: number): readonly HeaderField[] | string {
  const fields: HeaderField[] = []
  for (let at = start; at < text.length; ) {
    const end = text.indexOf('\r\n', at)
    if (end < 0) return 'header line does not end in CRLF'
    const colon = text.indexOf(':', at)
    if (colon < 0 || colon > end) return 'header line has no colon'
    const field = readField(text.slice(at, colon), text, colon + 1, end)
    if (typeof field === 'string') return field
    if (fields.push(field) > FIELDS_MAX) return TOO_MANY_FIELDS
    at = end + 2
  }
  return fields
}

function readField(name: string, text: string, start: number, end: number): HeaderField | string {
  if (!TOKEN.test(name)) return 'invalid header name'
  let from = start
  let to = end
  while (from < to && isWhitespace(text.charCodeAt(from))) from++
  while (to > from && isWhitespace(text.charCodeAt(to - 1))) to--
  const value = text.slice(from, to)
  if (!VALUE.test(value)) return `control character in header ${name.slice(0, 64)}`
  const key = name.toLowerCase()
  if (!isFramingField(key)) return { name, key, value }
  // Whitespace around these two has hidden them from some parsers and not from others (request smuggling).
  const isPlain = to === end && (from === start || (from === start + 1 && text.charCodeAt(start) === SPACE))
  return isPlain ? { name, key, value } : `whitespace around the value of ${name}`
}

function isFramingField(key: string): boolean {
  return key === 'content-length' || key === 'transfer-encoding'
}

function isWhitespace(code: number): boolean {
  return code === SPACE || code === TAB
}

/** Each field is compared with all of them, so a long list would waste CPU time. */
export const NAMES_MAX = 64

/** Parses a list such as that of `Connection` to lower case; undefined if a member is not a token or there are too many. */
export function parseTokenList(value: string): readonly string[] | undefined {
  const names: string[] = []
  const members = value.split(',', NAMES_MAX + 1)
  if (members.length > NAMES_MAX) return undefined
  for (const member of members) {
    const name = member.trim().toLowerCase()
    if (name === '') continue
    if (!TOKEN.test(name)) return undefined
    names.push(name)
  }
  return names
}

export function headerValue(fields: readonly HeaderField[], key: string): string | undefined {
  for (const field of fields) if (field.key === key) return field.value
  return undefined
}
