// A transaction while it runs, the same on every engine: what it may still do, and what went wrong in it.
import { AsyncLocalStorage } from 'node:async_hooks'
import { Refusal } from '../lib/refusal.ts'
import type { QueryResult, RunResult, Statement, Tx, Value } from './engine.ts'

/** One connection, as an engine gives it to a transaction. */
export interface TransactionConnection {
  query(sql: string, parameters: readonly unknown[]): QueryResult | Promise<QueryResult>
  /** Where a statement is a round trip: the same, and the commit with it. */
  queryLast?(sql: string, parameters: readonly unknown[]): Promise<QueryResult>
  /** Where the store is in this process. */
  runEach?(sql: string, rows: readonly (readonly Value[])[]): readonly RunResult[]
  /** What an error of the store means to whoever asked. */
  translateError(error: unknown): unknown
}

/** What every engine says of a key that is there already, and of a foreign key that does not hold. */
export const DUPLICATE_KEY_MESSAGE = 'there is one with this key already'
export const FOREIGN_KEY_MESSAGE = 'it names a row of another table that is not there, or is named by one that is'

const inside = new AsyncLocalStorage<RunningTx>()

/** A transaction opened inside another one would wait for itself for ever, so it is an error at once. */
export function refuseNestedTransaction(): void {
  if (inside.getStore()?.isOpen) throw new Error('a transaction was opened inside another one')
}

export class RunningTx implements Tx {
  readonly #connected: TransactionConnection
  readonly executeEach?: (sql: string, rows: readonly (readonly Value[])[]) => readonly RunResult[]
  readonly executeLast?: NonNullable<Tx['executeLast']>
  #isOpen = true
  #failure: { readonly raw: unknown; readonly said: unknown } | undefined
  readonly #onCommit: (() => void)[] = []

  constructor(connected: TransactionConnection) {
    this.#connected = connected
    const { runEach, queryLast } = connected
    if (runEach) this.executeEach = (sql, rows) => this.#attempt(() => runEach.call(connected, sql, rows))
    if (queryLast)
      this.executeLast = async (query) => {
        const result = await this.#execute((sql, parameters) => queryLast.call(connected, sql, parameters), query)
        this.#isOpen = false
        return result
      }
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** The first error of a statement, as the driver threw it. */
  get failure(): unknown {
    return this.#failure?.raw
  }

  executeQuery(query: Statement): Promise<QueryResult> {
    return this.#execute((sql, parameters) => this.#connected.query(sql, parameters), query)
  }

  async #execute(query: TransactionConnection['query'], { sql, parameters }: Statement): Promise<QueryResult> {
    this.#mustGoOn()
    try {
      return await query(sql, parameters)
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
    this.#failure ??= { raw, said: this.#connected.translateError(raw) }
    return this.#failure.said
  }

  onCommit(then: () => void): void {
    this.#onCommit.push(then)
  }

  /** The engine has committed it. */
  notifyCommitted(): void {
    // Not called here: an error in one of them is none of the store.
    for (const then of this.#onCommit.splice(0)) queueMicrotask(then)
  }

  /** Runs `work` inside; an error of a statement comes out even when `work` swallowed it. */
  async runWork<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    try {
      const value = await inside.run(this, work, this)
      if (this.#failure) throw this.#failure.said
      return value
    } finally {
      this.#isOpen = false
    }
  }
}

/** Counts what runs, so that closing waits for it and refuses what comes after. */
export class InFlightOperations {
  readonly #left = Promise.withResolvers<void>()
  #running = 0
  #isOver = false

  async track<T>(work: () => Promise<T>): Promise<T> {
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
  drain(): Promise<void> {
    this.#isOver = true
    this.#look()
    return this.#left.promise
  }

  #look(): void {
    if (this.#isOver && this.#running === 0) this.#left.resolve()
  }
}
