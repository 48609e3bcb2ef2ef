// Determines where a message ends. Ambiguous framing is rejected: if two parsers disagree about the end, a second request can
// be smuggled in the body of the first.
import type { HeaderField } from './header-field.ts'

export type HttpMessageFraming =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly length: number }
  | { readonly kind: 'chunked' }
  /** Only in responses. */
  | { readonly kind: 'until-close' }

export interface BadFraming {
  readonly kind: 'bad'
  readonly status: 400 | 501
  readonly why: string
}

export const NO_BODY: HttpMessageFraming = { kind: 'none' }
export const UNTIL_CLOSE: HttpMessageFraming = { kind: 'until-close' }
const CHUNKED: HttpMessageFraming = { kind: 'chunked' }

/** Undefined when no header field determines the framing. */
export function readFraming(fields: readonly HeaderField[], minor: 0 | 1): HttpMessageFraming | BadFraming | undefined {
  let length: string | undefined
  let coding: string | undefined
  for (const { key, value } of fields) {
    if (key === 'content-length') {
      if (length !== undefined) return bad('two Content-Length headers')
      length = value
    } else if (key === 'transfer-encoding') {
      if (coding !== undefined) return bad('two Transfer-Encoding headers')
      coding = value
    }
  }
  if (coding !== undefined) return readCoding(coding, length, minor)
  return length === undefined ? undefined : readLength(length)
}

function readCoding(coding: string, length: string | undefined, minor: 0 | 1): HttpMessageFraming | BadFraming {
  if (length !== undefined) return bad('both Content-Length and Transfer-Encoding')
  if (minor === 0) return bad('Transfer-Encoding in HTTP/1.0')
  const text = coding.toLowerCase()
  if (text === 'chunked') return CHUNKED
  const why = 'unsupported Transfer-Encoding'
  return { kind: 'bad', status: /^[a-z]+, chunked$/.test(text) ? 501 : 400, why }
}

function readLength(text: string): HttpMessageFraming | BadFraming {
  const length = /^(?:0|[1-9]\d{0,15})$/.test(text) ? Number(text) : Number.NaN
  return Number.isSafeInteger(length) ? { kind: 'length', length } : bad('invalid Content-Length')
}

function bad(why: string): BadFraming {
  return { kind: 'bad', status: 400, why }
}

export function hasBody(framing: HttpMessageFraming): boolean {
  return framing.kind === 'length' ? framing.length > 0 : framing.kind !== 'none'
}
