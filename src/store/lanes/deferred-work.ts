// Schedules the deferred work of a lane: soon after each batch, and less often but in larger pieces under load.
import { type FaultHandler, guard, throwUncaught } from '../../lib/fault-boundary.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { DeferredResult } from './lane.ts'

/** Deferred work starts at the latest after this many items or this time. */
const DUE_ITEMS = 50_000
const DUE_MS = 2000
/** Fewer items than this run after a short pause. More wait longer, because one large piece costs less than many small. */
const FEW_ITEMS = 64
const PAUSE_MS = 1
const LONG_PAUSE_MS = 20
const RETRY_MS = 1000

export class DeferredWork {
  readonly #runPiece: () => Promise<DeferredResult>
  readonly #onFault: FaultHandler
  #items = 0
  /** When the first of the items was scheduled. */
  #since = 0
  #isUrgent = false
  /** Number of batches that are being written. */
  #writing = 0
  #isPostponed = false
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #isClosed = false

  /** `onFault` gets each exception of a piece, which is retried. */
  constructor(runPiece: () => Promise<DeferredResult>, onFault: FaultHandler = throwUncaught) {
    this.#runPiece = runPiece
    this.#onFault = onFault
    // An earlier process may have left work.
    this.#startAfter(PAUSE_MS)
  }

  /** Call after writing a batch. `isUrgent`: a client waits for the result of the deferred work. */
  schedule(items: number, isUrgent = false): void {
    const now = performance.now()
    if (this.#items === 0) this.#since = now
    this.#items += items
    this.#isUrgent ||= isUrgent
    if (this.#items >= DUE_ITEMS || now - this.#since >= DUE_MS) this.#start()
    else this.#startAfter(isUrgent || this.#items < FEW_ITEMS ? PAUSE_MS : LONG_PAUSE_MS, () => this.#startIfIdle())
  }

  /** Runs `write` and postpones deferred work until no batch is being written: on a slow disk it would delay the next one. */
  async pauseDuring<T>(write: () => Promise<T>): Promise<T> {
    this.#writing++
    try {
      return await write()
    } finally {
      this.#writing--
      if (this.#isPostponed && this.#writing === 0) this.#startAfter(PAUSE_MS, () => this.#startIfIdle())
    }
  }

  /** Whether the deferred work of a batch can share its commit: a client waits for it, and no other work is pending. */
  canRunInSameCommit(items: number, isUrgent: boolean): boolean {
    return isUrgent && items < FEW_ITEMS && this.#items === 0 && !this.#timer && !this.#running
  }

  /** Runs the next piece as soon as possible. */
  continueSoon(): void {
    this.#startAfter(0)
  }

  /** Waits for the running piece. The next process does the rest. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#running
  }

  #startAfter(ms: number, start = () => this.#start()): void {
    clearTimeout(this.#timer)
    this.#isPostponed = false
    if (!this.#isClosed) this.#timer = setTimeout(guard(this.#onFault, start), ms)
  }

  #startIfIdle(): void {
    this.#timer = undefined
    this.#isPostponed = this.#writing > 0 && !this.#isUrgent && performance.now() - this.#since < DUE_MS
    if (!this.#isPostponed) this.#start()
  }

  #start(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#isClosed || this.#running) return
    this.#items = 0
    this.#isUrgent = false
    this.#running = this.#run()
  }

  async #run(): Promise<void> {
    let nextMs: number | undefined
    try {
      if ((await this.#runPiece()).isMore) nextMs = 0
    } catch (error) {
      // Writers get the refusals of the store; here a retry is enough.
      if (!(error instanceof Refusal)) this.#onFault(error)
      nextMs = RETRY_MS
    }
    this.#running = undefined
    if (nextMs !== undefined) this.#startAfter(nextMs)
    else if (this.#items > 0) this.#startAfter(PAUSE_MS, () => this.#startIfIdle())
  }
}
