// Measures turns through a chat link.
import { SseDecoder, type SseEvent } from '../src/lib/http/sse-reader.ts'

/** A chat link and its event stream. */
export class TurnChat {
  readonly #url: string
  readonly #events: AsyncGenerator<SseEvent, void>

  private constructor(url: string, body: ReadableStream<Uint8Array>) {
    this.#url = url
    // Lock the stream at once: fetch cancels an unlocked stream when its response is garbage-collected.
    this.#events = eventsOf(body.values())
  }

  static async open(url: string): Promise<TurnChat> {
    const { body } = await fetch(`${url}events`)
    if (!body) throw new Error('the link has no stream')
    return new TurnChat(url, body)
  }

  /** Time from the post to the end of its round. */
  async turnMs(): Promise<number> {
    const started = performance.now()
    const headers = { 'Content-Type': 'application/json' }
    const response = await fetch(this.#url, { method: 'POST', headers, body: '{"content":"hello"}' })
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
    await response.arrayBuffer()
    let answer = ''
    for (;;) {
      const { value, done } = await this.#events.next()
      if (done) throw new Error('the stream ended')
      if (value.event === 'message') answer = JSON.parse(value.data).content
      if (value.event === 'round_done') break
    }
    const ms = performance.now() - started
    if (answer !== 'ok') throw new Error(`the turn was answered with ${answer}`)
    return ms
  }
}

async function* eventsOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<SseEvent, void> {
  const decoder = new SseDecoder()
  for await (const chunk of chunks) yield* decoder.push(chunk)
}
