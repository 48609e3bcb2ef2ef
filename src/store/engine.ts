// The interface that each engine (SQLite, PostgreSQL) implements.

export type Value = string | number | boolean | Uint8Array | null

/** A row as the engine returns it. */
export type StoredRow = Readonly<Record<string, Value>>

export interface QueryResult {
  readonly rows: readonly StoredRow[]
  /** Number of rows that the statement changed or returned. */
  readonly changes: number
}

export interface RunResult {
  readonly changes: number
  /** The counter value of the last inserted row. */
  readonly lastId: number
}

export interface Statement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/**
 * A running transaction. A failed statement ends it, as in PostgreSQL: even if `work` catches the error, later statements
 * fail with it again and nothing is committed.
 */
export interface Tx {
  executeQuery(query: Statement): Promise<QueryResult>
  /** Executes the last statement and commits in the same round trip. Only where statements are round trips. */
  executeLast?(query: Statement): Promise<QueryResult>
  /** Executes one statement for each row, synchronously. Only where statements are not round trips. */
  executeEach?(sql: string, rows: readonly (readonly Value[])[]): readonly RunResult[]
  /**
   * Calls `then` after the commit, perhaps shortly before it is on disk: to wake up workers of this process. Their reads
   * resolve only when the commit is on disk.
   */
  onCommit(then: () => void): void
}

/** The differences between engines. Code outside `store/<engine>/` never checks which engine it runs on. */
export interface Dialect {
  readonly name: string
  /** Adapts a schema statement to this engine. */
  adapt(ddl: string): string
  /** The type of an auto-increment key whose values are never reused. */
  readonly counter: string
  /** Statements that create triggers which run `set` on every write to `table`. */
  onWrite(table: string, set: string): readonly string[]
  /** Statements that create a trigger which runs `then` after an insert into `table`; `then` calls the row `new`. */
  onInsert(table: string, name: string, then: string): readonly string[]
  /** Statements that create a trigger which runs `then` after a delete from `table`; `then` calls the row `old`. */
  onDelete(table: string, name: string, then: string): readonly string[]
  /** Statements that create a trigger which runs `then` after an update of `table`; `then` calls the row `old` and `new`. */
  onUpdate(table: string, name: string, then: string): readonly string[]
  /** Returns one row if the table $1 exists. */
  readonly findTableSql: string
  /** An expression for a unique random text. */
  readonly randomTextSql: string
  /** Suffix of a `create table` that stores rows in the order of the primary key. */
  readonly clusteredSql: string
  /** Whether each statement is a round trip to a server. */
  readonly isRemote: boolean
  /**
   * The statement that serializes transactions on a table: run first, it lets each see the changes of the one before.
   * Undefined where all writers are serialized anyway.
   */
  lockTableSql(table: string): string | undefined
  /** Run first in a transaction that may wait long for locks. */
  readonly disableLockTimeoutSql?: string
  /** Notifies the listeners of all processes on commit. Undefined where listeners poll. */
  readonly notifySql: string | undefined
  /** Returns the size of the store as `bytes`. Undefined where the store is a file. */
  readonly sizeSql?: string
}

/** The lock that lets one process write at a time. A process that finds it taken tries again; nothing queues it. */
export interface WriteLock {
  /** Called when this process finds the lock taken, once for each wait. */
  onBusy(listener: () => void): void
  /** Called with the seconds that each commit of this process waited. */
  onWait(listener: (seconds: number) => void): void
  /** Lets another process that waits have the lock before the next commit of this one. */
  giveWay(): void
}

/** Notices that commits are missing which were on the disk before. */
export interface LossWatch {
  /** What was lost, a sentence for each time. Changes nothing. */
  find(): Promise<readonly string[]>
  /** Notes what is missing now, then how far the store is while there are commits. Returns a function that stops it. */
  start(now: number): Promise<() => Promise<void>>
  /** For an operator who knows of the losses. Also works when the engine is closed. */
  forget(): Promise<void>
}

export interface StoreBroadcast {
  /** Bytes of a payload. */
  readonly max: number
  send(payload: string): Promise<void>
  listen(listener: (payload: string) => void): () => void
}

export interface Engine {
  readonly dialect: Dialect
  /** Runs `work` on a read-only snapshot; never waits for a writer. */
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Runs `work` in a serializable transaction and resolves when it is on disk. `work` may run more than once. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * Calls `listener` after commits of any process, with the payload of `notifySql` or an empty string. Notifications can
   * be lost, so a listener must also poll.
   */
  listen(listener: (payload: string) => void): () => void
  /** Messages to all processes that use the store, which may be lost. Undefined where the store has none. */
  readonly broadcast?: StoreBroadcast
  /** Resolves with the error after a disk failure. The state of the disk is then unknown, and the process should exit. */
  readonly failed: Promise<unknown>
  /** Only where processes wait for each other's transactions. */
  readonly writeLock?: WriteLock
  /** Only where the store is a file, whose log can be lost without an error. */
  readonly lossWatch?: LossWatch
  /** Copies the whole store next to it and returns the path. Only where the store is a file. */
  copy?(label: string): Promise<string>
  /** Waits for running operations and refuses new ones. */
  close(): Promise<void>
}

/** An error of SQLite or PostgreSQL that has no translation. Its text quotes statements, so only logs have it. */
export function isEngineError(error: unknown): boolean {
  return error instanceof Error && ('errcode' in error || ('severity' in error && 'code' in error))
}
