// The port every engine fills. Knows no word of the product.
import type { Lane, LaneHandler, LaneOptions } from './lanes/lane.ts'

export type Value = string | number | boolean | Uint8Array | null

/** A row as the engine returns it. */
export type StoredRow = Readonly<Record<string, Value>>

export interface QueryResult {
  readonly rows: readonly StoredRow[]
  /** How many rows the statement changed or returned. */
  readonly changes: number
}

/** What a statement did to a table that counts its rows. */
export interface RunResult {
  readonly changes: number
  /** The number of the row that was inserted last. */
  readonly last: number
}

export interface Statement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/**
 * A running transaction. A statement that failed ends it: whatever `work` makes of the error, later statements fail
 * with it again and nothing is committed, as PostgreSQL has it.
 */
export interface Tx {
  executeQuery(query: Statement): Promise<QueryResult>
  /** The same for the last statement, with the commit in the same round trip; absent where a statement is none. */
  executeLast?(query: Statement): Promise<QueryResult>
  /** One statement for each of these rows, without a word in between; absent where a statement is a round trip. */
  executeEach?(sql: string, rows: readonly (readonly Value[])[]): readonly RunResult[]
  /**
   * Calls `then` when the transaction is committed, perhaps a moment before it is on disk: for hints to workers of this
   * process. What they read is answered when it is on disk.
   */
  onCommit(then: () => void): void
}

/** What differs between engines, as named facts; nobody outside `store/<engine>/` asks which engine it is. */
export interface Dialect {
  readonly name: string
  /** A schema step as this engine must be told it. */
  adapt(ddl: string): string
  /** The type of an integer key that the store counts up itself and never gives twice. */
  readonly counter: string
  /** Statements that run `set` whenever a row of `table` is written, by whichever program. */
  onWrite(table: string, set: string): readonly string[]
  /** Statements that run `then` after a row of `table` is inserted, which `then` calls `new`. */
  onInsert(table: string, name: string, then: string): readonly string[]
  /** Statements that run `then` after a row of `table` is deleted, which `then` calls `old`. */
  onDelete(table: string, name: string, then: string): readonly string[]
  /** A query that answers with one row when the table $1 exists. */
  readonly hasTable: string
  /** An expression for text that nobody has seen before. */
  readonly freshText: string
  /** Ends the declaration of a table whose rows should lie in the order of its key. */
  readonly clustered: string
  /** Whether a statement is a round trip to elsewhere. */
  readonly isRemote: boolean
  /**
   * What to say first in a transaction so that those who say it of the same table come one after the other, each
   * seeing what the one before has done; nothing where all writers do.
   */
  lockTableSql(table: string): string | undefined
  /** What to say first in a transaction that may wait long for others; absent where a wait has no limit of its own. */
  readonly disableLockTimeoutSql?: string
  /** What tells the listeners of every process, when this transaction is committed; nothing where they find out. */
  readonly notifySql: string | undefined
}

export interface Engine {
  readonly dialect: Dialect
  /** One snapshot, in which nothing can be written; never waits for a writer. */
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** All or nothing, as if nobody else wrote at the time; resolved when it is on disk. `work` may be run again. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** A queue for work that comes one by one, and is written in batches. */
  openLane<I, O>(work: LaneHandler<I, O>, options?: LaneOptions): Lane<I, O>
  /**
   * Told that something was committed, by whichever process: with what `hint` was given, or with nothing. A hint only:
   * one may be lost, so whoever must know looks now and then.
   */
  listen(listener: (about: string) => void): () => void
  /** Resolved with its error when the disk has failed: nobody knows what it holds, and the process should end. */
  readonly failed: Promise<unknown>
  /** A copy of the whole store beside it, where the engine is a file; answers its path. */
  copy?(label: string): Promise<string>
  /** Lets what runs come to its end; what comes after is refused. */
  close(): Promise<void>
}
