// The list of engines: which one an address means. Each is loaded only when it is asked for.

import type { StoreLoad, StoreSnapshot } from './backup-rows.ts'
import type { Engine } from './engine.ts'
import type { StoredTable } from './migrate.ts'
import type { SqliteOptions } from './sqlite/engine.ts'

export type StoreAddress = SqliteOptions | { url: string }

export async function openEngine(address: StoreAddress): Promise<Engine> {
  if ('url' in address) return (await import('./postgres/engine.ts')).openPostgres(address.url)
  return (await import('./sqlite/engine.ts')).openSqlite(address)
}

/** The store as it is now, to be read beside those who write. In a process that has it open nowhere else. */
export async function openSnapshot(address: StoreAddress, nowMs: number): Promise<StoreSnapshot> {
  if ('url' in address) return (await import('./postgres/snapshot.ts')).openPostgresSnapshot(address.url)
  return (await import('./sqlite/snapshot.ts')).openSqliteSnapshot(address.path, nowMs)
}

/** A new store with these tables, to be filled. */
export async function openLoad(address: StoreAddress, tables: readonly StoredTable[]): Promise<StoreLoad> {
  if ('url' in address) return (await import('./postgres/load.ts')).openPostgresLoad(address.url, tables)
  return (await import('./sqlite/load.ts')).openSqliteLoad(address.path, tables)
}
