// Lanes whose batches are written in transactions of an engine, followed by their deferred work.
import type { Engine, Tx } from '../engine.ts'
import { DeferredWork } from './deferred-work.ts'
import {
  type DeferredResult,
  type Lane,
  type LaneHandler,
  type LaneOptions,
  QueuedLane,
  type WriteQueue,
} from './lane.ts'

type TransactionEngine = Pick<Engine, 'dialect' | 'transaction'>

/** Opens a queue for single items that are written in batches. */
export function openLane<I, O>(
  engine: TransactionEngine,
  handler: LaneHandler<I, O>,
  options: LaneOptions = {},
): Lane<I, O> {
  return new QueuedLane(handler, new TransactionWriteQueue(handler, engine, options), options)
}

interface BatchResult<O> {
  readonly answers: readonly O[]
  /** Whether more deferred work is left. */
  readonly isMore: boolean
}

export class TransactionWriteQueue<I, O> implements WriteQueue<I, O> {
  readonly #handler: LaneHandler<I, O>
  readonly #engine: TransactionEngine
  readonly #options: LaneOptions
  readonly #deferred: DeferredWork

  constructor(handler: LaneHandler<I, O>, engine: TransactionEngine, options: LaneOptions = {}) {
    this.#handler = handler
    this.#engine = engine
    this.#options = options
    this.#deferred = new DeferredWork(() => engine.transaction((tx) => this.#runDeferred(tx, false)), options.onFault)
  }

  write(items: readonly I[]): Promise<readonly O[]> {
    return this.#deferred.pauseDuring(() => this.#write(items))
  }

  /** If a client waits for the result of the deferred work, it runs in the same commit. */
  async #write(items: readonly I[]): Promise<readonly O[]> {
    const { dialect } = this.#engine
    const isUrgent = items.some(this.#handler.isUrgent)
    const canShareCommit = this.#deferred.canRunInSameCommit(items.length, isUrgent)
    const writing = canShareCommit ? this.#writeWithDeferred(items) : undefined
    if (writing && !dialect.isRemote) this.#options.onDeferredStart?.()
    const result = await writing
    if (result?.isMore) this.#deferred.continueSoon()
    if (result) return result.answers
    const answers = await this.#engine.transaction((tx) => this.#handler.run(tx, dialect, items, true))
    this.#deferred.schedule(items.length, isUrgent)
    return answers
  }

  close(): Promise<void> {
    return this.#deferred.close()
  }

  async #runDeferred(tx: Tx, wasAnnounced: boolean): Promise<DeferredResult> {
    const result = await this.#handler.runDeferred(tx, this.#engine.dialect)
    tx.onCommit(() => this.#options.onDeferredCommit?.(result, wasAnnounced))
    return result
  }

  /** Returns undefined if the deferred work failed. Other errors are thrown: after a failed commit the outcome is unknown. */
  async #writeWithDeferred(items: readonly I[]): Promise<BatchResult<O> | undefined> {
    const { dialect } = this.#engine
    let isInDeferred = false
    try {
      return await this.#engine.transaction(async (tx) => {
        isInDeferred = false
        const answers = await this.#handler.run(tx, dialect, items)
        isInDeferred = true
        const { isMore } = await this.#runDeferred(tx, !dialect.isRemote)
        isInDeferred = false
        return { answers, isMore }
      })
    } catch (error) {
      if (!isInDeferred) throw error
      return undefined
    }
  }
}
