// The entries of a backup: the rows of the store, the settings and the files of agents. Sockets, logs and derived data (the
// search index, synthesized speech) are left out.
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import type { Layout } from '../../core/layout.ts'
import { Directory } from '../../lib/files/directory.ts'
import { readEnvText } from '../../lib/files/env-file.ts'
import { type Extent, findExtents, formatExtents } from '../../lib/files/sparse-file.ts'
import { Refusal } from '../../lib/refusal.ts'
import { type StoreSnapshot, writeRow } from '../../store/backup-rows.ts'
import { type ArchiveEntry, makeDirectoryEntry, makeTextEntry } from './archive.ts'
import { redactSettings } from './settings-redaction.ts'

/** Rows are written in files of about this many characters, because tar needs the size of a file before its content. */
const ROWS_LENGTH = 4 * 1024 * 1024
/** Files up to this size are read before their header is written, so that they may shrink or grow meanwhile. */
const SMALL_BYTES = 1024 * 1024
const CHUNK_BYTES = 256 * 1024
/** Half of what common file systems can restore. Only a file of holes is that large. */
const FILE_MAX_BYTES = 2 ** 43
const DEPTH_MAX = 128
const PATH_MAX = 3500

/** Directories of the data directory that contain files of agents and visitors, and skills of packages. */
const DIRECTORIES = ['groups', 'web', 'chats', 'files', 'outbox', 'skills'] as const
/** Settings files that may contain secrets anywhere, so they are backed up only with --with-keys. */
const FREE_FORM = ['docker-compose.yml', 'services'] as const

export interface BackupStats {
  rows: number
  files: number
  bytes: number
  /** Warnings about parts that the backup lacks. */
  readonly notes: string[]
  onProgress(): void
}

export async function* readStoreEntries(
  snapshot: StoreSnapshot,
  mtime: number,
  stats: BackupStats,
): AsyncGenerator<ArchiveEntry> {
  yield makeDirectoryEntry('store', mtime)
  for (const table of snapshot.tables) {
    yield makeDirectoryEntry(`store/${table.name}`, mtime)
    let [lines, length, count]: [string[], number, number] = [[], 0, 0]
    const flush = (): ArchiveEntry => {
      const name = `store/${table.name}/${String(++count).padStart(8, '0')}.jsonl`
      const entry = makeTextEntry(name, lines.join(''), mtime)
      ;[lines, length] = [[], 0]
      return entry
    }
    for await (const rows of snapshot.rows(table)) {
      for (const row of rows) {
        const line = writeRow(row)
        lines.push(line)
        length += line.length
        if (length >= ROWS_LENGTH) yield flush()
      }
      stats.rows += rows.length
      stats.onProgress()
    }
    if (lines.length > 0) yield flush()
  }
}

interface SettingsEntries {
  readonly entries: readonly ArchiveEntry[]
  readonly leftOut: readonly string[]
}

/** The `.env` files of instance and containers, with or without keys. */
export async function readSettingsEntries({ root }: Layout, hasKeys: boolean, mtime: number): Promise<SettingsEntries> {
  const entries: ArchiveEntry[] = [makeDirectoryEntry('settings', mtime)]
  const leftOut = new Set<string>()
  const add = async (name: string): Promise<void> => {
    const path = join(root, name)
    const text = await readEnvText(path)
    if (text === undefined) return
    const settings = hasKeys ? { text, leftOut: [] } : redactSettings(text, path)
    for (const key of settings.leftOut) leftOut.add(key)
    entries.push(makeTextEntry(`settings/${name}`, settings.text, mtime))
  }
  await add('.env')
  const daemonEnvs = await listEnvFiles(join(root, 'env'))
  if (daemonEnvs.length > 0) entries.push(makeDirectoryEntry('settings/env', mtime))
  for (const name of daemonEnvs) await add(`env/${name}`)
  return { entries, leftOut: [...leftOut] }
}

async function listEnvFiles(path: string): Promise<string[]> {
  await using directory = await Directory.open(path)
  const entries = (await directory?.entries()) ?? []
  return entries.filter((entry) => entry.isFile() && entry.name.endsWith('.env')).map(({ name }) => name)
}

/** The files of agents and visitors, including published ones. */
export async function* readFileEntries(
  { root }: Layout,
  hasKeys: boolean,
  stats: BackupStats,
): AsyncGenerator<ArchiveEntry> {
  yield makeDirectoryEntry('files', 0)
  // The operator may have replaced one of these directories by a link. Links below them are not followed.
  await using top = await Directory.open(root, { follow: true })
  for (const name of DIRECTORIES) {
    await using directory = await Directory.open(join(root, name), { follow: true })
    if (!directory) continue
    yield makeDirectoryEntry(`files/${name}`, 0, (await directory.stat()).mode & 0o777)
    yield* readChildren(directory, `files/${name}`, stats)
  }
  for (const name of FREE_FORM) {
    const kind = await top?.kindOf(name)
    if (!top || kind === undefined) continue
    if (hasKeys) yield* readEntry(top, { name, path: `files/${name}` }, stats)
    else stats.notes.push(`${name} is not in the backup, because it may contain keys: add --with-keys`)
  }
}

async function* readChildren(directory: Directory, path: string, stats: BackupStats): AsyncGenerator<ArchiveEntry> {
  for (const { name } of await directory.entries())
    yield* readEntry(directory, { name, path: `${path}/${name}` }, stats)
}

interface SourceEntry {
  readonly name: string
  /** The path in the archive. */
  readonly path: string
}

/** Skips entries that vanish or change kind meanwhile and notes unreadable ones, so that agents cannot stop a backup. */
async function* readEntry(directory: Directory, source: SourceEntry, stats: BackupStats): AsyncGenerator<ArchiveEntry> {
  const { name, path } = source
  if (name.includes('\ufffd') && (await directory.kindOf(name)) === undefined)
    return void stats.notes.push(`${path} has a name that is not UTF-8 and is not in the backup`)
  if (path.split('/').length > DEPTH_MAX || Buffer.byteLength(path) > PATH_MAX)
    return void stats.notes.push(`${path.slice(0, 200)}… is nested too deeply and is not in the backup`)
  let link: ArchiveEntry | undefined
  try {
    const kind = await directory.kindOf(name)
    if (kind === 'directory') return yield* readDirectory(directory, source, stats)
    if (kind === 'link') link = await readLink(directory, source, stats)
  } catch (error) {
    return addNote(error, stats)
  }
  if (link) yield link
  else yield* readFile(directory, source, stats)
}

function addNote(error: unknown, stats: BackupStats): void {
  if (!(error instanceof Refusal)) throw error
  stats.notes.push(`not in the backup: ${error.message}`)
}

async function* readDirectory(
  parent: Directory,
  { name, path }: SourceEntry,
  stats: BackupStats,
): AsyncGenerator<ArchiveEntry> {
  await using child = await parent.openDirectory(name)
  if (!child) return
  const { mode, mtimeMs } = await child.stat()
  yield makeDirectoryEntry(path, Math.floor(mtimeMs / 1000), mode & 0o777)
  yield* readChildren(child, path, stats)
}

async function readLink(
  directory: Directory,
  { name, path }: SourceEntry,
  stats: BackupStats,
): Promise<ArchiveEntry | undefined> {
  const link = await directory.readLink(name)
  if (link === undefined) return undefined
  // The operator may keep a workspace elsewhere.
  if (/^files\/(groups|web)\/[^/]+$/.test(path))
    stats.notes.push(`${path.slice(6)} is a symbolic link to ${link}: the backup does not contain its target`)
  return { path, kind: 'link', size: 0, mode: 0o777, mtime: 0, link, body: [] }
}

async function* readFile(
  directory: Directory,
  { name, path }: SourceEntry,
  stats: BackupStats,
): AsyncGenerator<ArchiveEntry> {
  await using file = await openFile(directory, name, stats)
  if (!file) return
  const { mode, mtimeMs, size, blocks } = await file.stat()
  if (size > FILE_MAX_BYTES)
    return void stats.notes.push(`${path} is larger than ${FILE_MAX_BYTES} bytes and is not in the backup`)
  const onShrunk = (): void => void stats.notes.push(`${path} shrank while it was read`)
  const small = size <= SMALL_BYTES ? await readUpTo(file, size) : undefined
  // A file without holes takes at least as much space as it is long.
  const extents = small || blocks * 512 >= size ? undefined : findExtents(file.fd, size)
  const list = extents ? formatExtents(extents, size) : Buffer.alloc(0)
  const length = small?.length ?? list.length + (extents?.reduce((sum, extent) => sum + extent.length, 0) ?? size)
  stats.files++
  stats.bytes += length
  stats.onProgress()
  yield {
    path,
    kind: 'file',
    size: length,
    ...(extents ? { realSize: size } : {}),
    mode: mode & 0o777,
    mtime: Math.max(0, Math.floor(mtimeMs / 1000)),
    body: small ? [small] : readBody(file, list, extents ?? [{ offset: 0, length: size }], onShrunk),
  }
}

async function openFile(directory: Directory, name: string, stats: BackupStats): Promise<FileHandle | undefined> {
  try {
    // Sockets, pipes and devices cannot be restored.
    if ((await directory.kindOf(name)) !== 'file') return undefined
    return await directory.openFile(name)
  } catch (error) {
    addNote(error, stats)
    return undefined
  }
}

async function readUpTo(file: FileHandle, size: number): Promise<Buffer> {
  const buffer = Buffer.alloc(size)
  let length = 0
  while (length < buffer.length) {
    const { bytesRead } = await file.read(buffer, length, buffer.length - length, length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  return buffer.subarray(0, length)
}

/** Yields the list and exactly the extents: nothing more of a file that grows, and zeros at the end of one that shrinks. */
async function* readBody(
  file: FileHandle,
  list: Buffer,
  extents: readonly Extent[],
  onShrunk: () => void,
): AsyncGenerator<Buffer> {
  yield list
  let isShrunk = false
  for (const { offset, length } of extents)
    for (let at = 0; at < length; ) {
      const wanted = Math.min(CHUNK_BYTES, length - at)
      const { bytesRead, buffer } = await file.read(Buffer.alloc(wanted), 0, wanted, offset + at)
      if (bytesRead === 0 && !isShrunk) {
        isShrunk = true
        onShrunk()
      }
      const read = bytesRead === 0 ? wanted : bytesRead
      yield buffer.subarray(0, read)
      at += read
    }
}
