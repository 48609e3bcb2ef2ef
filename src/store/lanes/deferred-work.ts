// When the work behind the answers is done: at once while nobody waits, and in larger pieces under load.
import type { Engine, Tx } from '../engine.ts'
import type { DeferredResult, LaneHandler, LaneOptions, WriteQueue } from './lane.ts'

/** So much work behind the answers, or work that has waited so long, is not put off any longer. */
const DUE_ITEMS = 50_000
const DUE_MS = 2000
/** A few items are tidied after the first pause; many wait for a longer one, because together they cost less. */
const FEW = 64
const PAUSE_MS = 1
const LONG_PAUSE_MS = 20
const AGAIN_MS = 1000

export class DeferredWork {
  readonly #tidy: () => Promise<DeferredResult>
  #items = 0
  /** When the first of them came. */
  #since = 0
  #isUrgent = false
  /** Batches that are being written. */
  #writing = 0
  #isPutOff = false
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #isOver = false

  constructor(tidy: () => Promise<DeferredResult>) {
    this.#tidy = tidy
    // What an earlier process left.
    this.#soon(PAUSE_MS)
  }

  /** So many items were written; `isUrgent`: somebody waits for what comes of it. */
  schedule(items: number, isUrgent = false): void {
    const now = performance.now()
    if (this.#items === 0) this.#since = now
    this.#items += items
    this.#isUrgent ||= isUrgent
    if (this.#items >= DUE_ITEMS || now - this.#since >= DUE_MS) this.#start()
    else this.#soon(isUrgent || this.#items < FEW ? PAUSE_MS : LONG_PAUSE_MS, () => this.#startBetween())
  }

  /**
   * Runs `write`. Where the disk is slow, batches come with pauses in between; what is behind them would hold up the next
   * one, so it waits until none is being written.
   */
  async pauseDuring<T>(write: () => Promise<T>): Promise<T> {
    this.#writing++
    try {
      return await write()
    } finally {
      this.#writing--
      if (this.#isPutOff && this.#writing === 0) this.#soon(PAUSE_MS, () => this.#startBetween())
    }
  }

  /** Whether so many may be tidied in the commit that they are written by: somebody waits for it, and nothing else is left. */
  canRunInSameCommit(items: number, isUrgent: boolean): boolean {
    return isUrgent && items < FEW && this.#items === 0 && !this.#timer && !this.#running
  }

  /** They were, and there was more of it. */
  goOn(): void {
    this.#soon(0)
  }

  /** Resolved when nothing runs any more; what is left is the next process's. */
  async close(): Promise<void> {
    this.#isOver = true
    clearTimeout(this.#timer)
    await this.#running
  }

  #soon(ms: number, start = () => this.#start()): void {
    clearTimeout(this.#timer)
    this.#isPutOff = false
    if (!this.#isOver) this.#timer = setTimeout(start, ms)
  }

  #startBetween(): void {
    this.#timer = undefined
    this.#isPutOff = this.#writing > 0 && !this.#isUrgent && performance.now() - this.#since < DUE_MS
    if (!this.#isPutOff) this.#start()
  }

  #start(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#isOver || this.#running) return
    this.#items = 0
    this.#isUrgent = false
    this.#running = this.#run()
  }

  async #run(): Promise<void> {
    let next: number | undefined
    try {
      if ((await this.#tidy()).isMore) next = 0
    } catch {
      // Whoever writes is told what is wrong with the store; this only comes after.
      next = AGAIN_MS
    }
    this.#running = undefined
    if (next !== undefined) this.#soon(next)
    else if (this.#items > 0) this.#soon(PAUSE_MS, () => this.#startBetween())
  }
}

interface Written<O> {
  readonly answers: readonly O[]
  /** Whether more is left to be tidied. */
  readonly isMore: boolean
}

/** Writes batches by the transactions of an engine, with what is behind their answers. */
export class TransactionWriteQueue<I, O> implements WriteQueue<I, O> {
  readonly #work: LaneHandler<I, O>
  readonly #engine: Pick<Engine, 'dialect' | 'transaction'>
  readonly #options: Pick<LaneOptions, 'onTidied' | 'onTidying'>
  readonly #tidying: DeferredWork

  constructor(work: LaneHandler<I, O>, engine: Pick<Engine, 'dialect' | 'transaction'>, options: LaneOptions = {}) {
    this.#work = work
    this.#engine = engine
    this.#options = options
    this.#tidying = new DeferredWork(() => engine.transaction((tx) => this.#tidy(tx, false)))
  }

  /** Where a sender waits for what is behind the answers, it is done in the same commit. */
  write(items: readonly I[]): Promise<readonly O[]> {
    return this.#tidying.pauseDuring(() => this.#write(items))
  }

  async #write(items: readonly I[]): Promise<readonly O[]> {
    const isUrgent = items.some(this.#work.isUrgent)
    const isAtOnce = this.#tidying.canRunInSameCommit(items.length, isUrgent)
    const writing = isAtOnce ? this.#writeTidily(items) : undefined
    if (writing && !this.#engine.dialect.isRemote) this.#options.onTidying?.()
    const written = await writing
    if (written?.isMore) this.#tidying.goOn()
    if (written) return written.answers
    const { dialect } = this.#engine
    const answers = await this.#engine.transaction((tx) => this.#work.run(tx, dialect, items, true))
    this.#tidying.schedule(items.length, isUrgent)
    return answers
  }

  close(): Promise<void> {
    return this.#tidying.close()
  }

  async #tidy(tx: Tx, wasComing: boolean): Promise<DeferredResult> {
    const tidied = await this.#work.runDeferred(tx, this.#engine.dialect)
    tx.onCommit(() => this.#options.onTidied?.(tidied, wasComing))
    return tidied
  }

  /** Returns undefined if the tidying failed. Every other error is thrown: after a failed commit the outcome is unknown. */
  async #writeTidily(items: readonly I[]): Promise<Written<O> | undefined> {
    const { dialect } = this.#engine
    let isTidying = false
    try {
      return await this.#engine.transaction(async (tx) => {
        isTidying = false
        const answers = await this.#work.run(tx, dialect, items)
        isTidying = true
        const { isMore } = await this.#tidy(tx, !dialect.isRemote)
        isTidying = false
        return { answers, isMore }
      })
    } catch (error) {
      if (!isTidying) throw error
      return undefined
    }
  }
}
