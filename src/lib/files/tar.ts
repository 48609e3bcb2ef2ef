// Writes and strictly reads tar archives (ustar, with pax records for long and non-ASCII names). Tar libraries accept many
// dialects and entry kinds; a restore must refuse all but ours.
import { refuse } from '../refusal.ts'
import { trimTrailing } from '../text/trimming.ts'

export type TarKind = 'file' | 'directory' | 'link'

export interface TarHead {
  /** Without a trailing slash, also for directories. */
  readonly path: string
  readonly kind: TarKind
  /** 0 for entries other than files. */
  readonly size: number
  readonly mode: number
  /** In seconds. */
  readonly mtime: number
  /** Size of a file with holes, whose content is a list of extents and their data (`sparse-file.ts`). */
  readonly realSize?: number
  /** Target of a link. */
  readonly link?: string
}

export interface TarEntry extends TarHead {
  /** Must be read before the next entry; unread bytes are skipped. */
  readonly body: AsyncIterable<Buffer>
}

const BLOCK = 512
const SIZE_MAX = 0o77777777777
const PAX_MAX = 64 * 1024
const PATH_MAX = 4096
const FLAGS: Readonly<Record<TarKind, string>> = { file: '0', directory: '5', link: '2' }
/** Records of GNU tar for a file with holes. */
const SPARSE = { 'GNU.sparse.major': '1', 'GNU.sparse.minor': '0' } as const
const REAL_SIZE = 'GNU.sparse.realsize'
const KINDS: Readonly<Record<string, TarKind>> = { 0: 'file', 5: 'directory', 2: 'link' }

/** The end of an archive. */
export const TAR_END = Buffer.alloc(2 * BLOCK)

/** The header blocks before an entry's content. */
export function tarHead(head: TarHead): Buffer {
  const path = head.kind === 'directory' ? `${head.path}/` : head.path
  const records = {
    ...(isShort(path) ? {} : { path }),
    ...(head.link === undefined || isShort(head.link) ? {} : { linkpath: head.link }),
    ...(head.size <= SIZE_MAX ? {} : { size: String(head.size) }),
    ...(head.realSize === undefined ? {} : { ...SPARSE, [REAL_SIZE]: String(head.realSize) }),
  }
  const own = block({ ...head, path, size: Math.min(head.size, SIZE_MAX) }, FLAGS[head.kind])
  if (Object.keys(records).length === 0) return own
  const pax = Buffer.from(Object.entries(records).map(paxRecord).join(''))
  const about = { path: 'pax', size: pax.length, mode: 0o644, mtime: 0 }
  return Buffer.concat([block(about, 'x'), pax, tarPadding(pax.length), own])
}

/** The padding after an entry's content. */
export function tarPadding(size: number): Buffer {
  return Buffer.alloc(-(size % BLOCK) & (BLOCK - 1))
}

function isShort(name: string): boolean {
  return name.length <= 100 && /^[\x20-\x7e]*$/.test(name)
}

/** `<length> <key>=<value>\n`, where the length includes its own digits. */
function paxRecord([key, value]: readonly [string, string]): string {
  const rest = Buffer.byteLength(` ${key}=${value}\n`)
  let length = rest + String(rest).length
  if (rest + String(length).length > length) length++
  return `${length} ${key}=${value}\n`
}

function block(
  { path, size, mode, mtime, link = '' }: Pick<TarHead, 'path' | 'size' | 'mode' | 'mtime' | 'link'>,
  flag: string,
): Buffer {
  const head = Buffer.alloc(BLOCK)
  head.write(isShort(path) ? path : 'see-pax', 0, 'latin1')
  head.write(octal(mode, 7), 100, 'latin1')
  head.write(octal(0, 7), 108, 'latin1')
  head.write(octal(0, 7), 116, 'latin1')
  head.write(octal(size, 11), 124, 'latin1')
  head.write(octal(Math.min(Math.max(0, mtime), SIZE_MAX), 11), 136, 'latin1')
  head.write(flag, 156, 'latin1')
  head.write(isShort(link) ? link : 'see-pax', 157, 'latin1')
  head.write('ustar\0' + '00', 257, 'latin1')
  head.write(`${octal(sumOf(head), 6)}\0 `, 148, 'latin1')
  return head
}

/** Counts the checksum field itself as blanks. */
function sumOf(head: Buffer): number {
  return head.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0)
}

function octal(value: number, digits: number): string {
  return Math.floor(value).toString(8).padStart(digits, '0')
}

/** Reads archives that `tarHead` wrote. Refuses other entry kinds, other dialects and paths that lead outside. */
export async function* readTar(source: AsyncIterable<Uint8Array>): AsyncGenerator<TarEntry> {
  const bytes = new ByteReader(source)
  for (;;) {
    let head = await bytes.exactly(BLOCK)
    if (isZero(head)) return mustEnd(bytes)
    let pax: ReadonlyMap<string, string> = new Map()
    if (flagOf(head) === 'x') {
      const size = numberAt(head, 124, 12)
      if (size > PAX_MAX) refuseDamaged('a record is too large')
      pax = paxRecords(await bytes.exactly(size))
      await skipPadding(bytes, size)
      head = await bytes.exactly(BLOCK)
    }
    const entry = headOf(head, pax)
    let left = entry.size
    const body = (async function* () {
      while (left > 0) {
        const chunk = await bytes.some(left)
        left -= chunk.length
        yield chunk
      }
    })()
    yield { ...entry, body }
    while (left > 0) left -= (await bytes.some(left)).length
    await skipPadding(bytes, entry.size)
  }
}

async function mustEnd(bytes: ByteReader): Promise<void> {
  if (!isZero(await bytes.exactly(BLOCK))) refuseDamaged('data follows its end')
  if (!(await bytes.isOver())) refuseDamaged('data follows its end')
}

async function skipPadding(bytes: ByteReader, size: number): Promise<void> {
  if (!isZero(await bytes.exactly(tarPadding(size).length))) refuseDamaged('its padding is not empty')
}

function headOf(head: Buffer, pax: ReadonlyMap<string, string>): TarHead {
  const flag = flagOf(head)
  const kind = KINDS[flag] ?? refuseDamaged(`it has an entry of kind ${JSON.stringify(flag)}`)
  const written = pax.get('path') ?? textAt(head, 0, 100)
  const path = kind === 'directory' ? written.replace(/\/$/, '') : written
  if (kind === 'directory' && !written.endsWith('/')) refuseDamaged('the name of a directory has no slash')
  mustStayInside(path)
  const size = sizeOf(head, pax)
  if (kind !== 'file' && size > 0) refuseDamaged(`${JSON.stringify(path.slice(0, 80))} should be empty`)
  const link = kind === 'link' ? (pax.get('linkpath') ?? textAt(head, 157, 100)) : undefined
  if (link !== undefined && (link === '' || link.length > PATH_MAX || link.includes('\0')))
    refuseDamaged('a symbolic link has no target')
  const [mode, mtime] = [numberAt(head, 100, 8), numberAt(head, 136, 12)]
  if (mode > 0o777) refuseDamaged(`${JSON.stringify(path.slice(0, 80))} has the mode ${mode.toString(8)}`)
  const realSize = realSizeOf(kind, pax)
  return {
    ...{ path, kind, size, mode, mtime },
    ...(realSize === undefined ? {} : { realSize }),
    ...(link === undefined ? {} : { link }),
  }
}

/** Requires a relative path without `.`, `..` or empty segments. */
function mustStayInside(path: string): void {
  const isPlain = path.split('/').every((segment) => segment !== '' && segment !== '.' && segment !== '..')
  if (isPlain && !path.includes('\0') && Buffer.byteLength(path) <= PATH_MAX) return
  refuse('invalid', `the archive contains a forbidden path: ${JSON.stringify(path.slice(0, 80))}`)
}

function flagOf(head: Buffer): string {
  const sum = /^[0-7]{6}\0 $/.exec(head.toString('latin1', 148, 156))
  if (!sum || Number.parseInt(sum[0], 8) !== sumOf(head)) refuseDamaged('a header has a wrong checksum')
  if (head.toString('latin1', 257, 265) !== 'ustar\0' + '00') refuseDamaged('it is another tar dialect')
  return head.toString('latin1', 156, 157)
}

function sizeOf(head: Buffer, pax: ReadonlyMap<string, string>): number {
  const paxSize = pax.get('size')
  return paxSize === undefined ? numberAt(head, 124, 12) : sizeIn(paxSize)
}

function sizeIn(text: string): number {
  const size = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  return Number.isSafeInteger(size) ? size : refuseDamaged('a size is not a number')
}

function realSizeOf(kind: TarKind, pax: ReadonlyMap<string, string>): number | undefined {
  const size = pax.get(REAL_SIZE)
  const marks = Object.entries(SPARSE).filter(([key, value]) => pax.get(key) === value).length
  const isSparse = kind === 'file' && size !== undefined && marks === 2
  if (!isSparse && [REAL_SIZE, ...Object.keys(SPARSE)].some((key) => pax.has(key)))
    refuseDamaged('a file with holes is in another format')
  return isSparse ? sizeIn(size) : undefined
}

function numberAt(head: Buffer, at: number, length: number): number {
  const text = head.toString('latin1', at, at + length)
  return /^[0-7]+\0$/.test(text) ? Number.parseInt(text, 8) : refuseDamaged('a header has a field that is not a number')
}

function textAt(head: Buffer, at: number, length: number): string {
  const text = trimTrailing(head.toString('latin1', at, at + length), '\0')
  return /^[\x20-\x7e]*$/.test(text) ? text : refuseDamaged('a header has a name that is not ASCII')
}

const PAX_KEYS: ReadonlySet<string> = new Set(['path', 'linkpath', 'size', REAL_SIZE, ...Object.keys(SPARSE)])

function paxRecords(bytes: Buffer): Map<string, string> {
  const records = new Map<string, string>()
  for (let at = 0; at < bytes.length; ) {
    const [, digits = '', key = ''] = /^(\d{1,6}) ([A-Za-z.]+)=/.exec(bytes.toString('latin1', at, at + 32)) ?? []
    const [from, end] = [at + digits.length + key.length + 2, at + Number(digits) - 1]
    if (!PAX_KEYS.has(key) || records.has(key) || end < from || bytes[end] !== 0x0a)
      refuseDamaged('a record is malformed')
    records.set(key, utf8(bytes.subarray(from, end)))
    at = end + 1
  }
  return records
}

function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return refuseDamaged('a name is not UTF-8')
  }
}

function isZero(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0)
}

function refuseDamaged(how: string): never {
  return refuse('invalid', `the archive is damaged, or svc backup did not write it: ${how}`)
}

/** Reads exact amounts from chunks of any size. */
class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>
  #rest: Buffer = Buffer.alloc(0)

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  async exactly(count: number): Promise<Buffer> {
    const parts: Buffer[] = []
    for (let left = count; left > 0; ) {
      const part = await this.some(left)
      parts.push(part)
      left -= part.length
    }
    return parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts)
  }

  /** Between 1 and `most` bytes. */
  async some(most: number): Promise<Buffer> {
    if (await this.isOver()) refuse('invalid', 'the archive is cut short')
    const part = this.#rest.subarray(0, most)
    this.#rest = this.#rest.subarray(part.length)
    return part
  }

  async isOver(): Promise<boolean> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#source.next()
      if (done) return true
      this.#rest = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    }
    return false
  }
}
