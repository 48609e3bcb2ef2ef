// The single writer of a process. Transactions of one event loop turn share a commit, because commits are expensive.
import { setImmediate as immediate, setTimeout as pause } from 'node:timers/promises'
import { type FaultHandler, throwUncaught } from '../../lib/fault-boundary.ts'
import type { Tx } from '../engine.ts'
import { RunningTx } from '../running-transaction.ts'
import type { SqliteConnection } from './connection.ts'
import { createSyncError, isBusy, isDiskError, translateSqliteError } from './errors.ts'

/** Longer than the first pauses of a process that waits for the lock. */
const GIVE_WAY_MS = 4
/** Tries with short pauses. */
const SOON_TRIES = 10
/** Limits of a batch, so that other processes can write too. */
const BATCH_JOBS = 256
const BATCH_MS = 20

type WriterConnection = Pick<SqliteConnection, 'path' | 'exec' | 'isInTransaction' | 'query' | 'translateError'>

interface Job {
  readonly work: (tx: Tx) => Promise<unknown>
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
  /** When to stop waiting for other processes. */
  readonly deadline: number
  /** It failed in a shared commit and is retried in one of its own. */
  readonly isAlone: boolean
}

interface JobResult {
  readonly job: Job
  /** Runs the commit callbacks of the job. */
  notifyCommitted(): void
  /** Settles the promise of the caller. Jobs of a batch see each other's rows, so it must wait for the commit. */
  settle(): void
}

interface WriterOptions {
  readonly busyMs: number
  /** A transaction that awaits anything but the store fails. */
  readonly strict: boolean
  readonly onDiskError?: (error: unknown) => void
  /** Gets the exceptions of commit callbacks. */
  readonly onFault?: FaultHandler | undefined
  /** Runs after each commit, before the next one: keeps the log short. */
  readonly checkpoint?: () => Promise<void> | undefined
  /** Resolves when the commit is on disk; absent if commits wait for the disk themselves. */
  readonly afterCommit?: () => Promise<void>
  /** Clock for the time limit of a batch. */
  readonly now?: () => number
  /** Called when another process has the lock, once for each wait. */
  readonly onBusy?: () => void
  /** Called with the seconds that a batch waited for the lock. */
  readonly onWait?: (seconds: number) => void
}

export class Writer {
  readonly #connection: WriterConnection
  readonly #options: WriterOptions
  readonly #now: () => number
  readonly #queue: Job[] = []
  readonly #onFailure: FaultHandler
  #isRunning = false
  #givesWay = false

  constructor(connection: WriterConnection, options: WriterOptions) {
    this.#onFailure = options.onDiskError ?? throwUncaught
    this.#connection = connection
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  run<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const deadline = performance.now() + this.#options.busyMs
      // The queue contains jobs of different result types.
      this.#queue.push({ work, resolve: resolve as (value: unknown) => void, reject, deadline, isAlone: false })
      // An exception leaves a transaction in an unknown state, like a failure of the disk.
      if (!this.#isRunning) this.#runQueue().catch(this.#onFailure)
    })
  }

  /** Pauses before the next batch, so that another process can take the lock. */
  giveWay(): void {
    this.#givesWay = true
  }

  async #runQueue(): Promise<void> {
    this.#isRunning = true
    do {
      await immediate()
      if (this.#givesWay) await pause(GIVE_WAY_MS)
      this.#givesWay = false
      if (await this.#begin()) await this.#runBatch()
    } while (this.#queue.length > 0)
    // In the same tick as the check of the queue, so that no job is missed.
    this.#isRunning = false
  }

  /** Takes the write lock. Rejects jobs past their deadline; returns false if none is left. */
  async #begin(): Promise<boolean> {
    const started = performance.now()
    for (let tries = 1; this.#queue.length > 0; tries++) {
      try {
        this.#connection.exec('begin immediate')
        this.#options.onWait?.((performance.now() - started) / 1000)
        return true
      } catch (error) {
        this.#reportDiskError(error)
        const now = isBusy(error) ? performance.now() : Number.POSITIVE_INFINITY
        this.#rejectJobs((job) => job.deadline <= now, error)
        if (tries === 1) this.#options.onBusy?.()
      }
      // Soon at first: the process that has the lock may give way.
      await pause(1 + Math.random() * (tries < SOON_TRIES ? 2 : 9))
    }
    return false
  }

  #rejectJobs(isRejected: (job: Job) => boolean, error: unknown): void {
    const waiting = this.#queue.splice(0)
    this.#queue.push(...waiting.filter((job) => !isRejected(job)))
    for (const job of waiting.filter(isRejected)) job.reject(translateSqliteError(this.#connection.path, error))
  }

  async #runBatch(): Promise<void> {
    const results: JobResult[] = []
    const started = this.#now()
    for (let job = this.#queue.shift(); job; job = this.#nextOfBatch(job, results.length, started)) {
      const result = await this.#runJob(job, results.length === 0)
      if (!this.#connection.isInTransaction) {
        result.settle()
        return this.#retryAlone(results)
      }
      results.push(result)
    }
    try {
      this.#connection.exec('commit')
    } catch (error) {
      const isDisk = this.#reportDiskError(error)
      this.#rollBack()
      if (results.length > 1 && !isDisk) return this.#retryAlone(results)
      for (const { job } of results) job.reject(translateSqliteError(this.#connection.path, error))
      return
    }
    // The sync runs in parallel.
    this.#settleAfterSync(results).catch(this.#onFailure)
    for (const { notifyCommitted } of results) notifyCommitted()
    await this.#options.checkpoint?.()
  }

  /** Callers wait until their commit is on disk; the next batch does not. */
  async #settleAfterSync(results: readonly JobResult[]): Promise<void> {
    try {
      await this.#options.afterCommit?.()
    } catch (error) {
      const syncError = createSyncError(this.#connection.path, error)
      this.#options.onDiskError?.(syncError)
      for (const { job } of results) job.reject(syncError)
      return
    }
    for (const { settle } of results) settle()
  }

  /** The next job that shares the commit of `before`. */
  #nextOfBatch(before: Job, count: number, started: number): Job | undefined {
    const isFull = count >= BATCH_JOBS || this.#now() - started > BATCH_MS
    if (isFull || before.isAlone || this.#queue[0]?.isAlone) return undefined
    return this.#queue.shift()
  }

  /** Queues the jobs of a failed batch again, each with a commit of its own. */
  #retryAlone(results: readonly JobResult[]): void {
    this.#queue.unshift(...results.map(({ job }) => ({ ...job, isAlone: true })))
  }

  /** Runs a job in a savepoint, so that its failure does not affect others. The first needs none. */
  async #runJob(job: Job, isFirst: boolean): Promise<JobResult> {
    const tx = new RunningTx(this.#connection, this.#options.onFault)
    try {
      if (!isFirst) this.#connection.exec('savepoint job')
      const value = await this.#runWork(tx, job.work)
      if (!isFirst) this.#connection.exec('release job')
      return { job, notifyCommitted: () => tx.notifyCommitted(), settle: () => job.resolve(value) }
    } catch (error) {
      if (isFirst) this.#rollBack()
      else this.#rollBackJob()
      return {
        job,
        notifyCommitted: () => {},
        settle: () => job.reject(translateSqliteError(this.#connection.path, error)),
      }
    }
  }

  async #runWork(tx: RunningTx, work: Job['work']): Promise<unknown> {
    try {
      return await (this.#options.strict ? runStrictly(tx, work) : tx.runWork(work))
    } catch (error) {
      this.#reportDiskError(tx.failure)
      throw error
    }
  }

  /** Reports a disk failure; returns whether it was one. */
  #reportDiskError(error: unknown): boolean {
    const isDisk = isDiskError(error)
    if (isDisk) this.#options.onDiskError?.(translateSqliteError(this.#connection.path, error))
    return isDisk
  }

  #rollBackJob(): void {
    // A disk error may have ended the whole transaction, not only the savepoint.
    if (!this.#connection.isInTransaction) return
    try {
      this.#connection.exec('rollback to job')
      this.#connection.exec('release job')
    } catch {
      this.#rollBack()
    }
  }

  #rollBack(): void {
    try {
      if (this.#connection.isInTransaction) this.#connection.exec('rollback')
    } catch {
      // The next `begin` reports the problem to all waiting jobs.
    }
  }
}

/** Statements complete without an event loop turn, so a turn means that something else was awaited. */
async function runStrictly(tx: RunningTx, work: Job['work']): Promise<unknown> {
  let hasTurned = false
  const onTurn = (): void => {
    hasTurned = true
  }
  // A timer of the transaction may fire before the next immediate, but not before an earlier timer of the same length.
  const [turn, timer] = [setImmediate(onTurn), setTimeout(onTurn, 1)]
  try {
    const value = await tx.runWork(work)
    if (hasTurned) throw new Error('a transaction waited for something outside the store')
    return value
  } finally {
    clearImmediate(turn)
    clearTimeout(timer)
  }
}
