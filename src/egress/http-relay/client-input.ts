// Buffers what a client sends and passes it to a consumer as far as that accepts it. A client that pipelines is paused, so at
// most the bytes of one read are buffered.

import { ByteAccumulator } from '../connection/byte-accumulator.ts'
import type { TcpConnection } from '../transport/transport.ts'

export interface ClientInputConsumer {
  /** Consumes bytes from `at` and returns where it stopped; returns `at` when it can accept nothing now. */
  consume(bytes: Buffer, at: number): number
  /** Called after each round, when the consumer accepts no more. */
  inputConsumed(): void
}

export class ClientInput {
  readonly #client: TcpConnection
  readonly #consumer: ClientInputConsumer
  readonly #buffered = new ByteAccumulator()
  #isConsuming = false
  #isPaused = false

  constructor(client: TcpConnection, consumer: ClientInputConsumer) {
    this.#client = client
    this.#consumer = consumer
  }

  get isEmpty(): boolean {
    return this.#buffered.length === 0
  }

  /** Bytes that are not consumed. */
  get rest(): Buffer {
    return this.#buffered.bytes
  }

  push(bytes: Buffer): void {
    if (!this.isEmpty) {
      this.#buffered.add(bytes)
      this.advance()
      return
    }
    const at = this.#consume(bytes)
    if (at < bytes.length) this.#buffered.add(bytes.subarray(at))
    this.#consumer.inputConsumed()
  }

  /** Retries after the consumer's state has changed. */
  advance(): void {
    // Called by the consumer itself: the running loop goes on.
    if (this.#isConsuming) return
    if (!this.isEmpty) this.#buffered.skip(this.#consume(this.#buffered.bytes))
    this.#consumer.inputConsumed()
  }

  setPaused(isPaused: boolean): void {
    if (isPaused === this.#isPaused) return
    this.#isPaused = isPaused
    if (isPaused) this.#client.pause()
    else this.#client.resume()
  }

  #consume(bytes: Buffer): number {
    let at = 0
    this.#isConsuming = true
    while (at < bytes.length) {
      const next = this.#consumer.consume(bytes, at)
      if (next === at) break
      at = next
    }
    this.#isConsuming = false
    return at
  }
}
