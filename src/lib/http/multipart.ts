// Parses multipart/form-data (RFC 7578) from a buffer in one pass, without copying.
import { refuse } from '../refusal.ts'

export interface FormPart {
  readonly name: string
  /** Whether the user chose a file. A form sends an empty part for an empty file input. */
  readonly isFile: boolean
  readonly content: Uint8Array
  /** Lower-case names; of duplicate headers the last counts. */
  readonly headers: ReadonlyMap<string, string>
}

const PART_HEAD_MAX = 8192
const CRLF = '\r\n'
/** RFC 2046, section 5.1.1. */
const BOUNDARY = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/
/** Browsers write a quote in a name as %22 and do not escape backslashes, so the next quote ends a value. */
const PARAMETER = /;\s*([^\s"=;]+)=(?:"([^"]*)"|([^\s";]*))/g

/** Refuses a body that is not a form or has more than `maxParts` parts. */
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

/** The end of the first delimiter; text before it is ignored. */
function firstPart(body: Buffer, delimiter: string): number {
  if (startsWith(body, 0, delimiter)) return delimiter.length
  return nextDelimiter(body, 0, delimiter) + CRLF.length + delimiter.length
}

function isLast(body: Buffer, at: number): boolean {
  return startsWith(body, at, '--')
}

/** Blanks may follow a delimiter. */
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

/** Header parameters with lower-case names. */
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
