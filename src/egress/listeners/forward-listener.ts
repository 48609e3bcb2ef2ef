// The forward listener: clients that know of the proxy send CONNECT or an absolute target.

import type { HostPort } from '../address/host-port.ts'
import { ByteAccumulator } from '../connection/byte-accumulator.ts'
import { type ClientSession, type EgressContext, NO_BYTES_MOVED } from '../connection/egress-context.ts'
import { ERROR_RESPONSES, formatErrorResponse, type ProxyErrorCode } from '../connection/error-responses.ts'
import { lingerClose } from '../connection/linger-close.ts'
import { HEAD_MAX, type RequestHead, readRequestHead } from '../http/head.ts'
import { forwardTarget } from '../http/target.ts'
import { type HttpRelayOptions, serveHttp } from '../http-relay/http-relay.ts'
import { HEAD_ERROR_CODES } from '../http-relay/relay-request.ts'
import type { ProxyMode } from '../reporting/access-record.ts'
import type { ConnectionOwner, TcpConnection, Timer } from '../transport/transport.ts'
import { serveConnect } from './connect-request.ts'

const HEAD_END = Buffer.from('\r\n\r\n')

export function acceptForward(context: EgressContext, client: TcpConnection): void {
  new ForwardClient(context, client)
}

/** One client connection. Its first request decides which session serves it. */
class ForwardClient implements ConnectionOwner, ClientSession {
  readonly #context: EgressContext
  readonly #client: TcpConnection
  readonly #acceptedAt: number
  #head: ByteAccumulator | undefined
  #timer: Timer
  #session: ClientSession | undefined

  constructor(context: EgressContext, client: TcpConnection) {
    this.#context = context
    this.#client = client
    client.owner = this
    this.#acceptedAt = context.transport.now()
    const isAdmitted = context.addSession(client.remote.address, this)
    this.#timer = context.transport.after(context.limits.headMs, () => this.#refuse('head-timeout'))
    // Refused before its first byte: silent connections above the limit must not take up capacity.
    if (!isAdmitted) this.#refuse('limit-reached')
  }

  received(bytes: Buffer): void {
    const before = this.#head?.length ?? 0
    this.#head?.add(bytes)
    const all = this.#head?.bytes ?? bytes
    // Parse an incomplete head only once; then wait for its end, so that byte-by-byte input is not parsed each time.
    if (before > 0 && all.length < HEAD_MAX && all.indexOf(HEAD_END, Math.max(0, before - 3)) < 0) return
    this.#read(all)
  }

  ended(): void {
    // No complete request, so there is nothing to respond to.
    this.#client.close()
    this.#end()
  }

  drained(): void {}

  closed(): void {
    this.#end()
  }

  get destinations(): readonly HostPort[] {
    return this.#session?.destinations ?? []
  }

  get isTunnel(): boolean {
    return this.#session?.isTunnel ?? false
  }

  get moved(): ClientSession['moved'] {
    return this.#session?.moved ?? NO_BYTES_MOVED
  }

  revoke(): void {
    this.#session?.revoke()
  }

  drain(): void {
    if (this.#session) this.#session.drain()
    else this.stop()
  }

  stop(): void {
    if (this.#session) {
      this.#session.stop()
      return
    }
    this.#client.close()
    this.#end()
  }

  #read(all: Buffer): void {
    const result = readRequestHead(all)
    if (result.kind === 'more') {
      if (!this.#head) {
        this.#head = new ByteAccumulator()
        this.#head.add(all)
      }
      return
    }
    if (result.kind === 'bad') {
      this.#refuse(HEAD_ERROR_CODES[result.status], result.why)
      return
    }
    this.#timer.cancel()
    this.#head = undefined
    this.#serve(all, result)
  }

  #serve(all: Buffer, { head, end }: { readonly head: RequestHead; readonly end: number }): void {
    if (head.method === 'CONNECT') {
      this.#connect(this.#client, head, all.subarray(end))
      return
    }
    const options = this.#relayOptions()
    this.#startSession((onEnd) => serveHttp(this.#context, this.#client, all, options, onEnd))
  }

  /** A method, because a closure in `#serve` would keep the bytes of the head in memory for as long as the client stays. */
  #relayOptions(): HttpRelayOptions {
    const connect = (client: TcpConnection, later: RequestHead, rest: Buffer): void =>
      this.#connect(client, later, rest)
    return { mode: 'http', readTarget: forwardTarget, acceptedAt: this.#acceptedAt, connect }
  }

  #connect(client: TcpConnection, head: RequestHead, rest: Buffer): void {
    this.#startSession((onEnd) => serveConnect(this.#context, client, head, rest, onEnd))
  }

  /** The session may end, or hand the client over to a CONNECT, before `serve` returns. */
  #startSession(serve: (onEnd: () => void) => ClientSession): void {
    let hasEnded = false
    const previous = this.#session
    const session = serve(() => {
      hasEnded = true
      this.#end()
    })
    if (!hasEnded && this.#session === previous) this.#session = session
  }

  #refuse(code: ProxyErrorCode, detail?: string): void {
    const { status } = ERROR_RESPONSES[code]
    const mode: ProxyMode = 'http'
    const source = this.#client.remote.address
    const ms = this.#context.transport.now() - this.#acceptedAt
    this.#context.recordAccess({ mode, source, verdict: 'error', reason: code, status, bytesUp: 0, bytesDown: 0, ms })
    this.#end()
    lingerClose(this.#context, this.#client, formatErrorResponse(code, { detail }))
  }

  #end(): void {
    this.#timer.cancel()
    this.#context.removeSession(this.#client.remote.address, this)
  }
}
