// Writes the backup of an instance. The store is read first, from one snapshot, and the files after it: a row never names a file
// that is not there yet.
import { timestamp } from '../../lib/clock.ts'
import { packageVersion } from '../../lib/version.ts'
import type { StoreSnapshot } from '../../store/backup-rows.ts'
import { openSnapshot } from '../../store/index.ts'
import { type ConfiguredInstance, readEnv, storeAddress } from '../instance/instance.ts'
import { formatMegabytes } from '../output/progress.ts'
import { type ArchiveEntry, makeArchiveHeader, packArchive } from './archive.ts'
import { mustBeWritable, streamArchive, writeArchive } from './archive-file.ts'
import {
  type BackupStats,
  fileEntries,
  readSettingsEntries,
  type SettingsEntries,
  storeEntries,
} from './backup-entries.ts'

export interface BackupOptions {
  readonly file: string
  /** Takes the archive instead of the file. */
  readonly output?: ((bytes: Uint8Array) => Promise<void>) | undefined
  readonly hasKeys: boolean
  readonly isForced: boolean
  readonly nowMs: number
  onProgress(what: string): void
}

export interface BackupResult {
  readonly engine: 'sqlite' | 'postgres'
  readonly bytes: number
  readonly rows: number
  readonly files: number
  readonly hasKeys: boolean
  readonly leftOut: readonly string[]
  readonly notes: readonly string[]
}

export async function backup(configured: ConfiguredInstance, options: BackupOptions): Promise<BackupResult> {
  const { name, layout } = configured
  const { file, output, hasKeys, isForced, nowMs, onProgress } = options
  if (!output) await mustBeWritable(file, isForced)
  const tally: BackupStats = {
    ...{ rows: 0, files: 0, bytes: 0, notes: await environmentNotes(configured) },
    onProgress: () => onProgress(`${tally.rows} rows, ${tally.files} files (${formatMegabytes(tally.bytes)})`),
  }
  const mtime = Math.floor(nowMs / 1000)
  onProgress('copying the store')
  await using snapshot = await openSnapshot(storeAddress(configured), nowMs)
  const settings = await readSettingsEntries(layout, hasKeys, mtime)
  const { engine, steps, tables, counters } = snapshot
  const header = makeArchiveHeader({
    ...{ svc: packageVersion(), instance: name, created_at: timestamp(nowMs), engine, has_keys: hasKeys },
    ...{ left_out: [...settings.leftOut], steps: steps.map(([table, step]) => [table, step]) },
    ...{ tables: tables.map((table) => ({ name: table.name, columns: [...table.columns] })), counters },
  })
  const parts = allParts(configured, { snapshot, settings, tally, hasKeys, mtime })
  const archive = packArchive(header, parts)
  const bytes = await (output ? streamArchive(output, archive) : writeArchive(file, archive, isForced))
  const { rows, files, notes } = tally
  return { engine, bytes, rows, files, hasKeys, leftOut: settings.leftOut, notes }
}

interface BackupSources {
  readonly snapshot: StoreSnapshot
  readonly settings: SettingsEntries
  readonly tally: BackupStats
  readonly hasKeys: boolean
  readonly mtime: number
}

async function* allParts({ layout }: ConfiguredInstance, sources: BackupSources): AsyncGenerator<ArchiveEntry> {
  const { snapshot, settings, tally, hasKeys, mtime } = sources
  yield* storeEntries(snapshot, mtime, tally)
  yield* settings.entries
  yield* fileEntries(layout, hasKeys, tally)
}

/** Keys that no file of the instance holds. */
async function environmentNotes({ layout, sources }: ConfiguredInstance): Promise<string[]> {
  const own = await readEnv(layout.env)
  const elsewhere = ['SECRETS_KEY', 'DATABASE_URL'].filter(
    (key) => !own.has(key) && sources.some((source) => source.get(key) !== undefined),
  )
  return elsewhere.map((key) => `${key} is set by the environment and not in .env, so it is not in the backup`)
}
