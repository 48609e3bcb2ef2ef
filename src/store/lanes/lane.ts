// Group commit without a timer: single items are queued and written in batches. Items that arrive while a batch is being
// written form the next batch.
import { type FaultHandler, guard, throwUncaught } from '../../lib/fault-boundary.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Dialect, Tx } from '../engine.ts'

export interface LaneHandler<I, O> {
  /**
   * Writes all items in one transaction and returns the answers in the order of the items. May run more than once.
   * `isAlone`: the transaction does nothing else.
   */
  run(tx: Tx, dialect: Dialect, items: readonly I[], isAlone?: boolean): Promise<readonly O[]>
  /** Runs one piece of the work that clients need not wait for. */
  runDeferred(tx: Tx, dialect: Dialect): Promise<DeferredResult>
  /** Whether a client waits for the result of the deferred work. */
  isUrgent(item: I): boolean
  byteSize(item: I): number
  /** The sender. While several senders have items in the queue, none gets more than a share of a batch. */
  source(item: I): string
}

export interface DeferredResult {
  /** Whether more deferred work is left. */
  readonly isMore: boolean
  /** The keys that listeners wake up for; undefined wakes up all. */
  readonly keys?: readonly string[]
}

export interface Lane<I, O> {
  /** Resolves when the item is on disk. Rejects if the queue is full or the write takes too long. */
  push(item: I): Promise<O>
  /** The same without a promise. A waiter may be called more than once; only the first call counts. */
  pushFor(item: I, waiter: Waiter<O>): void
  close(): Promise<void>
}

export interface Waiter<O> {
  resolve(value: O): void
  reject(error: unknown): void
}

export interface LaneOptions {
  /** A batch and its deferred work are about to be written. A transaction that starts now shares their commit. */
  readonly onDeferredStart?: () => void
  /** A piece of deferred work is committed. `wasAnnounced`: `onDeferredStart` was called for it. */
  readonly onDeferredCommit?: (result: DeferredResult, wasAnnounced: boolean) => void
  readonly limits?: Partial<LaneLimits>
  /** Gets the exceptions of waiters and of deferred work. */
  readonly onFault?: FaultHandler
}

export interface LaneLimits {
  readonly batchItems: number
  readonly batchBytes: number
  readonly queueItems: number
  readonly queueBytes: number
  /** After this time an item is rejected. */
  readonly waitMs: number
}

export const LANE_LIMITS: LaneLimits = {
  batchItems: 256,
  batchBytes: 4 * 1024 * 1024,
  queueItems: 4096,
  queueBytes: 64 * 1024 * 1024,
  // Longer than a frozen process can keep the write lock: its parent kills it after 5 s (supervisor.ts).
  waitMs: 6500,
}

/** Writes one batch at a time, each in one transaction. */
export interface WriteQueue<I, O> {
  write(items: readonly I[]): Promise<readonly O[]>
  close(): Promise<void>
}

/** This many items are written without waiting for the end of the event loop turn. */
const EAGER_ITEMS = 32

interface QueuedItem<I, O> {
  readonly item: I
  readonly bytes: number
  readonly source: string
  readonly since: number
  readonly waiter: Waiter<O>
}

export class QueuedLane<I, O> implements Lane<I, O> {
  readonly #handler: LaneHandler<I, O>
  readonly #writer: WriteQueue<I, O>
  readonly #limits: LaneLimits
  readonly #onFault: FaultHandler
  #queue: QueuedItem<I, O>[] = []
  #writing: readonly QueuedItem<I, O>[] = []
  /** Totals of the queue and the batch that is being written. */
  #items = 0
  #bytes = 0
  #isSendScheduled = false
  #closed: Promise<void> | undefined
  #onIdle: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(
    handler: LaneHandler<I, O>,
    writer: WriteQueue<I, O>,
    { limits, onFault = throwUncaught }: Pick<LaneOptions, 'limits' | 'onFault'> = {},
  ) {
    this.#handler = handler
    this.#writer = writer
    this.#limits = { ...LANE_LIMITS, ...limits }
    this.#onFault = onFault
  }

  push(item: I): Promise<O> {
    return new Promise((resolve, reject) => this.pushFor(item, { resolve, reject }))
  }

  pushFor(item: I, waiter: Waiter<O>): void {
    const { queueItems, queueBytes } = this.#limits
    const bytes = this.#handler.byteSize(item)
    if (this.#closed) return void waiter.reject(new Refusal('unavailable', 'the store is closed'))
    if (this.#items >= queueItems || this.#bytes + bytes > queueBytes)
      return void waiter.reject(new Refusal('unavailable', 'the write queue is full', 'try again in a moment'))
    this.#items++
    this.#bytes += bytes
    this.#queue.push({ item, bytes, source: this.#handler.source(item), since: performance.now(), waiter })
    this.#timer ??= setInterval(
      guard(this.#onFault, () => this.#rejectLate()),
      250,
    ).unref()
    if (this.#writing.length > 0) return
    if (this.#queue.length >= EAGER_ITEMS) this.#send()
    else this.#sendSoon()
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    if (this.#items > 0)
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve
      })
    clearInterval(this.#timer)
    await this.#writer.close()
  }

  /** Items of the same event loop turn share a commit. */
  #sendSoon(): void {
    if (this.#isSendScheduled) return
    this.#isSendScheduled = true
    const send = (): void => {
      this.#isSendScheduled = false
      this.#send()
    }
    setImmediate(guard(this.#onFault, send))
  }

  #send(): void {
    if (this.#queue.length > 0 && this.#writing.length === 0) this.#write(this.#takeBatch()).catch(this.#onFault)
  }

  async #write(batch: readonly QueuedItem<I, O>[]): Promise<void> {
    this.#writing = batch
    try {
      const items: I[] = []
      for (const { item } of batch) items.push(item)
      const answers = await this.#writer.write(items)
      if (answers.length !== items.length) throw new Error('the handler of a lane did not answer every item')
      let at = 0
      for (const answer of answers) this.#resolve(batch[at++]?.waiter, answer)
    } catch (error) {
      for (const { waiter } of batch) this.#reject(waiter, error)
    }
    this.#writing = []
    this.#subtract(batch)
    if (this.#queue.length > 0) this.#send()
    else if (this.#items === 0) this.#becomeIdle()
  }

  /** An exception of one waiter must not fail the others of its batch, which is committed. */
  #resolve(waiter: Waiter<O> | undefined, answer: O): void {
    try {
      waiter?.resolve(answer)
    } catch (error) {
      this.#onFault(error)
    }
  }

  #reject(waiter: Waiter<O>, reason: unknown): void {
    try {
      waiter.reject(reason)
    } catch (error) {
      this.#onFault(error)
    }
  }

  #becomeIdle(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#onIdle?.()
  }

  #subtract(items: readonly QueuedItem<I, O>[]): void {
    this.#items -= items.length
    for (const { bytes } of items) this.#bytes -= bytes
  }

  #takeBatch(): readonly QueuedItem<I, O>[] {
    const { batchItems, batchBytes } = this.#limits
    if (this.#queue.length <= batchItems && this.#bytes <= batchBytes) {
      const all = this.#queue
      this.#queue = []
      return all
    }
    return this.#takeFairly()
  }

  /** Takes items from the sources in rotation, so that a flood from one source does not delay the others. */
  #takeFairly(): readonly QueuedItem<I, O>[] {
    const { batchItems, batchBytes } = this.#limits
    const sources = Map.groupBy(this.#queue, ({ source }) => source)
    const share = sources.size > 1 ? Math.ceil(batchItems / 4) : batchItems
    const batch = new Set<QueuedItem<I, O>>()
    let bytes = 0
    for (let round = 0; round < share && batch.size < batchItems; round++) {
      for (const waiting of sources.values()) {
        const next = waiting[round]
        if (next === undefined || batch.size >= batchItems) continue
        // An item that is larger than a batch is written alone.
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

  /** Rejects items that wait too long. Those that are being written may still be committed. */
  #rejectLate(): void {
    const oldest = performance.now() - this.#limits.waitMs
    const late = this.#queue.filter(({ since }) => since < oldest)
    if (late.length > 0) {
      this.#queue = this.#queue.filter(({ since }) => since >= oldest)
      this.#subtract(late)
    }
    for (const { since, waiter } of [...late, ...this.#writing])
      if (since < oldest)
        this.#reject(waiter, new Refusal('unavailable', 'the store did not answer in time', 'try again in a moment'))
  }
}
