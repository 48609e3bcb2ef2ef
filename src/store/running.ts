// A transaction while it runs, the same on every engine: what it may still do, and what went wrong in it.
import { AsyncLocalStorage } from 'node:async_hooks'
import { createRequire } from 'node:module'
import type { Dialect as BuilderDialect, CompiledQuery, DatabaseConnection, Kysely, QueryResult } from 'kysely'
import { Refusal } from '../lib/refusal.ts'
import type { AnyTables, Counted, Tx, Value } from './engine.ts'

type Builders = typeof import('kysely')

/** One connection, as an engine gives it to a transaction. */
export interface Connected {
  query(sql: string, parameters: readonly unknown[]): QueryResult<unknown> | Promise<QueryResult<unknown>>
  /** Where the store is in this process. */
  each?(sql: string, rows: readonly (readonly Value[])[]): readonly Counted[]
  /** What an error of the store means to whoever asked. */
  explain(error: unknown): unknown
  /** The parts of the builder that speak this engine's SQL. */
  parts(kysely: Builders): Pick<BuilderDialect, 'createAdapter' | 'createIntrospector' | 'createQueryCompiler'>
}

/** What every engine says of a key that is there already, and of a foreign key that does not hold. */
export const TAKEN = 'there is one with this key already'
export const TORN = 'it names a row of another table that is not there, or is named by one that is'

const inside = new AsyncLocalStorage<RunningTx>()

/** A transaction opened inside another one would wait for itself for ever, so it is an error at once. */
export function mustBeOutside(): void {
  if (inside.getStore()?.isOpen) throw new Error('a transaction was opened inside another one')
}

export class RunningTx implements Tx {
  readonly #connected: Connected
  readonly executeEach?: (sql: string, rows: readonly (readonly Value[])[]) => readonly Counted[]
  #isOpen = true
  #failure: { readonly raw: unknown; readonly said: unknown } | undefined
  #builder: Kysely<AnyTables> | undefined

  constructor(connected: Connected) {
    this.#connected = connected
    const { each } = connected
    if (each) this.executeEach = (sql, rows) => this.#attempt(() => each.call(connected, sql, rows))
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** The first error of a statement, as the driver threw it. */
  get failure(): unknown {
    return this.#failure?.raw
  }

  async executeQuery<R>({ sql, parameters }: Pick<CompiledQuery<R>, 'sql' | 'parameters'>): Promise<QueryResult<R>> {
    this.#mustGoOn()
    try {
      // The caller says what the rows are; no driver knows.
      return (await this.#connected.query(sql, parameters)) as QueryResult<R>
    } catch (raw) {
      throw this.#failed(raw)
    }
  }

  #attempt<T>(statement: () => T): T {
    this.#mustGoOn()
    try {
      return statement()
    } catch (raw) {
      throw this.#failed(raw)
    }
  }

  #mustGoOn(): void {
    // A statement that nobody awaited would land in a stranger's transaction.
    if (!this.#isOpen) throw new Error('a statement came after its transaction had ended')
    if (this.#failure) throw this.#failure.said
  }

  #failed(raw: unknown): unknown {
    this.#failure ??= { raw, said: this.#connected.explain(raw) }
    return this.#failure.said
  }

  builder(): Kysely<AnyTables> {
    this.#builder ??= builderOver(this, this.#connected)
    return this.#builder
  }

  /** Runs `work` inside; an error of a statement comes out even when `work` swallowed it. */
  async enclose<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    try {
      const value = await inside.run(this, work, this)
      if (this.#failure) throw this.#failure.said
      return value
    } finally {
      this.#isOpen = false
    }
  }
}

// Kysely is three hundred files, which every command would wait for; few queries are built.
const require = createRequire(import.meta.url)

function builderOver(tx: Tx, connected: Connected): Kysely<AnyTables> {
  const kysely: Builders = require('kysely')
  const connection: DatabaseConnection = {
    executeQuery: (query) => tx.executeQuery(query),
    streamQuery: () => {
      throw new Error('rows are read in pages, not streamed')
    },
  }
  const never = async (): Promise<void> => {
    throw new Error('a transaction was opened inside another one')
  }
  const parts = connected.parts(kysely)
  return new kysely.Kysely({
    dialect: {
      ...parts,
      // Without "several connections" Kysely would queue every query behind a lock of its own.
      createAdapter: () => Object.defineProperty(parts.createAdapter(), 'supportsMultipleConnections', { value: true }),
      createDriver: () => ({
        init: async () => {},
        acquireConnection: async () => connection,
        beginTransaction: never,
        commitTransaction: never,
        rollbackTransaction: async () => {},
        releaseConnection: async () => {},
        destroy: async () => {},
      }),
    },
  })
}

/** Counts what runs, so that closing waits for it and refuses what comes after. */
export class Attendance {
  readonly #left = Promise.withResolvers<void>()
  #running = 0
  #isOver = false

  async during<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isOver) throw new Refusal('unavailable', 'the store is closed')
    this.#running++
    try {
      return await work()
    } finally {
      this.#running--
      this.#look()
    }
  }

  /** Resolved when the last one has left. */
  end(): Promise<void> {
    this.#isOver = true
    this.#look()
    return this.#left.promise
  }

  #look(): void {
    if (this.#isOver && this.#running === 0) this.#left.resolve()
  }
}
