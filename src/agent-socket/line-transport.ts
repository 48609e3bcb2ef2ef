// MCP transport with one JSON-RPC message per line. It also answers lines that the official package would ignore, and stops
// reading while the client does not read or sends more than its limits allow.
import type { Duplex } from 'node:stream'
import {
  type JSONRPCMessage,
  type JSONRPCNotification,
  type JSONRPCRequest,
  ProtocolErrorCode,
  type RequestId,
  type Transport,
} from '@modelcontextprotocol/server'
import { type FaultHandler, guard } from '../lib/fault-boundary.ts'
import { FlowLimiter } from '../lib/flow-limiter.ts'
import { closeGracefully } from './graceful-close.ts'
import { LineSplitter } from './line-splitter.ts'
import { parseRpcLine, type RpcError } from './rpc-line.ts'

const LINE_MAX = 4 * 1024 * 1024
const UNSENT_BYTES_MAX = 1024 * 1024
const PENDING_MAX = 64
/** Lines that are handled in one turn of the event loop; the slowest request takes about 2 ms. */
const SLICE_LINES = 4

/** Stays open as long as the connection, so it never counts as pending. */
const SUBSCRIBE = 'subscriptions/listen'

export interface LineTransportOptions {
  /** Handles a request instead of the package; undefined leaves it to the package. */
  intercept?(request: JSONRPCRequest): Promise<RpcReply> | undefined
  /** True for a notification that the package need not see. */
  ignoresNotification?(notification: JSONRPCNotification): boolean
  onFirstLine?(): void
  /** Gets the exceptions of handlers; the connection is then closed. */
  readonly onFault: FaultHandler
  /** Counts lines and bytes of all kinds; by default there is no limit. */
  readonly flow?: FlowLimiter | undefined
}

export type RpcReply = { readonly result: object } | { readonly error: Omit<RpcError, 'id'> }

export class LineTransport implements Transport {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: JSONRPCMessage) => void) | undefined
  readonly #socket: Duplex
  readonly #options: LineTransportOptions
  readonly #flow: FlowLimiter
  readonly #lines = new LineSplitter()
  readonly #pending = new Set<RequestId>()
  readonly #drained = Promise.withResolvers<void>()
  #hasLine = false
  /** Nothing more is read: the client has ended its side, or this side closes. */
  #hasEnded = false
  /** The next slice waits for its turn. */
  #isQueued = false
  /** Waits for a response to be sent or read. */
  #isBlocked = false
  /** `draining`: reads nothing more, and closes when every pending request is answered. */
  #state: 'open' | 'draining' | 'closed' = 'open'

  constructor(socket: Duplex, options: LineTransportOptions) {
    this.#socket = socket
    this.#options = options
    this.#flow = options.flow ?? new FlowLimiter({ bytesPerSecond: 0, linesPerSecond: 0, burstS: 1 })
  }

  async start(): Promise<void> {
    const receive = (chunk: Buffer): void => {
      if (this.#state !== 'open') return
      this.#socket.pause()
      const isFree = this.#flow.isFree()
      this.#flow.countRead(chunk.length)
      this.#lines.push(chunk)
      this.#pump(isFree)
    }
    // A client that has closed its writing side still gets its responses.
    const end = (): void => {
      this.#hasEnded = true
      this.#pump()
    }
    const close = (): void => {
      this.#state = 'closed'
      this.#drained.resolve()
      this.onclose?.()
    }
    this.#socket.on('data', guard(this.#fail, receive))
    this.#socket.on(
      'drain',
      guard(this.#fail, () => this.#unblock()),
    )
    if (this.#socket.readableEnded) guard(this.#fail, end)()
    else this.#socket.on('end', guard(this.#fail, end))
    this.#socket.on('error', () => this.#socket.destroy())
    this.#socket.on('close', guard(this.#fail, close))
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.#write(message)
    if (!('method' in message) && message.id !== undefined) this.#settle(message.id)
  }

  async close(): Promise<void> {
    closeGracefully(this.#socket)
  }

  /** Stops reading and waits until all requests that were read are answered; lines over the limits are dropped. */
  async drain(): Promise<void> {
    this.#hasEnded = true
    this.#socket.pause()
    if (this.#isBlocked || this.#flow.waitMs() > 0) this.#startDraining()
    else this.#pump()
    await this.#drained.promise
  }

  /** The state of the connection is unknown, so it ends. */
  readonly #fail: FaultHandler = (error) => {
    this.#options.onFault(error)
    this.#socket.destroy()
  }

  #isFull(): boolean {
    return this.#pending.size >= PENDING_MAX || this.#socket.writableLength > UNSENT_BYTES_MAX
  }

  #pump(isFree = this.#flow.isFree()): void {
    if (this.#isQueued) return
    if (isFree) this.#handleSlice()
    else this.#queue(() => this.#handleSlice())
  }

  #queue(work: () => void): void {
    this.#isQueued = true
    const next = (): void => {
      this.#isQueued = false
      work()
    }
    this.#flow.later(guard(this.#fail, next))
  }

  #handleSlice(): void {
    let hasMore = true
    for (let left = SLICE_LINES; left > 0 && hasMore && this.#state === 'open' && !this.#isFull(); left--)
      hasMore = this.#handleNext()
    if (this.#state !== 'open') return
    this.#isBlocked = this.#isFull()
    if (this.#isBlocked) return
    if (hasMore) this.#queue(() => this.#handleSlice())
    else if (this.#lines.pendingBytes > LINE_MAX) this.#refuseLongLine()
    else if (this.#hasEnded) this.#startDraining()
    else this.#queue(() => this.#resume())
  }

  /** False if there is no complete line. */
  #handleNext(): boolean {
    const line = this.#lines.next()
    if (!line) return false
    this.#flow.countLines(1)
    if (line.length > LINE_MAX) this.#refuseLongLine()
    else if (line.length > 0) this.#handleLine(line)
    return true
  }

  #resume(): void {
    if (this.#hasEnded) this.#startDraining()
    else this.#socket.resume()
  }

  #unblock(): void {
    if (!this.#isBlocked || this.#state !== 'open' || this.#isFull()) return
    this.#isBlocked = false
    this.#pump()
  }

  #handleLine(line: Buffer): void {
    if (!this.#hasLine) this.#options.onFirstLine?.()
    this.#hasLine = true
    const incoming = parseRpcLine(line)
    if (incoming.kind === 'fault') this.#writeFault(incoming.fault)
    if (incoming.kind === 'request') this.#handleRequest(incoming.request)
    if (incoming.kind === 'notification') this.#handleNotification(incoming.notification)
  }

  #handleNotification(notification: JSONRPCNotification): void {
    if (this.#options.ignoresNotification?.(notification)) return
    // A pending request is answered even when cancelled; the client ignores the response.
    const isCancel = notification.method === 'notifications/cancelled'
    if (isCancel && this.#pending.has(notification.params?.requestId as RequestId)) return
    this.onmessage?.(notification)
  }

  #handleRequest(request: JSONRPCRequest): void {
    const { id } = request
    if (this.#pending.has(id)) {
      const message = 'invalid request: a request with this id is still pending'
      this.#writeFault({ id, code: ProtocolErrorCode.InvalidRequest, message })
      return
    }
    const reply = this.#options.intercept?.(request)
    if (request.method !== SUBSCRIBE) this.#pending.add(id)
    if (reply) this.#answer(id, reply).catch(this.#fail)
    else this.onmessage?.(request)
  }

  async #answer(id: RequestId, reply: Promise<RpcReply>): Promise<void> {
    this.#write({ jsonrpc: '2.0', id, ...(await reply) })
    this.#settle(id)
  }

  #settle(id: RequestId): void {
    if (!this.#pending.delete(id)) return
    if (this.#state === 'open') this.#unblock()
    else if (this.#pending.size === 0) this.#drained.resolve()
  }

  #startDraining(): void {
    if (this.#state !== 'open') return
    this.#state = 'draining'
    if (this.#pending.size === 0) this.#drained.resolve()
    this.#drained.promise.then(() => closeGracefully(this.#socket)).catch(this.#fail)
  }

  #refuseLongLine(): void {
    const message = `parse error: line is longer than ${LINE_MAX} bytes`
    this.#writeFault({ id: null, code: ProtocolErrorCode.ParseError, message })
    this.#startDraining()
  }

  #writeFault({ id, ...error }: RpcError): void {
    this.#write({ jsonrpc: '2.0', id, error })
  }

  #write(message: object): void {
    if (!this.#socket.writable) return
    const text = `${JSON.stringify(message)}\n`
    this.#flow.countBytes(text.length)
    this.#socket.write(text)
  }
}
