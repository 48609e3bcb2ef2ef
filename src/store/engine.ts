// The port every engine fills. Knows no word of the product.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Kysely } from 'kysely'

export type Value = string | number | boolean | Uint8Array | null

/** A transaction as the machinery sees it; `on` in table.ts narrows it to the tables that a query names. */
export type Tx = Kysely<Record<string, Record<string, Value>>>

/** What differs between engines, as named facts; nobody outside `store/<engine>/` asks which engine it is. */
export interface Dialect {
  readonly name: string
  /** A schema step as this engine must be told it. */
  adapt(ddl: string): string
  /** The type of an integer key that the store counts up itself and never gives twice. */
  readonly counter: string
  /** Statements that run `set` whenever a row of `table` is written, by whichever program. */
  onWrite(table: string, set: string): readonly string[]
  /** A query that answers with one row when the table $1 exists. */
  readonly hasTable: string
  /** An expression for text that nobody has seen before. */
  readonly freshText: string
}

export interface Engine {
  readonly dialect: Dialect
  /** One snapshot; never waits for a writer. */
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** All or nothing, as if nobody else wrote at the time; resolved when it is on disk. `work` may be run again. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** A copy of the whole store beside it, where the engine is a file. */
  copy?(label: string): Promise<string>
  close(): Promise<void>
}

const inside = new AsyncLocalStorage<'read' | 'write'>()

/**
 * Runs `work` as the inside of a transaction. A transaction opened inside another one would wait for itself for ever, so
 * it is an error at once.
 */
export function enter<T>(kind: 'read' | 'write', work: () => Promise<T>): Promise<T> {
  return inside.run(kind, work)
}

export function mustBeOutside(): void {
  if (inside.getStore()) throw new Error('a transaction was opened inside another one')
}
