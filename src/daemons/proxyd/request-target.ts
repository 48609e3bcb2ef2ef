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
/** An escape, a `%` without digits, or a character that a URL must escape. */
const ESCAPED = /%(?:[0-9a-f]{2})?|[^\w.~!$&'()*+,;=:@/-]/gi
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
    const text = raw.replace(ESCAPED, normalForm)
    if (text.includes(INCOMPLETE) || DOT_SEGMENT.test(text)) return undefined
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

/** Stands for a `%` without two digits; no normal form contains it. */
const INCOMPLETE = ' '
/** A cache by spelling. */
const NORMAL_FORMS = new Map<string, string>([['%', INCOMPLETE]])

function normalForm(part: string): string {
  const known = NORMAL_FORMS.get(part)
  if (known !== undefined) return known
  // Node reads each byte of a target as one character.
  const code = part.length === 3 ? Number.parseInt(part.slice(1), 16) : part.charCodeAt(0)
  const character = String.fromCharCode(code)
  const escaped = `%${code.toString(16).toUpperCase().padStart(2, '0')}`
  const normal = part.length === 3 && UNRESERVED.test(character) ? character : escaped
  // At most four spellings of 256 bytes, and 256 characters.
  if (code < 256) NORMAL_FORMS.set(part, normal)
  return normal
}

function tryDecode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
