// The list of engines: which one an address means. Each is loaded only when it is asked for.
import type { Engine } from './engine.ts'
import type { SqliteOptions } from './sqlite/engine.ts'

export type Address = SqliteOptions | { url: string }

export async function openEngine(address: Address): Promise<Engine> {
  if ('url' in address) return (await import('./postgres/engine.ts')).openPostgres(address.url)
  return (await import('./sqlite/engine.ts')).openSqlite(address)
}
