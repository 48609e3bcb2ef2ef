// The state of a running transaction, shared by the engines: whether it is open, and its first error.
import { AsyncLocalStorage } from 'node:async_hooks'
import { type FaultHandler, guard, throwUncaught } from '../lib/fault-boundary.ts'
import { Refusal } from '../lib/refusal.ts'
import type { QueryResult, RunResult, Statement, Tx, Value } from './engine.ts'

/** The connection that an engine provides to a transaction. */
export interface TransactionConnection {
  query(sql: string, parameters: readonly unknown[]): QueryResult | Promise<QueryResult>
  /** Runs the last statement and commits. Only where statements are round trips. */
  queryLast?(sql: string, parameters: readonly unknown[]): Promise<QueryResult>
  /** Only where the store is in this process. */
  runEach?(sql: string, rows: readonly (readonly Value[])[]): readonly RunResult[]
  /** Translates an error of the driver for the caller. */
  translateError(error: unknown): unknown
}

export const DUPLICATE_KEY_MESSAGE = 'this key is already in use'
export const FOREIGN_KEY_MESSAGE = 'it refers to a row that does not exist, or another row refers to it'

const currentTransaction = new AsyncLocalStorage<RunningTx>()

/** A nested transaction would deadlock, so it is an error. */
export function refuseNestedTransaction(): void {
  if (currentTransaction.getStore()?.isOpen) throw new Error('a transaction was opened inside another one')
}

export class RunningTx implements Tx {
  readonly #connection: TransactionConnection
  readonly executeEach?: (sql: string, rows: readonly (readonly Value[])[]) => readonly RunResult[]
  readonly executeLast?: NonNullable<Tx['executeLast']>
  #isOpen = true
  #failure: { readonly raw: unknown; readonly translated: unknown } | undefined
  readonly #onCommit: (() => void)[] = []
  readonly #onFault: FaultHandler

  /** `onFault` gets the exceptions of commit callbacks. */
  constructor(connection: TransactionConnection, onFault: FaultHandler = throwUncaught) {
    this.#connection = connection
    this.#onFault = onFault
    const { runEach, queryLast } = connection
    if (runEach) this.executeEach = (sql, rows) => this.#attempt(() => runEach.call(connection, sql, rows))
    if (queryLast)
      this.executeLast = async (query) => {
        const result = await this.#execute((sql, parameters) => queryLast.call(connection, sql, parameters), query)
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
    return this.#execute((sql, parameters) => this.#connection.query(sql, parameters), query)
  }

  async #execute(query: TransactionConnection['query'], { sql, parameters }: Statement): Promise<QueryResult> {
    this.#requireUsable()
    try {
      return await query(sql, parameters)
    } catch (raw) {
      throw this.#recordFailure(raw)
    }
  }

  #attempt<T>(statement: () => T): T {
    this.#requireUsable()
    try {
      return statement()
    } catch (raw) {
      throw this.#recordFailure(raw)
    }
  }

  #requireUsable(): void {
    // A statement that was not awaited would run in another caller's transaction.
    if (!this.#isOpen) throw new Error('a statement was executed after its transaction ended')
    if (this.#failure) throw this.#failure.translated
  }

  #recordFailure(raw: unknown): unknown {
    this.#failure ??= { raw, translated: this.#connection.translateError(raw) }
    return this.#failure.translated
  }

  onCommit(then: () => void): void {
    this.#onCommit.push(then)
  }

  /** Called by the engine after the commit. */
  notifyCommitted(): void {
    // In microtasks, so that an error of a callback does not fail the commit.
    for (const then of this.#onCommit.splice(0)) queueMicrotask(guard(this.#onFault, then))
  }

  /** Runs `work`. Throws the error of a failed statement even if `work` caught it. */
  async runWork<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    try {
      const value = await currentTransaction.run(this, work, this)
      if (this.#failure) throw this.#failure.translated
      return value
    } finally {
      this.#isOpen = false
    }
  }
}

/** Counts running operations, so that close() can wait for them and refuse new ones. */
export class InFlightOperations {
  readonly #drained = Promise.withResolvers<void>()
  #running = 0
  #isClosed = false

  async track<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new Refusal('unavailable', 'the store is closed')
    this.#running++
    try {
      return await work()
    } finally {
      this.#running--
      this.#resolveIfDrained()
    }
  }

  /** Refuses new operations and resolves when the last one has ended. */
  drain(): Promise<void> {
    this.#isClosed = true
    this.#resolveIfDrained()
    return this.#drained.promise
  }

  #resolveIfDrained(): void {
    if (this.#isClosed && this.#running === 0) this.#drained.resolve()
  }
}
