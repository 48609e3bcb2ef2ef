// What a backup of an instance consists of: the rows of its store, its settings, and the files of agents. Sockets, logs and all
// that can be made anew (the search index, spoken texts) are not in it.
import type { Stats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import type { Layout } from '../../core/layout.ts'
import { readText } from '../../lib/files/atomic-file.ts'
import { Directory } from '../../lib/files/directory.ts'
import { Refusal } from '../../lib/refusal.ts'
import { type StoreSnapshot, writeRow } from '../../store/backup-rows.ts'
import { ENV_MAX_BYTES } from '../instance/instance.ts'
import { type ArchiveEntry, directoryEntry, textEntry } from './archive.ts'
import { redactSettings } from './settings-redaction.ts'

/** Rows come in files of about so many characters, because tar must know the size of a file before its first byte. */
const ROWS_LENGTH = 4 * 1024 * 1024
/** Files up to this size are read before their head is written, so that they may shrink or grow meanwhile. */
const SMALL_BYTES = 1024 * 1024
const CHUNK_BYTES = 256 * 1024
const DEPTH_MAX = 128
const PATH_MAX = 3500

/** Directories of files, with their names below the data directory. */
const PLACES = ['groups', 'web', 'chats', 'outbox'] as const
/** Settings files of which it is not known what is secret in them: they are kept only together with the keys. */
const FREE_FORM = ['docker-compose.yml', 'services'] as const

/** What is counted and noted while the parts are made. */
export interface BackupStats {
  rows: number
  files: number
  bytes: number
  /** What is not in the backup as the operator would expect. */
  readonly notes: string[]
  onProgress(): void
}

export async function* storeEntries(
  snapshot: StoreSnapshot,
  mtime: number,
  tally: BackupStats,
): AsyncGenerator<ArchiveEntry> {
  yield directoryEntry('store', mtime)
  for (const table of snapshot.tables) {
    yield directoryEntry(`store/${table.name}`, mtime)
    let [lines, length, count]: [string[], number, number] = [[], 0, 0]
    const flush = (): ArchiveEntry => {
      const name = `store/${table.name}/${String(++count).padStart(8, '0')}.jsonl`
      const part = textEntry(name, lines.join(''), mtime)
      ;[lines, length] = [[], 0]
      return part
    }
    for await (const rows of snapshot.rows(table)) {
      for (const row of rows) {
        const line = writeRow(row)
        lines.push(line)
        length += line.length
        if (length >= ROWS_LENGTH) yield flush()
      }
      tally.rows += rows.length
      tally.onProgress()
    }
    if (lines.length > 0) yield flush()
  }
}

export interface SettingsEntries {
  readonly entries: readonly ArchiveEntry[]
  readonly leftOut: readonly string[]
}

/** `.env` and those of the containers, as they are or without keys. */
export async function readSettingsEntries({ root }: Layout, hasKeys: boolean, mtime: number): Promise<SettingsEntries> {
  const parts: ArchiveEntry[] = [directoryEntry('settings', mtime)]
  const leftOut = new Set<string>()
  const add = async (name: string): Promise<void> => {
    const path = join(root, name)
    const text = await readText(path, ENV_MAX_BYTES).catch(unlessMissing)
    if (text === undefined) return
    const open = hasKeys ? { text, leftOut: [] } : redactSettings(text, path)
    for (const key of open.leftOut) leftOut.add(key)
    parts.push(textEntry(`settings/${name}`, open.text, mtime))
  }
  await add('.env')
  const daemonEnvs = await namesIn(join(root, 'env'))
  if (daemonEnvs.length > 0) parts.push(directoryEntry('settings/env', mtime))
  for (const name of daemonEnvs) await add(`env/${name}`)
  return { entries: parts, leftOut: [...leftOut] }
}

async function namesIn(path: string): Promise<string[]> {
  await using directory = await Directory.open(path)
  const entries = (await directory?.entries()) ?? []
  return entries.filter((entry) => entry.isFile() && entry.name.endsWith('.env')).map(({ name }) => name)
}

function unlessMissing(error: unknown): undefined {
  if (!(error instanceof Refusal) || error.code !== 'not_found') throw error
}

/** Everything that agents and visitors have written, and what is published. */
export async function* fileEntries(
  { root }: Layout,
  hasKeys: boolean,
  tally: BackupStats,
): AsyncGenerator<ArchiveEntry> {
  yield directoryEntry('files', 0)
  // The operator may have put a link in place of one of these; below them nothing is trusted.
  await using top = await Directory.open(root, { follow: true })
  for (const name of PLACES) {
    await using place = await Directory.open(join(root, name), { follow: true })
    if (!place) continue
    yield directoryEntry(`files/${name}`, 0, await modeOf(place))
    yield* entriesOf(place, `files/${name}`, tally)
  }
  for (const name of FREE_FORM) {
    const kind = await top?.kindOf(name)
    if (!top || kind === undefined) continue
    if (hasKeys) yield* entryOf(top, { name, path: `files/${name}` }, tally)
    else tally.notes.push(`${name} is not in the backup, because it may hold keys: add --with-keys`)
  }
}

async function modeOf(directory: Directory): Promise<number> {
  return (await directory.stat()).mode & 0o777
}

async function* entriesOf(directory: Directory, path: string, tally: BackupStats): AsyncGenerator<ArchiveEntry> {
  for (const { name } of await directory.entries()) yield* entryOf(directory, { name, path: `${path}/${name}` }, tally)
}

interface SourceEntry {
  readonly name: string
  /** In the archive. */
  readonly path: string
}

/** One that vanishes or becomes something else meanwhile is left out, one that cannot be read is noted: agents must not be able to stop a backup. */
async function* entryOf(directory: Directory, place: SourceEntry, tally: BackupStats): AsyncGenerator<ArchiveEntry> {
  const { name, path } = place
  if (name.includes('\ufffd') && (await directory.kindOf(name)) === undefined)
    return void tally.notes.push(`${path} has a name that is not UTF-8 and is not in the backup`)
  if (path.split('/').length > DEPTH_MAX || Buffer.byteLength(path) > PATH_MAX)
    return void tally.notes.push(`${path.slice(0, 200)}… lies too deep and is not in the backup`)
  let part: ArchiveEntry | undefined
  try {
    const kind = await directory.kindOf(name)
    if (kind === 'directory') return yield* directoryOf(directory, place, tally)
    if (kind === 'link') part = await linkPart(directory, place, tally)
  } catch (error) {
    return note(error, tally)
  }
  if (part) yield part
  else yield* fileOf(directory, place, tally)
}

function note(error: unknown, tally: BackupStats): void {
  if (!(error instanceof Refusal)) throw error
  tally.notes.push(`not in the backup: ${error.message}`)
}

async function* directoryOf(
  parent: Directory,
  { name, path }: SourceEntry,
  tally: BackupStats,
): AsyncGenerator<ArchiveEntry> {
  await using child = await parent.openDirectory(name)
  if (!child) return
  const { mode, mtimeMs } = await child.stat()
  yield { ...directoryEntry(path, Math.floor(mtimeMs / 1000)), mode: mode & 0o777 }
  yield* entriesOf(child, path, tally)
}

async function linkPart(
  directory: Directory,
  { name, path }: SourceEntry,
  tally: BackupStats,
): Promise<ArchiveEntry | undefined> {
  const link = await directory.readLink(name)
  if (link === undefined) return undefined
  // A workspace that lies elsewhere by the operator's own wish.
  if (/^files\/(groups|web)\/[^/]+$/.test(path))
    tally.notes.push(`${path.slice(6)} is a symbolic link to ${link}: the backup does not contain its target`)
  return { path, kind: 'link', size: 0, mode: 0o777, mtime: 0, link, body: [] }
}

async function* fileOf(
  directory: Directory,
  { name, path }: SourceEntry,
  tally: BackupStats,
): AsyncGenerator<ArchiveEntry> {
  const opened = await openFile(directory, name, tally)
  if (!opened) return
  await using file = opened.file
  const { mode, mtimeMs, size } = opened.stats
  const small = size <= SMALL_BYTES ? await readUpTo(file, size) : undefined
  const length = small?.length ?? size
  tally.files++
  tally.bytes += length
  tally.onProgress()
  const head = {
    path,
    kind: 'file',
    size: length,
    mode: mode & 0o777,
    mtime: Math.max(0, Math.floor(mtimeMs / 1000)),
  } as const
  yield {
    ...head,
    body: small ? [small] : chunksOf(file, length, () => tally.notes.push(`${path} shrank while it was read`)),
  }
}

async function openFile(
  directory: Directory,
  name: string,
  tally: BackupStats,
): Promise<{ file: FileHandle; stats: Stats } | undefined> {
  try {
    // Sockets, pipes and devices mean nothing elsewhere.
    if ((await directory.kindOf(name)) !== 'file') return undefined
    const file = await directory.openFile(name)
    return file && { file, stats: await file.stat() }
  } catch (error) {
    note(error, tally)
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

/** Just so many bytes: of a file that grows the first ones, and zeros at the end of one that shrinks. */
async function* chunksOf(file: FileHandle, size: number, onShrunk: () => void): AsyncGenerator<Buffer> {
  let isShrunk = false
  for (let at = 0; at < size; ) {
    const wanted = Math.min(CHUNK_BYTES, size - at)
    const { bytesRead, buffer } = await file.read(Buffer.alloc(wanted), 0, wanted, at)
    if (bytesRead === 0 && !isShrunk) {
      isShrunk = true
      onShrunk()
    }
    const length = bytesRead === 0 ? wanted : bytesRead
    yield buffer.subarray(0, length)
    at += length
  }
}
