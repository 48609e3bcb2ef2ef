// Restores an instance from a backup: reads the whole archive once to verify it, and once more to write it.

import { CELL_SETTINGS } from '../../cell/settings.ts'
import { agentUser } from '../../core/agent-user.ts'
import { securePrivateDirectories } from '../../core/groups/private-directories.ts'
import { chownWorkspaces } from '../../core/groups/workspace-owner.ts'
import { layout } from '../../core/layout.ts'
import { INSTANCE_SETTINGS } from '../../daemons/settings.ts'
import { PRODUCT_TABLES } from '../../daemons/tables.ts'
import type { TarEntry } from '../../lib/files/tar.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings, type SettingSource, sourceOf } from '../../lib/settings.ts'
import { editDotenv, parseDotenv } from '../../lib/text/dotenv.ts'
import { type BackupRow, readRow, type StoreLoad, type TableShape, tablesAtSteps } from '../../store/backup-rows.ts'
import { openLoad, type StoreAddress } from '../../store/index.ts'
import { refuseUnknownSteps } from '../../store/migrate.ts'
import type { InstanceLocation } from '../instance/instance.ts'
import { formatMegabytes } from '../output/progress.ts'
import { type ArchiveHeader, readEntryText, readHeader, refuseDamaged, unpackArchive } from './archive.ts'
import { ArchiveFile } from './archive-file.ts'
import { mustBeMissing, mustHaveDiskSpace, nearestExistingDirectory, RestoreDirectory } from './restore-directory.ts'

const ROWS = 500
const ENV = 'settings/.env'

export interface RestoreOptions {
  readonly file: string
  /** Gives the archive instead of the file. */
  readonly input?: AsyncIterable<Uint8Array> | undefined
  readonly place: InstanceLocation
  readonly environment: SettingSource
  /** The address of an empty database; what the settings in the backup say, unless given. */
  readonly database?: string | undefined
  /** Restores into a SQLite file, whatever engine the backup is of. */
  readonly isSqlite: boolean
  onProgress(what: string): void
}

export interface RestoreResult {
  readonly header: ArchiveHeader
  readonly root: string
  readonly engine: 'sqlite' | 'postgres'
  readonly rows: number
  readonly files: number
  /** Keys that the settings still lack. */
  readonly missing: readonly string[]
}

interface VerifiedArchive {
  readonly header: ArchiveHeader
  readonly bytes: number
  readonly env: string | undefined
}

export async function restore(options: RestoreOptions): Promise<RestoreResult> {
  const { file, input, place, onProgress } = options
  const { root } = place.layout
  await mustBeMissing(root)
  await using archive = await (input
    ? ArchiveFile.spool(input, await nearestExistingDirectory(root))
    : ArchiveFile.open(file))
  const verified = await verify(archive, (bytes) => onProgress(`verified ${formatMegabytes(bytes)}`))
  const { header, bytes } = verified
  refuseUnknownSteps(new Set(header.steps.map(([name, step]) => `${name} ${step}`)), PRODUCT_TABLES)
  const env = editedEnv(verified, options)
  const sources = [sourceOf(`${archive.path}: .env`, parseDotenv(env ?? '', archive.path)), options.environment]
  const url = databaseOf(sources, verified, options)
  const { AGENT_UID } = readSettings({ AGENT_UID: CELL_SETTINGS.AGENT_UID }, sources)
  await mustHaveDiskSpace(root, bytes)
  await using made = await RestoreDirectory.make(root)
  const store = layout(made.root).store
  await made.write('store', directory())
  await using load = await openLoad(addressOf(url, store), tablesAtSteps(header.steps, PRODUCT_TABLES))
  const counts = await writeAll(archive, { made, load, header, env, onProgress })
  await load.finish(header.counters)
  await made.finish()
  const places = layout(root, agentUser(AGENT_UID))
  await securePrivateDirectories(places)
  await chownWorkspaces(places)
  return { header, root, engine: url === undefined ? 'sqlite' : 'postgres', missing: header.left_out, ...counts }
}

function addressOf(url: string | undefined, path: string): StoreAddress {
  return url === undefined ? { path } : { url }
}

/** Reads all of it, and writes nothing. */
async function verify(archive: ArchiveFile, onProgress: (bytes: number) => void): Promise<VerifiedArchive> {
  let header: ArchiveHeader | undefined
  let env: string | undefined
  let bytes = 0
  for await (const entry of unpackArchive(archive.bytes())) {
    if (header) mustHavePlace(entry, header)
    else header = await readHeader(entry)
    if (entry.path === ENV) env = await readEntryText(entry)
    bytes += entry.size
    onProgress(bytes)
  }
  if (!header) return refuseDamaged('it is empty')
  if (env !== undefined) parseDotenv(env, `${archive.path}: .env`)
  return { header, bytes, env }
}

const PLACES = /^(store|settings|files)($|\/)/
const IN_SETTINGS = /^settings(\/\.env|\/env|\/env\/[^/]+\.env)?$/
const IN_FILES = /^files(\/(groups|web|chats|outbox|services|docker-compose\.yml)($|\/.*))?$/s

function mustHavePlace({ path, kind }: TarEntry, { tables }: ArchiveHeader): void {
  const named = JSON.stringify(path.slice(0, 80))
  if (!PLACES.test(path)) refuseDamaged(`${named} has no place in an instance`)
  if (path.startsWith('settings') && (!IN_SETTINGS.test(path) || kind === 'link'))
    refuseDamaged(`${named} is no settings file`)
  if (path.startsWith('files') && !IN_FILES.test(path)) refuseDamaged(`${named} has no place in an instance`)
  if (path.startsWith('store')) {
    const [, table, part] = path.split('/')
    if (table !== undefined && !tables.some(({ name }) => name === table)) refuseDamaged(`${named} is of no table`)
    if (kind !== (part === undefined ? 'directory' : 'file')) refuseDamaged(`${named} holds no rows`)
  }
}

/** The settings with the address that was asked for. */
function editedEnv({ env }: VerifiedArchive, { database, isSqlite }: RestoreOptions): string | undefined {
  if (database !== undefined) return editDotenv(env ?? '', new Map([['DATABASE_URL', database]]))
  return isSqlite && env !== undefined ? editDotenv(env, new Map([['DATABASE_URL', undefined]])) : env
}

/** As the instance itself will find it: in its .env, then in the environment. Undefined is the SQLite file. */
function databaseOf(
  sources: readonly SettingSource[],
  { header }: VerifiedArchive,
  { isSqlite }: RestoreOptions,
): string | undefined {
  const { DATABASE_URL: url } = readSettings({ DATABASE_URL: INSTANCE_SETTINGS.DATABASE_URL }, sources)
  if (isSqlite && url !== undefined)
    refuse('conflict', 'DATABASE_URL is set in the environment, which --sqlite does not change', 'unset DATABASE_URL')
  if (url === undefined && header.engine === 'postgres' && !isSqlite)
    refuse(
      'invalid',
      'this backup is of a PostgreSQL store and does not say where it is to be restored; nothing was changed',
      'name an empty database with --database postgres://…, or restore into a SQLite file with --sqlite',
    )
  return url
}

interface RestoreTarget {
  readonly made: RestoreDirectory
  readonly load: StoreLoad
  readonly header: ArchiveHeader
  readonly env: string | undefined
  onProgress(what: string): void
}

async function writeAll(archive: ArchiveFile, writing: RestoreTarget): Promise<{ rows: number; files: number }> {
  const { made, load, header, env, onProgress } = writing
  const shapes = matchTables(header, load)
  let [rows, files, isFirst] = [0, 0, true]
  if (env !== undefined) await made.write('.env', fileOf(env, Math.floor(Date.parse(header.created_at) / 1000)))
  for await (const entry of unpackArchive(archive.bytes())) {
    const [top, ...rest] = entry.path.split('/')
    const path = rest.join('/')
    if (isFirst) isFirst = false
    else if (top === 'store') {
      if (entry.kind === 'file')
        rows += await insertAll(load, shapes.get(rest[0] ?? '') ?? refuseDamaged('a table is missing'), entry)
    } else if (path !== '' && entry.path !== ENV) {
      await made.write(path, entry)
      if (entry.kind === 'file') files++
    }
    onProgress(`restored ${rows} rows, ${files} files`)
  }
  return { rows, files }
}

/** Names out of an archive become part of statements only where the store itself has them. */
function matchTables({ tables }: ArchiveHeader, load: StoreLoad): Map<string, TableShape> {
  const wanted = new Map(load.tables.map((shape) => [shape.name, shape]))
  const fits = ({ name, columns }: TableShape): boolean =>
    wanted.get(name)?.columns.toSorted().join() === columns.toSorted().join()
  if (tables.length !== wanted.size || !tables.every(fits))
    refuse('invalid', 'the backup has other tables than its version of svc; nothing was changed')
  return new Map(tables.map((shape) => [shape.name, shape]))
}

async function insertAll(load: StoreLoad, shape: TableShape, entry: TarEntry): Promise<number> {
  const lines = (await readEntryText(entry)).split('\n')
  if (lines.pop() !== '') refuseDamaged('a row is cut short')
  for (let from = 0; from < lines.length; from += ROWS) {
    const rows: BackupRow[] = lines.slice(from, from + ROWS).map((line) => readRow(line, shape))
    await load.insert(shape, rows)
  }
  return lines.length
}

function directory(): TarEntry {
  return { path: '', kind: 'directory', size: 0, mode: 0o700, mtime: 0, body: bodyOf('') }
}

function fileOf(text: string, mtime: number): TarEntry {
  return { path: '', kind: 'file', size: 0, mode: 0o600, mtime, body: bodyOf(text) }
}

async function* bodyOf(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text)
}
