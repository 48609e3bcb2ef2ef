// Newline JSON-RPC as a transport of the official package: one object a line. It answers what the package would pass over,
// and reads no faster than it is read from.
import type { Duplex } from 'node:stream'
import {
  type JSONRPCMessage,
  type JSONRPCNotification,
  type JSONRPCRequest,
  ProtocolErrorCode,
  type RequestId,
  type Transport,
} from '@modelcontextprotocol/server'
import { type Fault, readIncoming } from './incoming.ts'
import { LineSplitter } from './line-splitter.ts'

const LINE_MAX = 4 * 1024 * 1024
const UNSENT_MAX = 1024 * 1024
const FLIGHT_MAX = 64
/** How long the other side has to read what is left, and then to hang up. */
const FLUSH_MS = 30_000
const LINGER_MS = 1000

/** What is open as long as the connection is, and so is never under way. */
const STANDING = 'subscriptions/listen'

export interface LineOptions {
  /** Asked first: an answer that the package knows nothing of, or nothing. */
  intercept?(request: JSONRPCRequest): Promise<Reply> | undefined
  /** A line was whole, for the first time. */
  onFirstLine?(): void
}

export type Reply = { readonly result: object } | { readonly error: Omit<Fault, 'id'> }

export class LineTransport implements Transport {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: JSONRPCMessage) => void) | undefined
  readonly #socket: Duplex
  readonly #options: LineOptions
  readonly #lines = new LineSplitter()
  readonly #flight = new Set<RequestId>()
  readonly #landed = Promise.withResolvers<void>()
  #hasLine = false
  #hasEnded = false
  /** `leaving`: takes nothing more, and ends when all is answered. */
  #state: 'open' | 'leaving' | 'over' = 'open'

  constructor(socket: Duplex, options: LineOptions = {}) {
    this.#socket = socket
    this.#options = options
  }

  async start(): Promise<void> {
    this.#socket.on('data', (chunk: Buffer) => {
      if (this.#state !== 'open') return
      this.#lines.push(chunk)
      this.#pump()
    })
    this.#socket.on('drain', () => this.#pump())
    // Whoever has said all it had to say still gets its answers.
    this.#socket.on('end', () => {
      this.#hasEnded = true
      this.#pump()
    })
    this.#socket.on('error', () => this.#socket.destroy())
    this.#socket.on('close', () => {
      this.#state = 'over'
      this.#landed.resolve()
      this.onclose?.()
    })
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.#write(message)
    if (!('method' in message) && message.id !== undefined) this.#land(message.id)
  }

  async close(): Promise<void> {
    endSoon(this.#socket)
  }

  /** Reads no more, and waits until what is under way has its answer. */
  async drain(): Promise<void> {
    this.#leave()
    await this.#landed.promise
  }

  #isFull(): boolean {
    return this.#flight.size >= FLIGHT_MAX || this.#socket.writableLength > UNSENT_MAX
  }

  #pump(): void {
    while (this.#state === 'open' && !this.#isFull()) {
      const line = this.#lines.next()
      if (!line) break
      if (line.length > LINE_MAX) this.#tooLong()
      else if (line.length > 0) this.#take(line)
    }
    if (this.#state !== 'open') return
    if (this.#isFull()) this.#socket.pause()
    else if (this.#lines.unfinished > LINE_MAX) this.#tooLong()
    else if (this.#hasEnded) this.#leave()
    else this.#socket.resume()
  }

  #take(line: Buffer): void {
    if (!this.#hasLine) this.#options.onFirstLine?.()
    this.#hasLine = true
    const incoming = readIncoming(line)
    if (incoming.kind === 'fault') this.#writeFault(incoming.fault)
    if (incoming.kind === 'request') this.#takeRequest(incoming.request)
    if (incoming.kind === 'notification') this.#takeNotification(incoming.notification)
  }

  #takeNotification(notification: JSONRPCNotification): void {
    // What is under way is answered all the same: whoever gave up on it passes the answer over.
    const isCancel = notification.method === 'notifications/cancelled'
    if (isCancel && this.#flight.has(notification.params?.requestId as RequestId)) return
    this.onmessage?.(notification)
  }

  #takeRequest(request: JSONRPCRequest): void {
    const { id } = request
    if (this.#flight.has(id)) {
      const message = 'invalid request: a request with this id is still under way'
      this.#writeFault({ id, code: ProtocolErrorCode.InvalidRequest, message })
      return
    }
    const reply = this.#options.intercept?.(request)
    if (request.method !== STANDING) this.#flight.add(id)
    if (reply) void this.#answer(id, reply)
    else this.onmessage?.(request)
  }

  async #answer(id: RequestId, reply: Promise<Reply>): Promise<void> {
    this.#write({ jsonrpc: '2.0', id, ...(await reply) })
    this.#land(id)
  }

  #land(id: RequestId): void {
    if (!this.#flight.delete(id)) return
    if (this.#state === 'open') this.#pump()
    else if (this.#flight.size === 0) this.#landed.resolve()
  }

  #leave(): void {
    if (this.#state !== 'open') return
    this.#state = 'leaving'
    if (this.#flight.size === 0) this.#landed.resolve()
    void this.#landed.promise.then(() => endSoon(this.#socket))
  }

  #tooLong(): void {
    const message = `parse error: a line holds at most ${LINE_MAX} bytes`
    this.#writeFault({ id: null, code: ProtocolErrorCode.ParseError, message })
    this.#leave()
  }

  #writeFault({ id, ...error }: Fault): void {
    this.#write({ jsonrpc: '2.0', id, error })
  }

  #write(message: object): void {
    if (this.#socket.writable) this.#socket.write(`${JSON.stringify(message)}\n`)
  }
}

/** Says the last line, if any, and ends. What still comes is read and dropped: who writes to nobody fails, and reads no more. */
export function endSoon(socket: Duplex, line = ''): void {
  if (socket.destroyed || socket.writableEnded) return
  let timer = setTimeout(() => socket.destroy(), FLUSH_MS).unref()
  socket.once('finish', () => {
    clearTimeout(timer)
    timer = setTimeout(() => socket.destroy(), LINGER_MS).unref()
  })
  socket.once('close', () => clearTimeout(timer))
  socket.end(line)
  socket.resume()
}
