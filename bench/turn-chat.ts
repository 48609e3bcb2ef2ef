// Measures turns through a chat link.
import { randomUUID } from 'node:crypto'
import { SseDecoder, type SseEvent } from '../src/lib/http/sse-reader.ts'
import { postChat } from './chat-clients.ts'

export interface TimedTurn {
  /** From the post to the first frame of the answer. */
  readonly frameMs: number
  /** From the post to the end of its round. */
  readonly ms: number
  readonly answer: string
}

/** A chat link and its event stream. */
export class TurnChat {
  readonly #url: string
  readonly #topic: string
  readonly #events: AsyncGenerator<SseEvent, void>

  private constructor(url: string, topic: string, body: ReadableStream<Uint8Array>) {
    this.#url = url
    this.#topic = topic
    // Lock the stream at once: fetch cancels an unlocked stream when its response is garbage-collected.
    this.#events = eventsOf(body.values())
  }

  static async open(url: string): Promise<TurnChat> {
    // A stream begins with the earlier messages of its topic.
    const topic = randomUUID()
    const { body } = await fetch(`${url}events?topic=${topic}`)
    if (!body) throw new Error('the link has no stream')
    return new TurnChat(url, topic, body)
  }

  /** Time from the post to the end of its round. */
  async turnMs(): Promise<number> {
    const { ms, answer } = await this.turn('hello')
    if (answer !== 'ok') throw new Error(`the turn was answered with ${answer}`)
    return ms
  }

  async turn(content: string): Promise<TimedTurn> {
    const started = performance.now()
    const posted = postChat(this.#url, content, this.#topic)
    let frameMs: number | undefined
    let answer = ''
    for (;;) {
      const { value, done } = await this.#events.next()
      if (done) throw new Error('the stream ended')
      if (value.event === 'round_done') break
      if (value.event !== 'message') continue
      const message = JSON.parse(value.data)
      if (message.role !== 'assistant') continue
      frameMs ??= performance.now() - started
      answer = message.content
    }
    const ms = performance.now() - started
    await posted
    return { frameMs: frameMs ?? ms, ms, answer }
  }
}

async function* eventsOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<SseEvent, void> {
  const decoder = new SseDecoder()
  for await (const chunk of chunks) yield* decoder.push(chunk)
}
