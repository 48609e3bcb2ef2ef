// Typing indicators of platforms that show them for some seconds: shown again until they are switched off.
import type { Place } from './port.ts'

/** An answer that takes longer shows none. */
const TYPING_MAX_MS = 5 * 60_000

export interface TypingOptions {
  readonly everyMs: number
  readonly now: () => number
  readonly guard: (callback: () => unknown) => () => void
  show(place: Place): Promise<unknown>
}

export class RepeatedTyping {
  readonly #options: TypingOptions
  readonly #running = new Map<string, { readonly timer: NodeJS.Timeout; readonly until: number }>()

  constructor(options: TypingOptions) {
    this.#options = options
  }

  /** Rejected if the first one fails, and then there are no others. */
  async set(place: Place, isOn: boolean): Promise<void> {
    const { everyMs, now, guard, show } = this.#options
    const key = `${place.chat} ${place.threadId ?? ''}`
    this.#stop(key)
    if (!isOn) return
    const again = guard(() => this.#showAgain(key, place))
    this.#running.set(key, { timer: setInterval(again, everyMs).unref(), until: now() + TYPING_MAX_MS })
    try {
      await show(place)
    } catch (error) {
      this.#stop(key)
      throw error
    }
  }

  close(): void {
    for (const key of [...this.#running.keys()]) this.#stop(key)
  }

  #stop(key: string): void {
    clearInterval(this.#running.get(key)?.timer)
    this.#running.delete(key)
  }

  async #showAgain(key: string, place: Place): Promise<void> {
    const running = this.#running.get(key)
    if (!running) return
    if (this.#options.now() > running.until) return this.#stop(key)
    // The next one comes soon.
    await this.#options.show(place).catch(() => undefined)
  }
}
