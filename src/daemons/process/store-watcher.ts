// Runs a check of the store on commit signals, on notifications of other processes, and every second in case one is lost.
// Checks never overlap; requests during a check cause one more.
import type { WorkKind } from '../../lib/commit-signals.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'

const POLL_MS = 1000

export interface StoreWatcherOptions {
  readonly host: Pick<InstanceHost, 'engine' | 'signals' | 'faults'>
  /** `isSignalled`: a signal of this process announced work. */
  check(isSignalled: boolean): Promise<void>
  /** Kind of work to check for; undefined for any. */
  readonly work?: WorkKind
  /** Called with each poll. */
  onTick?(): void
}

export class StoreWatcher {
  readonly #options: StoreWatcherOptions
  readonly #stops: (() => void)[]
  #running: Promise<void> | undefined
  #isStale = false
  #isSignalled = false
  #isClosed = false

  constructor(options: StoreWatcherOptions) {
    this.#options = options
    const { engine, signals, faults } = options.host
    const onTick = faults.guard('job', () => options.onTick?.())
    const tick = setInterval(() => {
      onTick()
      this.checkSoon()
    }, POLL_MS).unref()
    this.#stops = [
      () => clearInterval(tick),
      signals.on((_keys, work) => {
        if (options.work ? work.includes(options.work) : work.length > 0) this.notify()
      }),
      engine.listen(() => this.checkSoon()),
    ]
    // Deferred, because the caller has not stored this object yet.
    queueMicrotask(() => this.checkSoon())
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  checkSoon(): void {
    this.#isStale = true
    if (this.#isClosed) return
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
      if (this.#isStale) this.checkSoon()
    })
  }

  /** Announces work. */
  notify(): void {
    this.#isSignalled = true
    this.checkSoon()
  }

  /** Starts no further check and waits for the running one. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const stop of this.#stops) stop()
    await this.#running
  }

  async #run(): Promise<void> {
    const { host, check } = this.#options
    const isSignalled = this.#isSignalled
    this.#isStale = false
    this.#isSignalled = false
    try {
      await check(isSignalled)
    } catch (error) {
      // The next poll retries after a refusal; the transaction was rolled back.
      if (!(error instanceof Refusal)) host.faults.report('job', error)
    }
  }
}
