// The archive of a backup: a tar whose first entry says what it is, and whose last ones are a manifest with the checksum of every
// entry before it, and the checksum of that manifest. A reader that reaches its end has read just what was written.
import { createHash, type Hash } from 'node:crypto'
import { z } from 'zod'
import {
  readTar,
  TAR_END,
  type TarEntry,
  type TarHead,
  type TarKind,
  tarHead,
  tarPadding,
} from '../../lib/files/tar.ts'
import { refuse } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'

const FORMAT = 1
const HEADER = 'svc-backup.json'
const MANIFEST = 'manifest.jsonl'
const SUM = 'manifest.sha256'
const TEXT_MAX = 2 ** 29

const Header = z.object({
  format: z.literal(FORMAT),
  svc: z.string(),
  instance: z.string(),
  created_at: z.string(),
  engine: z.enum(['sqlite', 'postgres']),
  has_keys: z.boolean(),
  /** Settings with secrets that are not in it. */
  left_out: z.array(z.string()),
  steps: z.array(z.tuple([z.string(), z.int()])),
  tables: z.array(z.object({ name: z.string(), columns: z.array(z.string()) })),
  counters: z.record(z.string(), z.int()),
})
export type ArchiveHeader = z.output<typeof Header>

/** An entry to be written. */
export interface ArchiveEntry extends TarHead {
  /** Just `size` bytes. */
  readonly body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>
}

export function makeArchiveHeader(about: Omit<ArchiveHeader, 'format'>): ArchiveHeader {
  return { format: FORMAT, ...about }
}

export function textEntry(path: string, text: string, mtime: number): ArchiveEntry {
  const bytes = Buffer.from(text)
  return { path, kind: 'file', size: bytes.length, mode: 0o600, mtime, body: [bytes] }
}

export function directoryEntry(path: string, mtime: number, mode = 0o700): ArchiveEntry {
  return { path, kind: 'directory', size: 0, mode, mtime, body: [] }
}

/** The bytes of an archive of these entries. */
export async function* packArchive(
  header: ArchiveHeader,
  parts: AsyncIterable<ArchiveEntry>,
): AsyncGenerator<Uint8Array> {
  const mtime = Math.floor(Date.parse(header.created_at) / 1000)
  const manifest: string[] = []
  yield* packPart(textEntry(HEADER, `${JSON.stringify(header)}\n`, mtime), manifest)
  for await (const part of parts) yield* packPart(part, manifest)
  const text = manifest.join('')
  yield* packPart(textEntry(MANIFEST, text, mtime), [])
  yield* packPart(textEntry(SUM, `${sha256(text)}  ${MANIFEST}\n`, mtime), [])
  yield TAR_END
}

async function* packPart(part: ArchiveEntry, manifest: string[]): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let left = part.size
  yield tarHead(part)
  for await (const chunk of part.body) {
    hash.update(chunk)
    left -= chunk.length
    yield chunk
  }
  if (left !== 0) throw new Error(`${part.path} has ${left} bytes less than its head says`)
  yield tarPadding(part.size)
  manifest.push(manifestLine(part, hash))
}

/** All that the head says, too: a mode or a link that was changed is noticed like a byte of a file. */
function manifestLine({ path, kind, size, mode, mtime, link }: TarHead, hash: Hash): string {
  return `${JSON.stringify({ path, kind, size, mode, mtime, link, sha256: hash.digest('hex') })}\n`
}

/** The entries of an archive, without those that are about the archive itself. Refuses at the latest at its end what is not whole. */
export async function* unpackArchive(source: AsyncIterable<Uint8Array>): AsyncGenerator<TarEntry, void> {
  const [kinds, manifest] = [new Map<string, TarKind>(), [] as string[]]
  let [isListed, isSummed] = [false, false]
  for await (const entry of readTar(source)) {
    if (isSummed) refuseDamaged('it goes on after its end')
    if (kinds.size === 0 && entry.path !== HEADER) refuse('invalid', 'the file is not a backup that svc has written')
    mustFit(entry, kinds)
    if (entry.path === SUM) {
      if (!isListed || (await readEntryText(entry)) !== `${sha256(manifest.join(''))}  ${MANIFEST}\n`)
        refuseDamaged('its manifest has another checksum')
      isSummed = true
    } else if (isListed) refuseDamaged('it goes on after its manifest')
    else if (entry.path === MANIFEST) {
      mustBeListed(await readEntryText(entry), manifest)
      isListed = true
    } else {
      const hash = createHash('sha256')
      const body = hashing(entry.body, hash)
      yield { ...entry, body }
      // A reader need not read what it does not want.
      for await (const _ of body);
      manifest.push(manifestLine(entry, hash))
    }
  }
  if (!isSummed) refuse('invalid', 'the archive is cut short')
}

async function* hashing(body: AsyncIterable<Buffer>, hash: Hash): AsyncGenerator<Buffer> {
  for await (const chunk of body) {
    hash.update(chunk)
    yield chunk
  }
}

/** Each path once, and each in a directory that came before: nothing is ever written through a link. */
function mustFit({ path, kind }: TarEntry, kinds: Map<string, TarKind>): void {
  const parent = path.slice(0, Math.max(0, path.lastIndexOf('/')))
  if (parent !== '' && kinds.get(parent) !== 'directory')
    refuseDamaged(`${JSON.stringify(path.slice(0, 80))} is in no directory of it`)
  if (kinds.has(path)) refuseDamaged(`${JSON.stringify(path.slice(0, 80))} is in it twice`)
  kinds.set(path, kind)
}

function mustBeListed(text: string, found: readonly string[]): void {
  if (text === found.join('')) return
  const lines = text.split('\n')
  const at = found.findIndex((line, index) => line !== `${lines[index]}\n`)
  const entry = tryParseJson(found[at] ?? '')
  const path = typeof entry === 'object' && entry !== null && 'path' in entry ? String(entry.path).slice(0, 80) : ''
  refuseDamaged(path === '' ? 'its manifest names other entries' : `${JSON.stringify(path)} has another checksum`)
}

/** The first entry. */
export async function readHeader(entry: TarEntry): Promise<ArchiveHeader> {
  const found = tryParseJson(await readEntryText(entry))
  const format = typeof found === 'object' && found !== null && 'format' in found ? found.format : undefined
  if (typeof format === 'number' && format > FORMAT)
    refuse('unavailable', 'this backup was written by a newer svc than this one', 'use the newer version')
  const header = Header.safeParse(found)
  return header.success ? header.data : refuseDamaged('its first entry does not say what it is')
}

export async function readEntryText({ path, size, body }: TarEntry): Promise<string> {
  if (size > TEXT_MAX) refuseDamaged(`${JSON.stringify(path.slice(0, 80))} is too large`)
  const chunks: Buffer[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

export function refuseDamaged(how: string): never {
  return refuse('invalid', `the archive is damaged: ${how}`)
}
