// Looks at the store when there may be something new: when a word of it comes, within the process or from another one, and
// now and then in any case, because a word may be lost. One look at a time; what comes meanwhile is one more.
import { Refusal } from '../lib/refusal.ts'
import type { Host } from '../registry/context.ts'

const LOOK_MS = 1000

export interface LookoutOptions {
  readonly host: Pick<Host, 'engine' | 'signals' | 'onStray'>
  look(): Promise<void>
  /** Besides, whenever a look is due by the clock. */
  onTick?(): void
}

export class Lookout {
  readonly #options: LookoutOptions
  readonly #stops: (() => void)[]
  #looking: Promise<void> | undefined
  #heard: NodeJS.Immediate | undefined
  #isStale = false
  #isClosed = false

  constructor(options: LookoutOptions) {
    this.#options = options
    const { engine, signals } = options.host
    const tick = setInterval(() => {
      options.onTick?.()
      this.soon()
    }, LOOK_MS).unref()
    this.#stops = [
      () => clearInterval(tick),
      () => clearImmediate(this.#heard),
      signals.on((_keys, isWork) => {
        if (isWork) this.#hear()
      }),
      engine.listen(() => this.soon()),
    ]
    // Whoever makes a lookout is not ready to be called before it has one.
    queueMicrotask(() => this.soon())
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  soon(): void {
    this.#isStale = true
    if (this.#isClosed) return
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
      if (this.#isStale) this.soon()
    })
  }

  /** No look begins any more; resolves when the last one is over. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const stop of this.#stops) stop()
    await this.#looking
  }

  /** Whoever reads a chat is served first: the same word is for both. */
  #hear(): void {
    this.#heard ??= setImmediate(() => {
      this.#heard = undefined
      this.soon()
    })
  }

  async #look(): Promise<void> {
    this.#isStale = false
    const { host, look } = this.#options
    try {
      await look()
    } catch (error) {
      // A store that does not answer is asked again in a second; nothing was moved.
      if (!(error instanceof Refusal)) host.onStray?.(error)
    }
  }
}
