// Work that comes one by one and is written many at a time: group commit without a timer.
// While a batch is being written, everything that arrives forms the next one.
import { Refusal } from '../../lib/refusal.ts'
import type { Dialect, Tx } from '../engine.ts'

/** What is done with the items. */
export interface LaneHandler<I, O> {
  /**
   * All of them in one transaction; the answers in the order of the items. May be run again. `isAll`: nothing else is done
   * in the same transaction.
   */
  run(tx: Tx, dialect: Dialect, items: readonly I[], isAll?: boolean): Promise<readonly O[]>
  /** What is left to do behind the answers, a piece at a time, while nobody waits. */
  runDeferred(tx: Tx, dialect: Dialect): Promise<DeferredResult>
  /** Whether somebody waits for what the tidying makes of it. */
  isUrgent(item: I): boolean
  /** What an item weighs, in bytes. */
  byteSize(item: I): number
  /** Whose it is: nobody gets more than a share of a batch while others wait. */
  source(item: I): string
}

export interface DeferredResult {
  /** Whether there is more of it. */
  readonly isMore: boolean
  /** Whom it concerns, for whoever listens; absent: anybody. */
  readonly keys?: readonly string[]
}

export interface Lane<I, O> {
  /** Resolved when the item is on disk. Refused when there is too much to do, or when it takes too long. */
  push(item: I): Promise<O>
  /** The same for whoever has no use for a promise: one of the two is called, once or more; the first counts. */
  pushFor(item: I, waiter: Waiter<O>): void
  close(): Promise<void>
}

export interface Waiter<O> {
  resolve(value: O): void
  reject(error: unknown): void
}

export interface LaneOptions {
  /** A batch is about to be written and tidied, and a transaction that is asked for now comes right behind it, in its commit. */
  readonly onTidying?: () => void
  /** When a piece of tidying is committed; `wasComing`: `onTidying` was called for it. */
  readonly onTidied?: (tidied: DeferredResult, wasComing: boolean) => void
  readonly limits?: Partial<LaneLimits>
}

export interface LaneLimits {
  readonly batchItems: number
  readonly batchBytes: number
  readonly queueItems: number
  readonly queueBytes: number
  /** How long an item waits before whoever sent it is told that it takes too long. */
  readonly waitMs: number
}

export const LANE_LIMITS: LaneLimits = {
  batchItems: 256,
  batchBytes: 4 * 1024 * 1024,
  queueItems: 4096,
  queueBytes: 64 * 1024 * 1024,
  waitMs: 5000,
}

/** Where a batch is written: one at a time, all of it in one transaction. */
export interface WriteQueue<I, O> {
  write(items: readonly I[]): Promise<readonly O[]>
  close(): Promise<void>
}

/** So many are worth a batch of their own while more arrive. */
const EAGER = 32

interface Waiting<I, O> {
  readonly item: I
  readonly bytes: number
  readonly source: string
  readonly since: number
  readonly waiter: Waiter<O>
}

export class QueuedLane<I, O> implements Lane<I, O> {
  readonly #work: LaneHandler<I, O>
  readonly #desk: WriteQueue<I, O>
  readonly #limits: LaneLimits
  readonly #idle: (() => void)[] = []
  #queue: Waiting<I, O>[] = []
  #written: readonly Waiting<I, O>[] = []
  /** Of what waits and of what is being written. */
  #items = 0
  #bytes = 0
  #isAsked = false
  #isClosed = false
  #closed: Promise<void> | undefined
  #watch: NodeJS.Timeout | undefined

  constructor(work: LaneHandler<I, O>, desk: WriteQueue<I, O>, limits: Partial<LaneLimits> = {}) {
    this.#work = work
    this.#desk = desk
    this.#limits = { ...LANE_LIMITS, ...limits }
  }

  push(item: I): Promise<O> {
    return new Promise((resolve, reject) => this.pushFor(item, { resolve, reject }))
  }

  pushFor(item: I, waiter: Waiter<O>): void {
    const { queueItems, queueBytes } = this.#limits
    const bytes = this.#work.byteSize(item)
    if (this.#isClosed) return void waiter.reject(new Refusal('unavailable', 'the store is closed'))
    if (this.#items >= queueItems || this.#bytes + bytes > queueBytes) return void waiter.reject(tooMuch())
    this.#items++
    this.#bytes += bytes
    this.#queue.push({ item, bytes, source: this.#work.source(item), since: performance.now(), waiter })
    this.#watch ??= setInterval(() => this.#refuseLate(), 250).unref()
    // One batch at a time: what arrives meanwhile forms the next.
    if (this.#written.length > 0) return
    // While a turn of the event loop takes long, the desk need not wait for its end.
    if (this.#queue.length >= EAGER) this.#send()
    else this.#sendSoon()
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#isClosed = true
    if (this.#items > 0) await new Promise<void>((resolve) => this.#idle.push(resolve))
    clearInterval(this.#watch)
    await this.#desk.close()
  }

  /** What arrives in the same turn of the event loop shares the commit. */
  #sendSoon(): void {
    if (this.#isAsked) return
    this.#isAsked = true
    setImmediate(() => {
      this.#isAsked = false
      this.#send()
    })
  }

  #send(): void {
    if (this.#queue.length > 0 && this.#written.length === 0) void this.#write(this.#take())
  }

  async #write(batch: readonly Waiting<I, O>[]): Promise<void> {
    this.#written = batch
    try {
      const items: I[] = []
      for (const { item } of batch) items.push(item)
      const answers = await this.#desk.write(items)
      if (answers.length !== items.length) throw new Error('the work left an item without an answer')
      let at = 0
      for (const answer of answers) batch[at++]?.waiter.resolve(answer)
    } catch (error) {
      for (const { waiter } of batch) waiter.reject(error)
    }
    this.#written = []
    this.#forget(batch)
    if (this.#queue.length > 0) this.#send()
    else if (this.#items === 0) this.#rest()
  }

  #rest(): void {
    clearInterval(this.#watch)
    this.#watch = undefined
    for (const tell of this.#idle.splice(0)) tell()
  }

  #forget(gone: readonly Waiting<I, O>[]): void {
    this.#items -= gone.length
    for (const { bytes } of gone) this.#bytes -= bytes
  }

  #take(): readonly Waiting<I, O>[] {
    const { batchItems, batchBytes } = this.#limits
    if (this.#queue.length <= batchItems && this.#bytes <= batchBytes) {
      const all = this.#queue
      this.#queue = []
      return all
    }
    return this.#takeFairly()
  }

  /** In turns between the sources, each in its own order: a flood of one does not hold up the others. */
  #takeFairly(): readonly Waiting<I, O>[] {
    const { batchItems, batchBytes } = this.#limits
    const sources = Map.groupBy(this.#queue, ({ source }) => source)
    const share = sources.size > 1 ? Math.ceil(batchItems / 4) : batchItems
    const batch = new Set<Waiting<I, O>>()
    let bytes = 0
    for (let round = 0; round < share && batch.size < batchItems; round++) {
      for (const waiting of sources.values()) {
        const next = waiting[round]
        if (next === undefined || batch.size >= batchItems) continue
        // One that is alone larger than a batch goes all the same.
        if (batch.size > 0 && bytes + next.bytes > batchBytes) {
          round = share
          break
        }
        batch.add(next)
        bytes += next.bytes
      }
    }
    this.#queue = this.#queue.filter((waiting) => !batch.has(waiting))
    return [...batch]
  }

  /** Whoever waits too long is told; what is being written may be written all the same. */
  #refuseLate(): void {
    const oldest = performance.now() - this.#limits.waitMs
    const late = this.#queue.filter(({ since }) => since < oldest)
    if (late.length > 0) {
      this.#queue = this.#queue.filter(({ since }) => since >= oldest)
      this.#forget(late)
    }
    for (const { since, waiter } of [...late, ...this.#written])
      if (since < oldest)
        waiter.reject(new Refusal('unavailable', 'the store does not answer in time', 'try again in a moment'))
  }
}

function tooMuch(): Refusal {
  return new Refusal('unavailable', 'there is more to write than the store can take', 'try again in a moment')
}
