// Selects the engine by the address of the store and loads only that one.
import type { FaultHandler } from '../lib/fault-boundary.ts'
import type { StoreLoad, StoreSnapshot } from './backup-rows.ts'
import type { Engine } from './engine.ts'
import type { StoredTable } from './migrate.ts'
import type { SqliteOptions } from './sqlite/engine.ts'

export type StoreAddress = SqliteOptions | { url: string }

/** `onFault` gets the exceptions of callbacks of commits and notifications; by default they end the process. */
export async function openEngine(address: StoreAddress, onFault?: FaultHandler): Promise<Engine> {
  if ('url' in address) return (await import('./postgres/engine.ts')).openPostgres(address.url, onFault)
  return (await import('./sqlite/engine.ts')).openSqlite(address, onFault)
}

/** Opens a snapshot that does not block writers. Only for a process that has not opened the store otherwise. */
export async function openSnapshot(address: StoreAddress, nowMs: number): Promise<StoreSnapshot> {
  if ('url' in address) return (await import('./postgres/snapshot.ts')).openPostgresSnapshot(address.url)
  return (await import('./sqlite/snapshot.ts')).openSqliteSnapshot(address.path, nowMs)
}

/** Creates a store with these tables, to be filled from a backup. */
export async function openLoad(address: StoreAddress, tables: readonly StoredTable[]): Promise<StoreLoad> {
  if ('url' in address) return (await import('./postgres/load.ts')).openPostgresLoad(address.url, tables)
  return (await import('./sqlite/load.ts')).openSqliteLoad(address.path, tables)
}
