// Parses multipart/form-data (RFC 7578) in one pass, as it arrives: parts of any size pass through, only heads are kept.
import { refuse } from '../refusal.ts'

export interface PartHead {
  readonly name: string
  /** As written; undefined for a field, empty for a file input without a file. */
  readonly filename: string | undefined
  /** Lower-case names; of duplicate headers the last counts. */
  readonly headers: ReadonlyMap<string, string>
}

export interface FormPart extends Pick<PartHead, 'name' | 'headers'> {
  /** Whether the user chose a file. A form sends an empty part for an empty file input. */
  readonly isFile: boolean
  readonly content: Uint8Array
}

export type MultipartEvent =
  | { readonly kind: 'part'; readonly head: PartHead }
  /** The next bytes of the part. */
  | { readonly kind: 'data'; readonly bytes: Buffer }
  | { readonly kind: 'end' }

const PART_HEAD_MAX = 8192
const CRLF = '\r\n'
const CR = 0x0d
const NOTHING = Buffer.alloc(0)
/** RFC 2046, section 5.1.1. */
const BOUNDARY = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/
/** Browsers write a quote in a name as %22 and do not escape backslashes, so the next quote ends a value. */
const PARAMETER = /;\s*([^\s"=;]+)=(?:"([^"]*)"|([^\s";]*))/g

export class MultipartReader {
  readonly #delimiter: Buffer
  readonly #maxParts: number
  #state: 'preamble' | 'delimiter' | 'blanks' | 'head' | 'content' | 'over' = 'preamble'
  /** Bytes that are not parsed yet. The first delimiter may lack the line break of the others. */
  #rest: Buffer = Buffer.from(CRLF)
  /** No head ends in the bytes before this one. */
  #searched = 0
  #parts = 0

  constructor(contentType: string, maxParts: number) {
    const boundary = parametersOf(contentType).get('boundary')
    if (boundary === undefined || !BOUNDARY.test(boundary))
      refuse('invalid', 'the Content-Type must name a boundary of 1 to 70 characters')
    this.#delimiter = Buffer.from(`${CRLF}--${boundary}`)
    this.#maxParts = maxParts
  }

  /** Refuses a body that is not a form or has more than `maxParts` parts. */
  *read(chunk: Buffer): Generator<MultipartEvent, void, undefined> {
    if (this.#state === 'over') return
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    while (yield* this.#step());
  }

  /** Call at the end of the body. */
  end(): void {
    if (this.#state !== 'over') notForm()
  }

  /** Returns false if it needs more bytes. */
  *#step(): Generator<MultipartEvent, boolean, undefined> {
    switch (this.#state) {
      case 'preamble':
      case 'content':
        return yield* this.#readContent(this.#state === 'content')
      case 'delimiter':
        return this.#readDelimiter()
      case 'blanks':
        return this.#skipBlanks()
      case 'head':
        return yield* this.#readHead()
      case 'over':
        return false
    }
  }

  *#readContent(isPart: boolean): Generator<MultipartEvent, boolean, undefined> {
    const at = this.#rest.indexOf(this.#delimiter)
    const end = at < 0 ? this.#startOfDelimiter() : at
    if (isPart && end > 0) yield { kind: 'data', bytes: this.#rest.subarray(0, end) }
    this.#drop(at < 0 ? end : end + this.#delimiter.length)
    if (at < 0) return false
    if (isPart) yield { kind: 'end' }
    this.#state = 'delimiter'
    return true
  }

  /** Where a delimiter may begin whose end has not arrived. */
  #startOfDelimiter(): number {
    const at = this.#rest.indexOf(CR, Math.max(0, this.#rest.length - this.#delimiter.length + 1))
    return at < 0 ? this.#rest.length : at
  }

  #readDelimiter(): boolean {
    if (this.#rest.length < 2) return false
    this.#state = this.#startsWith('--') ? 'over' : 'blanks'
    return true
  }

  /** They may follow a delimiter. */
  #skipBlanks(): boolean {
    let at = 0
    while (this.#rest[at] === 0x20 || this.#rest[at] === 0x09) at++
    this.#drop(at)
    if (this.#rest.length < CRLF.length) return false
    if (!this.#startsWith(CRLF)) notForm()
    this.#drop(CRLF.length)
    this.#state = 'head'
    return true
  }

  *#readHead(): Generator<MultipartEvent, boolean, undefined> {
    const end = this.#rest.indexOf(`${CRLF}${CRLF}`, this.#searched)
    if (end > PART_HEAD_MAX || (end < 0 && this.#rest.length > PART_HEAD_MAX + 2 * CRLF.length)) notForm()
    this.#searched = end < 0 ? Math.max(0, this.#rest.length - 2 * CRLF.length + 1) : 0
    if (end < 0) return false
    if (this.#parts++ === this.#maxParts) refuse('invalid', `the body has more than ${this.#maxParts} parts`)
    const head = this.#rest.subarray(0, end)
    if (head.includes(this.#delimiter)) notForm()
    yield { kind: 'part', head: readHead(head.toString()) }
    this.#drop(end + 2 * CRLF.length)
    this.#state = 'content'
    return true
  }

  #drop(bytes: number): void {
    this.#rest = this.#rest.subarray(bytes)
  }

  #startsWith(text: string): boolean {
    return this.#rest.toString('latin1', 0, text.length) === text
  }
}

/** All parts of a body in memory. Refuses what `MultipartReader` refuses. */
export function parseMultipart(bytes: Uint8Array, contentType: string, maxParts: number): FormPart[] {
  const reader = new MultipartReader(contentType, maxParts)
  const parts: { readonly head: PartHead; content: Uint8Array }[] = []
  for (const event of reader.read(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))) {
    const part = parts.at(-1)
    if (event.kind === 'part') parts.push({ head: event.head, content: NOTHING })
    // A part that arrives whole has one piece.
    else if (event.kind === 'data' && part) part.content = event.bytes
  }
  reader.end()
  return parts.map(({ head: { name, filename, headers }, content }) => {
    const isFile = filename !== undefined && (filename !== '' || content.length > 0)
    return { name, headers, isFile, content }
  })
}

function readHead(text: string): PartHead {
  const headers = new Map<string, string>()
  for (const line of text.split(CRLF)) {
    const [, name = '', value = ''] = /^([^\s:]+):[ \t]*(.*)$/s.exec(line) ?? notForm()
    headers.set(name.toLowerCase(), value)
  }
  const disposition = headers.get('content-disposition') ?? ''
  const parameters = parametersOf(disposition)
  const name = parameters.get('name')
  if (!/^form-data\s*(;|$)/i.test(disposition) || name === undefined) return notForm()
  return { name, filename: parameters.get('filename*') ?? parameters.get('filename'), headers }
}

/** Header parameters with lower-case names. */
function parametersOf(header: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const [, name = '', quoted, plain = ''] of header.matchAll(PARAMETER))
    found.set(name.toLowerCase(), quoted ?? plain)
  return found
}

function notForm(): never {
  refuse('invalid', 'the body is not multipart/form-data with the boundary that its Content-Type names')
}
