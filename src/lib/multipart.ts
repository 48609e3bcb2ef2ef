// multipart/form-data (RFC 7578), read from a body that is in memory: one pass, and nothing is copied.
import { refuse } from './refusal.ts'

export interface FormPart {
  readonly name: string
  /** Whether it is a file that was chosen; a form sends an empty part for a file input that was left empty. */
  readonly isFile: boolean
  readonly content: Uint8Array
  /** Names in lower case; of a header that is written twice the last counts. */
  readonly headers: ReadonlyMap<string, string>
}

const PART_HEAD_MAX = 8192
const CRLF = '\r\n'
/** RFC 2046, section 5.1.1. */
const BOUNDARY = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/
/** Browsers write a quote in a name as %22 and leave a backslash as it is, so that the next quote ends a value. */
const PARAMETER = /;\s*([^\s"=;]+)=(?:"([^"]*)"|([^\s";]*))/g

/** The parts of a form; refused where the body is none, or has more than `maxParts`. */
export function parseMultipart(bytes: Uint8Array, contentType: string, maxParts: number): FormPart[] {
  const boundary = parametersOf(contentType).get('boundary')
  if (boundary === undefined || !BOUNDARY.test(boundary))
    refuse('invalid', 'the Content-Type must name a boundary of 1 to 70 characters')
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const delimiter = `--${boundary}`
  const parts: FormPart[] = []
  for (let at = firstPart(body, delimiter); !isLast(body, at); ) {
    if (parts.length === maxParts) refuse('invalid', `the body has more than ${maxParts} parts`)
    const start = endOfLine(body, at)
    const end = nextDelimiter(body, start, delimiter)
    parts.push(readPart(body.subarray(start, end)))
    at = end + CRLF.length + delimiter.length
  }
  return parts
}

/** Where the text behind the first delimiter begins; what stands before it says nothing. */
function firstPart(body: Buffer, delimiter: string): number {
  if (startsWith(body, 0, delimiter)) return delimiter.length
  return nextDelimiter(body, 0, delimiter) + CRLF.length + delimiter.length
}

function isLast(body: Buffer, at: number): boolean {
  return startsWith(body, at, '--')
}

/** Behind a delimiter there may be blanks. */
function endOfLine(body: Buffer, from: number): number {
  let at = from
  while (body[at] === 0x20 || body[at] === 0x09) at++
  return startsWith(body, at, CRLF) ? at + CRLF.length : notForm()
}

function nextDelimiter(body: Buffer, from: number, delimiter: string): number {
  const at = body.indexOf(`${CRLF}${delimiter}`, from)
  return at < 0 ? notForm() : at
}

function readPart(part: Buffer): FormPart {
  const end = part.indexOf(`${CRLF}${CRLF}`)
  if (end < 0 || end > PART_HEAD_MAX) return notForm()
  const headers = new Map<string, string>()
  for (const line of part.toString('utf8', 0, end).split(CRLF)) {
    const [, name = '', value = ''] = /^([^\s:]+):[ \t]*(.*)$/s.exec(line) ?? notForm()
    headers.set(name.toLowerCase(), value)
  }
  const disposition = headers.get('content-disposition') ?? ''
  const parameters = parametersOf(disposition)
  const name = parameters.get('name')
  if (!/^form-data\s*(;|$)/i.test(disposition) || name === undefined) return notForm()
  const content = part.subarray(end + 2 * CRLF.length)
  const file = parameters.get('filename*') ?? parameters.get('filename')
  return { name, isFile: file !== undefined && (file !== '' || content.length > 0), content, headers }
}

/** The parameters of a header; their names in lower case. */
function parametersOf(header: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const [, name = '', quoted, plain = ''] of header.matchAll(PARAMETER))
    found.set(name.toLowerCase(), quoted ?? plain)
  return found
}

function startsWith(body: Buffer, at: number, text: string): boolean {
  return body.toString('latin1', at, at + text.length) === text
}

function notForm(): never {
  refuse('invalid', 'the body is not multipart/form-data with the boundary that its Content-Type names')
}
