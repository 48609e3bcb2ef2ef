// The archive format of backups: a tar that starts with a header and ends with a manifest of the checksums of all entries and
// the checksum of that manifest. An archive that was read to its end is exactly the one that was written.
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

/** Format 1 has no files with holes. */
const FORMAT = 2
const HEADER = 'svc-backup.json'
const MANIFEST = 'manifest.jsonl'
const SUM = 'manifest.sha256'
const TEXT_MAX = 2 ** 29

const Header = z.object({
  format: z.literal([1, FORMAT]),
  svc: z.string(),
  instance: z.string(),
  created_at: z.string(),
  engine: z.enum(['sqlite', 'postgres']),
  has_keys: z.boolean(),
  /** Secret settings that the backup does not contain. */
  left_out: z.array(z.string()),
  /** Folders whose workspaces were not in this data directory. Archives of earlier versions do not say it. */
  missing_workspaces: z.array(z.string()).default([]),
  steps: z.array(z.tuple([z.string(), z.int()])),
  tables: z.array(z.object({ name: z.string(), columns: z.array(z.string()) })),
  counters: z.record(z.string(), z.int()),
})
export type ArchiveHeader = z.output<typeof Header>

/** An entry to write. */
export interface ArchiveEntry extends TarHead {
  /** Exactly `size` bytes. */
  readonly body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>
}

export function makeArchiveHeader(about: Omit<ArchiveHeader, 'format'>): ArchiveHeader {
  return { format: FORMAT, ...about }
}

export function makeTextEntry(path: string, text: string, mtime: number): ArchiveEntry {
  const bytes = Buffer.from(text)
  return { path, kind: 'file', size: bytes.length, mode: 0o600, mtime, body: [bytes] }
}

export function makeDirectoryEntry(path: string, mtime: number, mode = 0o700): ArchiveEntry {
  return { path, kind: 'directory', size: 0, mode, mtime, body: [] }
}

export async function* packArchive(
  header: ArchiveHeader,
  entries: AsyncIterable<ArchiveEntry>,
): AsyncGenerator<Uint8Array> {
  const mtime = Math.floor(Date.parse(header.created_at) / 1000)
  const manifest: string[] = []
  yield* packEntry(makeTextEntry(HEADER, `${JSON.stringify(header)}\n`, mtime), manifest)
  for await (const entry of entries) yield* packEntry(entry, manifest)
  const text = manifest.join('')
  yield* packEntry(makeTextEntry(MANIFEST, text, mtime), [])
  yield* packEntry(makeTextEntry(SUM, `${sha256(text)}  ${MANIFEST}\n`, mtime), [])
  yield TAR_END
}

async function* packEntry(entry: ArchiveEntry, manifest: string[]): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let left = entry.size
  yield tarHead(entry)
  for await (const chunk of entry.body) {
    hash.update(chunk)
    left -= chunk.length
    yield chunk
  }
  if (left !== 0) throw new Error(`${entry.path} is ${left} bytes shorter than its header says`)
  yield tarPadding(entry.size)
  manifest.push(formatManifestLine(entry, hash))
}

/** Includes all header fields, so that a changed mode or link is detected like a changed byte. */
function formatManifestLine({ path, kind, size, realSize, mode, mtime, link }: TarHead, hash: Hash): string {
  return `${JSON.stringify({ path, kind, size, realSize, mode, mtime, link, sha256: hash.digest('hex') })}\n`
}

/** Yields the header and all entries but manifest and checksum. Refuses a damaged archive at its end at the latest. */
export async function* unpackArchive(source: AsyncIterable<Uint8Array>): AsyncGenerator<TarEntry, void> {
  const [kinds, manifest] = [new Map<string, TarKind>(), [] as string[]]
  let [hasManifest, hasSum] = [false, false]
  for await (const entry of readTar(source)) {
    if (hasSum) refuseDamaged('it continues after its end')
    if (kinds.size === 0 && entry.path !== HEADER) refuse('invalid', 'the file is not a backup of svc')
    checkPath(entry, kinds)
    if (entry.path === SUM) {
      if (!hasManifest || (await readEntryText(entry)) !== `${sha256(manifest.join(''))}  ${MANIFEST}\n`)
        refuseDamaged('the checksum of its manifest does not match')
      hasSum = true
    } else if (hasManifest) refuseDamaged('it continues after its manifest')
    else if (entry.path === MANIFEST) {
      checkManifest(await readEntryText(entry), manifest)
      hasManifest = true
    } else {
      const hash = createHash('sha256')
      const body = hashBody(entry.body, hash)
      yield { ...entry, body }
      // Hash the rest of a body that the caller has not read to its end.
      for await (const _ of body);
      manifest.push(formatManifestLine(entry, hash))
    }
  }
  if (!hasSum) refuse('invalid', 'the archive is cut short')
}

async function* hashBody(body: AsyncIterable<Buffer>, hash: Hash): AsyncGenerator<Buffer> {
  for await (const chunk of body) {
    hash.update(chunk)
    yield chunk
  }
}

/** Each path must be unique and in a directory that came before, so that nothing is written through a link. */
function checkPath({ path, kind }: TarEntry, kinds: Map<string, TarKind>): void {
  const parent = path.slice(0, Math.max(0, path.lastIndexOf('/')))
  if (parent !== '' && kinds.get(parent) !== 'directory')
    refuseDamaged(`the directory of ${JSON.stringify(path.slice(0, 80))} is missing`)
  if (kinds.has(path)) refuseDamaged(`it contains ${JSON.stringify(path.slice(0, 80))} twice`)
  kinds.set(path, kind)
}

function checkManifest(text: string, found: readonly string[]): void {
  if (text === found.join('')) return
  const lines = text.split('\n')
  const at = found.findIndex((line, index) => line !== `${lines[index]}\n`)
  const entry = tryParseJson(found[at] ?? '')
  const path = typeof entry === 'object' && entry !== null && 'path' in entry ? String(entry.path).slice(0, 80) : ''
  refuseDamaged(
    path === '' ? 'its manifest lists other entries' : `the checksum of ${JSON.stringify(path)} does not match`,
  )
}

/** Reads the first entry. */
export async function readHeader(entry: TarEntry): Promise<ArchiveHeader> {
  const found = tryParseJson(await readEntryText(entry))
  const format = typeof found === 'object' && found !== null && 'format' in found ? found.format : undefined
  if (typeof format === 'number' && format > FORMAT)
    refuse('unavailable', 'this backup was written by a newer svc than this one', 'use the newer version')
  const header = Header.safeParse(found)
  return header.success ? header.data : refuseDamaged('its header is not valid')
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

export function refuseDamaged(reason: string): never {
  return refuse('invalid', `the archive is damaged: ${reason}`)
}
