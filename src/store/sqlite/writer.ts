// The one writer of a process. Calls of one turn of the event loop share one commit, which is where the time goes.
import { setImmediate as immediate, setTimeout as pause } from 'node:timers/promises'
import type { Tx } from '../engine.ts'
import { RunningTx } from '../running-transaction.ts'
import type { SqliteConnection } from './connection.ts'
import { createSyncError, isBusy, isDiskError, translateSqliteError } from './errors.ts'

/** A batch ends here, so that other processes get their turn. */
const BATCH_JOBS = 256
const BATCH_MS = 20

/** What the writer needs of a connection. */
type WriterConnection = Pick<SqliteConnection, 'path' | 'exec' | 'isInTransaction' | 'query' | 'translateError'>

interface Job {
  readonly work: (tx: Tx) => Promise<unknown>
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
  /** How long it waits for other processes. */
  readonly deadline: number
  /** It was lost with others and shares no commit any more. */
  readonly alone: boolean
}

interface JobResult {
  readonly job: Job
  /** Runs what the job asked to be told of its commit. */
  committed(): void
  /** Tells the caller; for the others of the batch only after the commit, since they have seen each other's rows. */
  tell(): void
}

export interface WriterOptions {
  readonly busyMs: number
  /** Awaiting anything but the store inside a transaction is an error. */
  readonly strict: boolean
  readonly onDiskError?: (error: unknown) => void
  /** Behind each commit, before the next one: keeps the log short. */
  readonly checkpoint?: () => Promise<void> | undefined
  /** Resolved when what was committed is on the disk; absent where the commit itself waits for that. */
  readonly afterCommit?: () => Promise<void>
  /** By which a batch is ended. */
  readonly now?: () => number
}

export class Writer {
  readonly #connection: WriterConnection
  readonly #options: WriterOptions
  readonly #now: () => number
  readonly #queue: Job[] = []
  #isPumping = false

  constructor(connection: WriterConnection, options: WriterOptions) {
    this.#connection = connection
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  run<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const deadline = performance.now() + this.#options.busyMs
      // The queue holds jobs of all types; each one's value goes back to its own promise.
      this.#queue.push({ work, resolve: resolve as (value: unknown) => void, reject, deadline, alone: false })
      if (!this.#isPumping) void this.#pump()
    })
  }

  async #pump(): Promise<void> {
    this.#isPumping = true
    do {
      await immediate()
      if (await this.#begin()) await this.#batch()
    } while (this.#queue.length > 0)
    // In one breath with the look at the queue: whoever comes next finds that nobody pumps.
    this.#isPumping = false
  }

  /** Takes the write lock; false when nobody waits for it any more. Whoever has waited too long is told. */
  async #begin(): Promise<boolean> {
    while (this.#queue.length > 0) {
      try {
        this.#connection.exec('begin immediate')
        return true
      } catch (error) {
        this.#judge(error)
        const now = isBusy(error) ? performance.now() : Number.POSITIVE_INFINITY
        this.#refuse((job) => job.deadline <= now, error)
      }
      await pause(1 + Math.random() * 9)
    }
    return false
  }

  #refuse(among: (job: Job) => boolean, error: unknown): void {
    const waiting = this.#queue.splice(0)
    this.#queue.push(...waiting.filter((job) => !among(job)))
    for (const job of waiting.filter(among)) job.reject(translateSqliteError(this.#connection.path, error))
  }

  async #batch(): Promise<void> {
    const ran: JobResult[] = []
    const started = this.#now()
    for (let job = this.#queue.shift(); job; job = this.#follower(job, ran.length, started)) {
      const outcome = await this.#attempt(job, ran.length === 0)
      if (!this.#connection.isInTransaction) {
        outcome.tell()
        return this.#again(ran)
      }
      ran.push(outcome)
    }
    try {
      this.#connection.exec('commit')
    } catch (error) {
      const isDisk = this.#judge(error)
      this.#rollBack()
      if (ran.length > 1 && !isDisk) return this.#again(ran)
      for (const { job } of ran) job.reject(translateSqliteError(this.#connection.path, error))
      return
    }
    // The sync runs meanwhile.
    void this.#tell(ran)
    for (const { committed } of ran) committed()
    await this.#options.checkpoint?.()
  }

  /** Each caller hears of its commit when it is on the disk; meanwhile the next batch may be written. */
  async #tell(ran: readonly JobResult[]): Promise<void> {
    try {
      await this.#options.afterCommit?.()
    } catch (error) {
      const told = createSyncError(this.#connection.path, error)
      this.#options.onDiskError?.(told)
      for (const { job } of ran) job.reject(told)
      return
    }
    for (const { tell } of ran) tell()
  }

  /** Who shares the commit of the job before. */
  #follower(before: Job, count: number, started: number): Job | undefined {
    const isFull = count >= BATCH_JOBS || this.#now() - started > BATCH_MS
    if (isFull || before.alone || this.#queue[0]?.alone) return undefined
    return this.#queue.shift()
  }

  /** What one of them, or all together, could not do, each may do for itself. */
  #again(ran: readonly JobResult[]): void {
    this.#queue.unshift(...ran.map(({ job }) => ({ ...job, alone: true })))
  }

  /** Each job is a savepoint, so that its failure is its own; the first needs none, because nothing is before it. */
  async #attempt(job: Job, isFirst: boolean): Promise<JobResult> {
    const tx = new RunningTx(this.#connection)
    try {
      if (!isFirst) this.#connection.exec('savepoint job')
      const value = await this.#inside(tx, job.work)
      if (!isFirst) this.#connection.exec('release job')
      return { job, committed: () => tx.notifyCommitted(), tell: () => job.resolve(value) }
    } catch (error) {
      if (isFirst) this.#rollBack()
      else this.#rollBackJob()
      return { job, committed: () => {}, tell: () => job.reject(translateSqliteError(this.#connection.path, error)) }
    }
  }

  async #inside(tx: RunningTx, work: Job['work']): Promise<unknown> {
    try {
      return await this.#enclosed(tx, work)
    } catch (error) {
      this.#judge(tx.failure)
      throw error
    }
  }

  async #enclosed(tx: RunningTx, work: Job['work']): Promise<unknown> {
    if (!this.#options.strict) return tx.runWork(work)
    let hasStrayed = false
    // Statements are answered without a turn of the event loop, so a turn means that something else was awaited.
    const turn = setImmediate(() => {
      hasStrayed = true
    })
    try {
      const value = await tx.runWork(work)
      if (hasStrayed) throw new Error('a transaction waited for something outside the store')
      return value
    } finally {
      clearImmediate(turn)
    }
  }

  /** Whether the disk failed, which whoever opened the store is told. */
  #judge(error: unknown): boolean {
    const isDisk = isDiskError(error)
    if (isDisk) this.#options.onDiskError?.(translateSqliteError(this.#connection.path, error))
    return isDisk
  }

  #rollBackJob(): void {
    // A full disk or a failing one may have ended the whole transaction, not only this savepoint.
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
      // Then the next `begin` says what is wrong, to everyone who waits for it.
    }
  }
}
