// Delivers requests as platforms do: one after the other, and each again until it is answered with 2xx.
import { setTimeout as pause } from 'node:timers/promises'
import type { CleanupScope } from './temp.ts'

const AGAIN_MS = 50

export interface WebhookCall {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export class WebhookSender<T> {
  /** Statuses of all attempts, in order; 0 if there was no answer. */
  readonly statuses: number[] = []
  readonly #waiting: T[] = []
  readonly #callOf: (item: T, attempt: number) => WebhookCall | undefined
  #isRunning = false
  #isClosed = false

  /** `callOf` returns nothing while there is no address. */
  constructor(t: CleanupScope, callOf: (item: T, attempt: number) => WebhookCall | undefined) {
    this.#callOf = callOf
    t.after(() => {
      this.#isClosed = true
    })
  }

  get waiting(): number {
    return this.#waiting.length
  }

  add(...items: readonly T[]): void {
    this.#waiting.push(...items)
    this.wake()
  }

  /** What is not delivered, and is no longer. */
  takeAll(): T[] {
    return this.#waiting.splice(0)
  }

  /** Tries again, as there is an address now. */
  wake(): void {
    if (this.#isRunning) return
    this.#isRunning = true
    void this.#run().finally(() => {
      this.#isRunning = false
    })
  }

  async #run(): Promise<void> {
    for (let attempt = 0; !this.#isClosed; attempt++) {
      const [item] = this.#waiting
      const call = item === undefined ? undefined : this.#callOf(item, attempt)
      if (!call) return
      const status = await post(call)
      this.statuses.push(status)
      if (status >= 200 && status < 300) {
        this.#waiting.shift()
        attempt = -1
      } else await pause(AGAIN_MS)
    }
  }
}

async function post({ url, headers, body }: WebhookCall): Promise<number> {
  try {
    const response = await fetch(url, { method: 'POST', headers, body })
    await response.arrayBuffer()
    return response.status
  } catch {
    return 0
  }
}
