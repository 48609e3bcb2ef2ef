// The target of a request, parsed once: every spelling of a path that a browser or a web server in front treats as equal
// becomes the same value. Rows, files, reserved names and backends are given this value only.
import { isUtf8 } from 'node:buffer'

export interface RequestTarget {
  readonly path: RequestPath
  /** With its question mark, or empty. */
  readonly query: string
}

/** Undefined for paths that a backend would read differently: dot segments, empty segments, `\` and incomplete escapes. */
export function parseTarget(url: string): RequestTarget | undefined {
  const end = pathEnd(url)
  const path = RequestPath.parse(end === url.length ? url : url.slice(0, end))
  return path && { path, query: url.slice(end) }
}

/** The path as it was sent, for logs. */
export function rawPath(url: string): string {
  return url.slice(0, pathEnd(url))
}

function pathEnd(url: string): number {
  const mark = url.search(/[?#]/)
  return mark < 0 ? url.length : mark
}

/** Nothing to decode, and no segment that starts with a dot. */
const PLAIN = /^(?:\/[\w~!$&'()*+,;=:@-][\w.~!$&'()*+,;=:@-]*)*\/?$/
/** Characters of a path that need no escape. */
const ALLOWED = /[\w.~!$&'()*+,;=:@/-]/
const PERCENT = 0x25
const UNRESERVED = /[\w.~-]/
const DOT_SEGMENT = /\/\.{1,2}(?:\/|$)/
const SEPARATORS = /%(?:2F|5C|00)/
/** Escapes that `name` shows as text. */
const TEXT = /(?:%(?!2F|5C|00)[0-9A-F]{2})+/g

export class RequestPath {
  /** As it is sent on: unreserved characters without escapes, all other escapes in upper case. */
  readonly text: string
  /** Decoded, but for separators: what rows are compared with. */
  readonly name: string
  /** Whether it contains `%2F`, `%5C` or `%00`. */
  readonly hasSeparators: boolean
  /** Whether its escapes are UTF-8. */
  readonly isUtf8: boolean

  private constructor(text: string, name: string, hasSeparators: boolean, isUtf8: boolean) {
    this.text = text
    this.name = name
    this.hasSeparators = hasSeparators
    this.isUtf8 = isUtf8
  }

  static parse(raw: string): RequestPath | undefined {
    if (raw !== '' && PLAIN.test(raw)) return new RequestPath(raw, raw, false, true)
    if (!raw.startsWith('/') || raw.includes('//') || raw.includes('\\')) return undefined
    const text = normalForm(raw)
    if (text === undefined || DOT_SEGMENT.test(text)) return undefined
    if (!text.includes('%')) return new RequestPath(text, text, false, true)
    const hasSeparators = SEPARATORS.test(text)
    const name = hasSeparators ? undefined : tryDecode(text)
    if (name !== undefined) return new RequestPath(text, name, false, true)
    let isText = true
    const readable = text.replace(TEXT, (run) => {
      const bytes = Buffer.from(run.replaceAll('%', ''), 'hex')
      isText &&= isUtf8(bytes)
      return bytes.toString()
    })
    return new RequestPath(text, readable, hasSeparators, isText)
  }

  /** As a backend sees it that decodes separators and drops `;…`; undefined if it would also resolve or drop segments. */
  simplified(): RequestPath | undefined {
    if (!this.hasSeparators && !this.name.includes(';')) return this
    return RequestPath.parse(this.text.replace(/%(?:2F|5C)/g, '/').replace(/(?:;|%3B)[^/]*/g, ''))
  }

  /** The same path below `prefix`, a plain path without a slash at its end. */
  below(prefix: string): RequestPath {
    return new RequestPath(`${prefix}${this.text}`, `${prefix}${this.name}`, this.hasSeparators, this.isUtf8)
  }

  /** What follows the directory `prefix`, a prefix of `name` with or without a slash at its end. Empty or starts with `/`. */
  after(prefix: string): { readonly text: string; readonly name: string } {
    const bare = prefix.endsWith('/') ? prefix.slice(0, -1) : prefix
    // Both spellings have the same separators.
    let at = -1
    for (let slashes = bare.split('/').length; slashes > 0; slashes--) {
      at = this.text.indexOf('/', at + 1)
      if (at < 0) return { text: '', name: '' }
    }
    return { text: this.text.slice(at), name: this.name.slice(bare.length) }
  }
}

const BYTES = Array.from({ length: 256 }, (_, byte) => byte)
const IS_ALLOWED = BYTES.map((byte) => ALLOWED.test(String.fromCharCode(byte)))
/** By the value of an escape. */
const NORMAL_FORMS = BYTES.map((byte) => {
  const character = String.fromCharCode(byte)
  return UNRESERVED.test(character) ? character : `%${byte.toString(16).padStart(2, '0').toUpperCase()}`
})
/** Values of hexadecimal digits by their character; of all others none. */
const DIGITS = new Map([...'0123456789abcdefABCDEF'].map((digit) => [digit.charCodeAt(0), Number.parseInt(digit, 16)]))
const DIGIT_VALUES = BYTES.map((byte) => DIGITS.get(byte) ?? Number.NaN)

/** Undefined for a `%` without two digits. A loop, because replacing with a regular expression takes several times as long. */
function normalForm(raw: string): string | undefined {
  let normal = ''
  let copied = 0
  for (let at = 0; at < raw.length; at++) {
    // Node reads each byte of a target as one character.
    const byte = raw.charCodeAt(at)
    if (IS_ALLOWED[byte]) continue
    const value = byte === PERCENT ? escapeAt(raw, at) : byte
    const form = NORMAL_FORMS[value]
    if (form === undefined) return undefined
    normal += raw.slice(copied, at) + form
    if (byte === PERCENT) at += 2
    copied = at + 1
  }
  return normal + raw.slice(copied)
}

/** Not a number without two digits. */
function escapeAt(raw: string, at: number): number {
  const [high, low] = [DIGIT_VALUES[raw.charCodeAt(at + 1)], DIGIT_VALUES[raw.charCodeAt(at + 2)]]
  return (high ?? Number.NaN) * 16 + (low ?? Number.NaN)
}

function tryDecode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
