// Files with holes in archives: only the parts with data are stored, after a list of them, as GNU tar does in its pax format
// 1.0. Agents can make a file of a terabyte that takes no space, and reading its zeros would take hours.
import { endianness } from 'node:os'
import { loadFfi } from '../ffi.ts'
import { lazy } from '../lazy.ts'
import { refuse } from '../refusal.ts'

/** A part of a file with data. */
export interface Extent {
  readonly offset: number
  readonly length: number
}

/** Smaller holes are stored as zeros, which bounds the number of extents. */
const HOLE_MIN_BYTES = 1024 * 1024
/** The last byte of a list of extents belongs to a block of this size. */
const BLOCK = 512
const EXTENTS_MAX = 2 ** 22
const [SEEK_DATA, SEEK_HOLE, ENXIO] = [3, 4, 6]

/** Returns the new position, or the negative error code. */
type Seek = (fd: number, offset: number, whence: number) => number

const openSeek = lazy((): Seek | undefined => {
  if (process.platform !== 'linux' || endianness() !== 'LE') return undefined
  const ffi = loadFfi()
  if (!ffi) return undefined
  try {
    const { functions } = ffi.dlopen(null, {
      lseek: { arguments: ['int32', 'int64', 'int32'], return: 'int64' },
      __errno_location: { arguments: [], return: 'pointer' },
    })
    const errno = new Int32Array(ffi.toArrayBuffer(functions.__errno_location(), 4, false))
    return (fd, offset, whence) => {
      const position = Number(functions.lseek(fd, BigInt(offset), whence))
      return position < 0 ? -(errno[0] ?? 0) : position
    }
  } catch {
    return undefined
  }
})

/** Undefined if the file has no large hole, or if the system cannot tell. */
export function findExtents(fd: number, size: number): Extent[] | undefined {
  const seek = openSeek()
  if (!seek) return undefined
  const extents: { offset: number; length: number }[] = []
  let stored = 0
  for (let at = 0; at < size; ) {
    const data = seek(fd, at, SEEK_DATA)
    if (data === -ENXIO) break
    const hole = data < 0 ? data : seek(fd, data, SEEK_HOLE)
    // ENXIO: the file shrank meanwhile.
    if (hole < 0 && hole !== -ENXIO) return undefined
    const end = Math.min(size, Math.max(hole, data + 1))
    const last = extents.at(-1)
    const lastEnd = last ? last.offset + last.length : 0
    // A hole at the start is stored too if it is small.
    const offset = data - lastEnd < HOLE_MIN_BYTES ? lastEnd : Math.min(data, size)
    if (last && offset === lastEnd) last.length = end - last.offset
    else extents.push({ offset, length: end - offset })
    stored += end - offset
    at = end
  }
  return size - stored < HOLE_MIN_BYTES ? undefined : extents
}

/** The list of extents, which is stored before their data. */
export function formatExtents(extents: readonly Extent[], size: number): Buffer {
  const last = extents.at(-1)
  // GNU tar ends the list with an empty extent if the file ends with a hole.
  const isOpen = (last ? last.offset + last.length : 0) < size
  const all = isOpen ? [...extents, { offset: size, length: 0 }] : extents
  const text = [all.length, ...all.flatMap(({ offset, length }) => [offset, length])].join('\n')
  return Buffer.from(`${text}\n`.padEnd(Math.ceil((text.length + 1) / BLOCK) * BLOCK, '\0'))
}

export interface SparsePart {
  readonly offset: number
  readonly bytes: Buffer
}

/** Reads what `formatExtents` and the data after it say about a file of `realSize` bytes. Refuses anything else. */
export async function* readSparse(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  realSize: number,
): AsyncGenerator<SparsePart> {
  const list = new ExtentList(realSize)
  let extents: Extent[] | undefined
  let [at, from] = [0, 0]
  for await (const chunk of body) {
    let bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    if (!extents) {
      bytes = list.take(bytes)
      extents = list.extents
    }
    while (extents && bytes.length > 0) {
      const extent: Extent = extents[at] ?? refuseList()
      const part = bytes.subarray(0, extent.length - from)
      if (part.length > 0) yield { offset: extent.offset + from, bytes: part }
      bytes = bytes.subarray(part.length)
      from += part.length
      if (from < extent.length) continue
      at++
      from = 0
    }
  }
  if (!extents || from > 0 || extents.slice(at).some(({ length }) => length > 0)) refuseList()
}

/** Reads the numbers at the start of a sparse file and the padding after them. */
class ExtentList {
  readonly #realSize: number
  readonly #numbers: number[] = []
  #digits = ''
  #length = 0
  extents: Extent[] | undefined

  constructor(realSize: number) {
    this.#realSize = realSize
  }

  /** Returns the rest after the list. */
  take(bytes: Buffer): Buffer {
    let at = 0
    for (; at < bytes.length && !(this.#isFull && this.#length % BLOCK === 0); at++, this.#length++) {
      const byte = bytes[at] ?? 0
      if (this.#isFull ? byte !== 0 : !this.#isDigit(byte)) refuseList()
    }
    if (this.#isFull && this.#length % BLOCK === 0) this.extents = this.#parse()
    return bytes.subarray(at)
  }

  get #isFull(): boolean {
    const [count] = this.#numbers
    return count !== undefined && this.#numbers.length === 1 + 2 * count
  }

  #isDigit(byte: number): boolean {
    if (byte === 0x0a) {
      if (this.#digits === '') return false
      const value = Number(this.#digits)
      if (this.#numbers.length === 0 && value > EXTENTS_MAX) return false
      this.#numbers.push(value)
      this.#digits = ''
      return true
    }
    this.#digits += String.fromCharCode(byte)
    return byte >= 0x30 && byte <= 0x39 && this.#digits.length < 16
  }

  /** In order, without overlap, within the file. */
  #parse(): Extent[] {
    const extents: Extent[] = []
    let end = 0
    for (let at = 1; at < this.#numbers.length; at += 2) {
      const [offset = 0, length = 0] = this.#numbers.slice(at, at + 2)
      if (offset < end || offset + length > this.#realSize) refuseList()
      end = offset + length
      extents.push({ offset, length })
    }
    return extents
  }
}

function refuseList(): never {
  return refuse('invalid', 'the archive is damaged: the list of the parts of a file with holes is not valid')
}
