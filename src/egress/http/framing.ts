// Where a message ends. Two ways to tell are one too many: whoever can make two readers disagree about it can hide a
// second request in the body of the first.
import type { Field } from './field.ts'

export type Framing =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly length: number }
  | { readonly kind: 'chunked' }
  /** Only of answers. */
  | { readonly kind: 'until-close' }

export interface BadFraming {
  readonly kind: 'bad'
  readonly status: 400 | 501
  readonly why: string
}

export const NO_BODY: Framing = { kind: 'none' }
export const UNTIL_CLOSE: Framing = { kind: 'until-close' }
const CHUNKED: Framing = { kind: 'chunked' }

/** What the fields say; nothing when they say nothing. */
export function readFraming(fields: readonly Field[], minor: 0 | 1): Framing | BadFraming | undefined {
  let length: string | undefined
  let coding: string | undefined
  for (const { key, value } of fields) {
    if (key === 'content-length') {
      if (length !== undefined) return bad('two fields Content-Length')
      length = value
    } else if (key === 'transfer-encoding') {
      if (coding !== undefined) return bad('two fields Transfer-Encoding')
      coding = value
    }
  }
  if (coding !== undefined) return readCoding(coding, length, minor)
  return length === undefined ? undefined : readLength(length)
}

function readCoding(coding: string, length: string | undefined, minor: 0 | 1): Framing | BadFraming {
  if (length !== undefined) return bad('both Content-Length and Transfer-Encoding')
  if (minor === 0) return bad('Transfer-Encoding in HTTP/1.0')
  const text = coding.toLowerCase()
  if (text === 'chunked') return CHUNKED
  const why = 'a Transfer-Encoding other than chunked'
  return { kind: 'bad', status: /^[a-z]+, chunked$/.test(text) ? 501 : 400, why }
}

function readLength(text: string): Framing | BadFraming {
  const length = /^(?:0|[1-9]\d{0,15})$/.test(text) ? Number(text) : Number.NaN
  return Number.isSafeInteger(length) ? { kind: 'length', length } : bad('a Content-Length that is no number')
}

function bad(why: string): BadFraming {
  return { kind: 'bad', status: 400, why }
}

/** Whether anything follows the head. */
export function hasBody(framing: Framing): boolean {
  return framing.kind === 'length' ? framing.length > 0 : framing.kind !== 'none'
}
