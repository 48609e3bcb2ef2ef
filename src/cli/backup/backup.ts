// Writes the backup of an instance. Reads the store first, from one snapshot, and the files afterwards, so that no row refers
// to a file that did not exist yet.
import { stat } from 'node:fs/promises'
import { groups } from '../../core/groups/groups.ts'
import { groupDirs, type Layout } from '../../core/layout.ts'
import { timestamp } from '../../lib/clock.ts'
import { packageVersion } from '../../lib/version.ts'
import type { StoreSnapshot } from '../../store/backup-rows.ts'
import { openSnapshot } from '../../store/index.ts'
import { type ConfiguredInstance, readEnv, storeAddress } from '../instance/instance.ts'
import { formatMegabytes } from '../output/progress.ts'
import { type ArchiveEntry, makeArchiveHeader, packArchive } from './archive.ts'
import { mustBeWritable, streamArchive, writeArchive } from './archive-file.ts'
import { type BackupStats, readFileEntries, readSettingsEntries, readStoreEntries } from './backup-entries.ts'

interface BackupOptions {
  readonly file: string
  /** Receives the archive instead of the file. */
  readonly output?: ((bytes: Uint8Array) => Promise<void>) | undefined
  readonly hasKeys: boolean
  readonly isForced: boolean
  readonly nowMs: number
  onProgress(message: string): void
}

interface BackupResult {
  readonly engine: 'sqlite' | 'postgres'
  readonly bytes: number
  readonly rows: number
  readonly files: number
  readonly hasKeys: boolean
  readonly leftOut: readonly string[]
  /** Folders whose workspaces are not in this data directory, and so not in the archive. */
  readonly missingWorkspaces: readonly string[]
  readonly notes: readonly string[]
}

export async function backup(configured: ConfiguredInstance, options: BackupOptions): Promise<BackupResult> {
  const { name, layout } = configured
  const { file, output, hasKeys, isForced, nowMs, onProgress } = options
  if (!output) await mustBeWritable(file, isForced)
  const stats: BackupStats = {
    ...{ rows: 0, files: 0, bytes: 0, notes: await environmentNotes(configured) },
    onProgress: () => onProgress(`${stats.rows} rows, ${stats.files} files (${formatMegabytes(stats.bytes)})`),
  }
  const mtime = Math.floor(nowMs / 1000)
  onProgress('copying the store')
  await using snapshot = await openSnapshot(storeAddress(configured), nowMs)
  const settings = await readSettingsEntries(layout, hasKeys, mtime)
  const missingWorkspaces = await listMissingWorkspaces(snapshot, layout)
  const { engine, steps, tables, counters } = snapshot
  const header = makeArchiveHeader({
    ...{ svc: packageVersion(), instance: name, created_at: timestamp(nowMs), engine, has_keys: hasKeys },
    ...{ left_out: [...settings.leftOut], missing_workspaces: [...missingWorkspaces] },
    ...{ steps: steps.map(([table, step]) => [table, step]), counters },
    ...{ tables: tables.map((table) => ({ name: table.name, columns: [...table.columns] })) },
  })
  async function* readAllEntries(): AsyncGenerator<ArchiveEntry> {
    yield* readStoreEntries(snapshot, mtime, stats)
    yield* settings.entries
    yield* readFileEntries(layout, hasKeys, stats)
  }
  const archive = packArchive(header, readAllEntries())
  const bytes = await (output ? streamArchive(output, archive) : writeArchive(file, archive, isForced))
  const { rows, files, notes } = stats
  return { engine, bytes, rows, files, hasKeys, leftOut: settings.leftOut, missingWorkspaces, notes }
}

/** Other machines with the same store may have them. */
async function listMissingWorkspaces(snapshot: StoreSnapshot, layout: Layout): Promise<string[]> {
  const table = snapshot.tables.find(({ name }) => name === groups.name)
  const missing: string[] = []
  for await (const rows of table ? snapshot.rows({ name: table.name, columns: ['folder'] }) : [])
    for (const [folder] of rows)
      if (typeof folder === 'string' && !(await isDirectory(groupDirs(layout, folder).home))) missing.push(folder)
  return missing.sort()
}

function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  )
}

/** Warns about keys that are in no file of the instance. */
async function environmentNotes({ layout, sources }: ConfiguredInstance): Promise<string[]> {
  const env = await readEnv(layout.env)
  return ['SECRETS_KEY', 'DATABASE_URL']
    .filter((key) => !env.has(key) && sources.some((source) => source.get(key) !== undefined))
    .map((key) => `${key} is set by the environment and not in .env, so it is not in the backup`)
}
