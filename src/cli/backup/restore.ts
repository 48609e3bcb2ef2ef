// Restores an instance from a backup: reads the whole archive once to verify it and once more to write it.
import { AGENT_USER_SETTINGS } from '../../cell/settings.ts'
import { agentUsers } from '../../core/agent-user.ts'
import { securePrivateDirectories } from '../../core/groups/private-directories.ts'
import { layout } from '../../core/layout.ts'
import { INSTANCE_SETTINGS } from '../../daemons/settings.ts'
import { PRODUCT_TABLES } from '../../daemons/tables.ts'
import { readSparse } from '../../lib/files/sparse-file.ts'
import type { TarEntry } from '../../lib/files/tar.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings, type SettingSource, sourceOf } from '../../lib/settings.ts'
import { editDotenv, parseDotenv } from '../../lib/text/dotenv.ts'
import { type BackupRow, readRow, type StoreLoad, type TableShape, tablesAtSteps } from '../../store/backup-rows.ts'
import { openLoad, type StoreAddress } from '../../store/index.ts'
import { refuseUnknownSteps } from '../../store/migrate.ts'
import type { InstanceLocation } from '../instance/instance.ts'
import { formatMegabytes } from '../output/progress.ts'
import {
  type ArchiveHeader,
  makeDirectoryEntry,
  makeTextEntry,
  readEntryText,
  readHeader,
  refuseDamaged,
  unpackArchive,
} from './archive.ts'
import { ArchiveFile } from './archive-file.ts'
import { mustBeMissing, mustHaveDiskSpace, nearestExistingDirectory, RestoreDirectory } from './restore-directory.ts'

const BATCH_ROWS = 500
const ENV = 'settings/.env'

interface RestoreOptions {
  readonly file: string
  /** The archive, if it is not in a file. */
  readonly input?: AsyncIterable<Uint8Array> | undefined
  readonly location: InstanceLocation
  readonly environment: SettingSource
  /** The address of an empty database. Defaults to the one in the settings of the backup. */
  readonly database?: string | undefined
  /** Restores into a SQLite file, even if the backup is of a PostgreSQL store. */
  readonly isSqlite: boolean
  onProgress(message: string): void
}

interface RestoreResult {
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
  const { file, input, location, onProgress } = options
  const { root } = location.layout
  await mustBeMissing(root)
  await using archive = await (input
    ? ArchiveFile.spool(input, await nearestExistingDirectory(root))
    : ArchiveFile.open(file))
  const verified = await verify(archive, (bytes) => onProgress(`verified ${formatMegabytes(bytes)}`))
  const { header, bytes } = verified
  refuseUnknownSteps(new Set(header.steps.map(([name, step]) => `${name} ${step}`)), PRODUCT_TABLES)
  const env = editEnv(verified, options)
  const sources = [sourceOf(`${archive.path}: .env`, parseDotenv(env ?? '', archive.path)), options.environment]
  const url = resolveDatabaseUrl(sources, verified, options)
  const userSettings = readSettings(AGENT_USER_SETTINGS, sources)
  await mustHaveDiskSpace(root, bytes)
  await using directory = await RestoreDirectory.create(root)
  await directory.write('store', makeDirectoryEntry('', 0))
  const address: StoreAddress = url === undefined ? { path: layout(directory.root).store } : { url }
  await using load = await openLoad(address, tablesAtSteps(header.steps, PRODUCT_TABLES))
  const counts = await writeAll(archive, { directory, load, header, env, onProgress })
  await load.finish(header.counters)
  await directory.finish()
  // Workspaces get their owners when the instance is served: by the restored rows, see `WorldOwners`.
  await securePrivateDirectories(layout(root, agentUsers(userSettings, root)))
  return { header, root, engine: url === undefined ? 'sqlite' : 'postgres', missing: header.left_out, ...counts }
}

/** Reads the whole archive and writes nothing. */
async function verify(archive: ArchiveFile, onProgress: (bytes: number) => void): Promise<VerifiedArchive> {
  let header: ArchiveHeader | undefined
  let env: string | undefined
  let bytes = 0
  for await (const entry of unpackArchive(archive.bytes())) {
    if (header) checkLocation(entry, header)
    else header = await readHeader(entry)
    if (entry.path === ENV) env = await readEntryText(entry)
    if (entry.realSize !== undefined) for await (const _ of readSparse(entry.body, entry.realSize));
    bytes += entry.size
    onProgress(bytes)
  }
  if (!header) return refuseDamaged('it is empty')
  if (env !== undefined) parseDotenv(env, `${archive.path}: .env`)
  return { header, bytes, env }
}

const TOP_DIRECTORIES = /^(store|settings|files)($|\/)/
const IN_SETTINGS = /^settings(\/\.env|\/env|\/env\/[^/]+\.env)?$/
const IN_FILES = /^files(\/(groups|web|chats|files|outbox|skills|services|docker-compose\.yml)($|\/.*))?$/s

function checkLocation({ path, kind }: TarEntry, { tables }: ArchiveHeader): void {
  const named = JSON.stringify(path.slice(0, 80))
  if (!TOP_DIRECTORIES.test(path)) refuseDamaged(`${named} has no place in an instance`)
  if (path.startsWith('settings') && (!IN_SETTINGS.test(path) || kind === 'link'))
    refuseDamaged(`${named} is not a settings file`)
  if (path.startsWith('files') && !IN_FILES.test(path)) refuseDamaged(`${named} has no place in an instance`)
  if (path.startsWith('store')) {
    const [, table, part] = path.split('/')
    if (table !== undefined && !tables.some(({ name }) => name === table))
      refuseDamaged(`${named} belongs to an unknown table`)
    if (kind !== (part === undefined ? 'directory' : 'file')) refuseDamaged(`${named} does not contain rows`)
  }
}

/** The settings with the requested database address. */
function editEnv({ env }: VerifiedArchive, { database, isSqlite }: RestoreOptions): string | undefined {
  if (database !== undefined) return editDotenv(env ?? '', new Map([['DATABASE_URL', database]]))
  return isSqlite && env !== undefined ? editDotenv(env, new Map([['DATABASE_URL', undefined]])) : env
}

/** Resolves the address as the instance will: from its .env, then from the environment. Undefined means SQLite. */
function resolveDatabaseUrl(
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
      'this backup is of a PostgreSQL store and does not contain its address; nothing was changed',
      'name an empty database with --database postgres://…, or restore into a SQLite file with --sqlite',
    )
  return url
}

interface RestoreTarget {
  readonly directory: RestoreDirectory
  readonly load: StoreLoad
  readonly header: ArchiveHeader
  readonly env: string | undefined
  onProgress(message: string): void
}

async function writeAll(archive: ArchiveFile, target: RestoreTarget): Promise<{ rows: number; files: number }> {
  const { directory, load, header, env, onProgress } = target
  const shapes = matchTables(header, load)
  let [rows, files, isFirst] = [0, 0, true]
  const mtime = Math.floor(Date.parse(header.created_at) / 1000)
  if (env !== undefined) await directory.write('.env', makeTextEntry('', env, mtime))
  for await (const entry of unpackArchive(archive.bytes())) {
    const [top, ...rest] = entry.path.split('/')
    const path = rest.join('/')
    if (isFirst) isFirst = false
    else if (top === 'store') {
      if (entry.kind === 'file')
        rows += await insertRows(load, shapes.get(rest[0] ?? '') ?? refuseDamaged('a table is missing'), entry)
    } else if (path !== '' && entry.path !== ENV) {
      await directory.write(path, entry)
      if (entry.kind === 'file') files++
    }
    onProgress(`restored ${rows} rows, ${files} files`)
  }
  return { rows, files }
}

/** Names in an archive become part of SQL statements, so they must be those of the store. */
function matchTables({ tables }: ArchiveHeader, load: StoreLoad): Map<string, TableShape> {
  const wanted = new Map(load.tables.map((shape) => [shape.name, shape]))
  const fits = ({ name, columns }: TableShape): boolean =>
    wanted.get(name)?.columns.toSorted().join() === columns.toSorted().join()
  if (tables.length !== wanted.size || !tables.every(fits))
    refuse('invalid', 'the tables of the backup are not those of its svc version; nothing was changed')
  return new Map(tables.map((shape) => [shape.name, shape]))
}

async function insertRows(load: StoreLoad, shape: TableShape, entry: TarEntry): Promise<number> {
  const lines = (await readEntryText(entry)).split('\n')
  if (lines.pop() !== '') refuseDamaged('a row is cut short')
  for (let from = 0; from < lines.length; from += BATCH_ROWS) {
    const rows: BackupRow[] = lines.slice(from, from + BATCH_ROWS).map((line) => readRow(line, shape))
    await load.insert(shape, rows)
  }
  return lines.length
}
