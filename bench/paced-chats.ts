// Posts chat messages at a steady rate and measures each from its POST to the end of its round.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventsOf, postChat } from './chat-clients.ts'

const BODY_BYTES = 1024
const ROUND_TIMEOUT_MS = 30_000

/** Posts to several chats in turn. */
export class PacedChats {
  readonly #chats: readonly string[]
  /** A stream begins with the earlier messages of its topic, so each run uses a new one. */
  readonly #topic = randomUUID()
  readonly #abort = new AbortController()
  readonly #posted = new Map<string, number>()
  readonly #ended = new Map<string, number>()
  readonly #reading: Promise<void>[]
  #latencies: number[] = []
  #sent = 0
  #failure: unknown

  constructor(chats: readonly string[]) {
    this.#chats = chats
    this.#reading = chats.map((chat) => this.#read(chat))
  }

  /** Posts `rate` messages a second. Resolves when every round has ended. */
  async run(rate: number, seconds: number): Promise<void> {
    const started = performance.now()
    const posting: Promise<void>[] = []
    for (let n = 0; n < rate * seconds && !this.#failure; n++) {
      await sleep(Math.max(0, started + (n * 1000) / rate - performance.now()))
      posting.push(this.#post())
    }
    await Promise.all(posting)
    const until = performance.now() + ROUND_TIMEOUT_MS
    while (this.#posted.size > 0 && !this.#failure && performance.now() < until) await sleep(5)
    if (this.#failure) throw this.#failure
    if (this.#posted.size > 0) throw new Error(`${this.#posted.size} rounds have not ended`)
  }

  /** Latencies in milliseconds of the rounds that ended since the last call. */
  take(): number[] {
    const latencies = this.#latencies
    this.#latencies = []
    return latencies
  }

  async close(): Promise<void> {
    this.#abort.abort()
    await Promise.all(this.#reading)
  }

  async #post(): Promise<void> {
    try {
      const started = performance.now()
      const url = this.#chats[this.#sent++ % this.#chats.length] ?? ''
      const content = `message ${this.#sent} `.padEnd(BODY_BYTES - 100, 'x')
      const { turn_id } = await postChat(url, content, this.#topic)
      this.#posted.set(turn_id, started)
      this.#match(turn_id)
    } catch (error) {
      this.#failure ??= error
    }
  }

  async #read(chat: string): Promise<void> {
    try {
      for await (const { event, data } of eventsOf(`${chat}events?topic=${this.#topic}`, this.#abort.signal)) {
        if (event !== 'round_done') continue
        const { turn_id, status } = JSON.parse(data)
        if (status !== 'success') throw new Error(`a round ended as ${status}`)
        this.#ended.set(turn_id, performance.now())
        this.#match(turn_id)
      }
      throw new Error('a stream has ended')
    } catch (error) {
      if (!this.#abort.signal.aborted) this.#failure ??= error
    }
  }

  /** The end of a round may arrive before the response to its POST. */
  #match(id: string): void {
    const [started, ended] = [this.#posted.get(id), this.#ended.get(id)]
    if (started === undefined || ended === undefined) return
    this.#posted.delete(id)
    this.#ended.delete(id)
    this.#latencies.push(ended - started)
  }
}
