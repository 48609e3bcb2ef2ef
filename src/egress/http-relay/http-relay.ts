// Serves the plain HTTP requests of one client connection, one after the other. Each is checked against the policy; the next
// one is parsed only after the response to the previous one.

import type { HostPort } from '../address/host-port.ts'
import { type ClientSession, type EgressContext, NO_BYTES_MOVED } from '../connection/egress-context.ts'
import { ERROR_RESPONSES, type ProxyErrorCode } from '../connection/error-responses.ts'
import { lingerClose } from '../connection/linger-close.ts'
import { Tunnel, type TunnelOutcome } from '../connection/tunnel.ts'
import { type RequestHead, readRequestHead } from '../http/head.ts'
import type { TargetReader } from '../http/target.ts'
import type { ConnectionOwner, TcpConnection } from '../transport/transport.ts'
import { ClientInput, type ClientInputConsumer } from './client-input.ts'
import type { OriginConnection } from './origin-connection.ts'
import { OriginPool } from './origin-pool.ts'
import { OriginRequest, type OriginRequestOwner } from './origin-request.ts'
import { formatRelayError, HEAD_ERROR_CODES, type RelayRequest } from './relay-request.ts'
import { decideRelay } from './request-policy.ts'
import { ConnectionTimeouts, type TimeoutKind } from './timeouts.ts'

export interface HttpRelayOptions {
  readonly mode: 'http' | 'transparent-http'
  readonly readTarget: TargetReader
  /** By the transport's clock: the timeout of the first head starts here. */
  readonly acceptedAt?: number
  /** Takes over a client that sends CONNECT after plain requests, with the bytes after it. Without it, CONNECT is refused. */
  connect?(client: TcpConnection, head: RequestHead, rest: Buffer): void
}

/** `first` are the bytes already read. `onEnd` is called when the client is closed, but not after `connect`. */
export function serveHttp(
  context: EgressContext,
  client: TcpConnection,
  first: Buffer,
  options: HttpRelayOptions,
  onEnd: () => void,
): ClientSession {
  const relay = new HttpRelay(context, client, options, onEnd)
  relay.start(first)
  return relay
}

/**
 * Limit of input discarded after the last response. An origin may refuse an upload that is still being sent; closing with
 * unread input would reset the connection, and the client might lose the response.
 */
const DISCARDED_MAX = 16_777_216
const ALLOWED: TunnelOutcome = { verdict: 'allow', reason: 'allowed' }

class HttpRelay implements ConnectionOwner, ClientSession, ClientInputConsumer, OriginRequestOwner {
  readonly context: EgressContext
  readonly client: TcpConnection
  readonly #options: HttpRelayOptions
  readonly #onEnd: () => void
  readonly #timeouts: ConnectionTimeouts
  readonly #input: ClientInput
  readonly #origins: OriginPool
  #request: RelayRequest
  #originRequest: OriginRequest | undefined
  #tunnel: Tunnel | undefined
  /** Bytes of an incomplete head that were already scanned. */
  #scannedBytes = 0
  #lastMoved = 0
  #discarded = 0
  /** A write to the client is queued: the next response must wait. */
  #isBlocked = false
  #hasEnded = false
  /** Further input is discarded. */
  #isEnding = false
  #isClosed = false

  constructor(context: EgressContext, client: TcpConnection, options: HttpRelayOptions, onEnd: () => void) {
    this.context = context
    this.client = client
    this.#options = options
    this.#onEnd = onEnd
    this.#timeouts = new ConnectionTimeouts(context.transport, context.limits, (wait) => this.#timedOut(wait))
    this.#input = new ClientInput(client, this)
    this.#origins = new OriginPool(context.limits.originIdleMs)
    this.#request = { startedAt: context.transport.now() }
    client.owner = this
  }

  start(first: Buffer): void {
    const { startedAt } = this.#request
    this.#timeouts.start('head', startedAt - (this.#options.acceptedAt ?? startedAt))
    this.#hasEnded = this.client.hasEnded
    // Without input the timeout of the first head stays in force, not the idle timeout.
    if (first.length > 0) this.#input.push(first)
  }

  received(bytes: Buffer): void {
    if (this.#isEnding) this.#discard(bytes.length)
    else this.#input.push(bytes)
  }

  consume(bytes: Buffer, at: number): number {
    const originRequest = this.#originRequest
    if (this.#isEnding) return at
    if (!originRequest) return this.#consumeHead(bytes, at)
    return originRequest.wantsBody && !originRequest.isUploadBlocked ? originRequest.consumeBody(bytes, at) : at
  }

  #consumeHead(bytes: Buffer, at: number): number {
    if (this.#isBlocked) return at
    const result = readRequestHead(at === 0 ? bytes : bytes.subarray(at), this.#scannedBytes)
    if (result.kind === 'more') {
      this.#scannedBytes = bytes.length - at
      return at
    }
    this.#scannedBytes = 0
    if (result.kind === 'bad') {
      this.#request = { startedAt: this.context.transport.now() }
      this.#refuse(HEAD_ERROR_CODES[result.status], result.why)
      return bytes.length
    }
    const { head, end } = result
    if (head.method === 'CONNECT') this.#connect(head, bytes.subarray(at + end))
    else this.#decide(head)
    return at + end
  }

  #connect(head: RequestHead, rest: Buffer): void {
    if (!this.#options.connect) {
      this.#request = { startedAt: this.context.transport.now(), head }
      this.#refuse('bad-request', 'CONNECT is not supported on the transparent port')
      return
    }
    this.#isEnding = true
    this.#timeouts.cancel()
    this.#origins.close()
    this.#input.setPaused(false)
    this.#options.connect(this.client, head, Buffer.from(rest))
  }

  #decide(head: RequestHead): void {
    const decision = decideRelay(this.context, this.client.remote.address, head, this.#options.readTarget)
    this.#request = decision.request
    if (decision.kind === 'refuse') this.#refuse(decision.code, decision.why, decision.keepAlive)
    else if (decision.kind === 'answer') this.#respond(decision.bytes, decision.keepAlive, ALLOWED, 200)
    else {
      this.#timeouts.start('dial')
      this.#originRequest = new OriginRequest(this, head, decision.target, decision.isEndpoint)
      this.#originRequest.begin()
    }
  }

  /** Decides whether to read on and which timeout applies. */
  inputConsumed(): void {
    if (this.#isEnding) return
    const originRequest = this.#originRequest
    originRequest?.flush()
    if (
      this.#hasEnded &&
      (originRequest ? originRequest.wantsBody && !originRequest.isUploadBlocked : !this.#isBlocked)
    ) {
      if (originRequest) originRequest.abortUpload('request body ended early')
      else this.#endClient()
      return
    }
    const isWaiting = originRequest !== undefined || this.#isBlocked
    this.#input.setPaused((isWaiting && !this.#input.isEmpty) || originRequest?.isUploadBlocked === true)
    if (originRequest) return
    if (this.#isBlocked) this.#timeouts.ensure('bytes')
    else if (!this.#input.isEmpty) this.#timeouts.ensure('head')
    else this.#timeouts.ensure(this.#origins.isEmpty ? 'idle-client' : 'idle')
  }

  #timedOut(wait: TimeoutKind): void {
    if (wait === 'head') this.#headTimedOut()
    else if (wait === 'idle' || wait === 'idle-client') this.#idleTimedOut()
    else if (wait === 'bytes' && this.#hasMoved()) this.#timeouts.start('bytes')
    else if (this.#originRequest) this.#originRequest.timedOut()
    else {
      this.client.close()
      this.#finish()
    }
  }

  /** The late head is a new request, not the previous one. */
  #headTimedOut(): void {
    const { limits, transport } = this.context
    this.#request = { startedAt: transport.now() - limits.headMs }
    this.#refuse('head-timeout')
  }

  /** Closes the idle origin connections first, then the client. */
  #idleTimedOut(): void {
    const { keepAliveMs, originIdleMs } = this.context.limits
    if (this.#origins.isEmpty || keepAliveMs <= originIdleMs) this.#endClient()
    else {
      this.#origins.close()
      this.#timeouts.start('idle-client', originIdleMs)
    }
  }

  #hasMoved(): boolean {
    const { up, down } = this.moved
    const moved = this.client.bytesIn + this.client.bytesOut + up + down
    const hasMoved = moved !== this.#lastMoved
    this.#lastMoved = moved
    return hasMoved
  }

  ended(): void {
    this.#hasEnded = true
    this.inputConsumed()
  }

  drained(): void {
    this.#isBlocked = false
    if (this.#isEnding) this.#halfClose()
    else if (this.#originRequest) this.#originRequest.clientDrained()
    else this.#input.advance()
  }

  closed(): void {
    this.#abandon({ verdict: 'error', reason: 'client-gone' })
  }

  takeOrigin(key: string): OriginConnection | undefined {
    return this.#origins.take(key, this.context.transport.now())
  }

  resumeUpload(): void {
    this.#input.advance()
  }

  startTimeout(kind: 'response' | 'bytes'): void {
    this.#timeouts.start(kind)
  }

  clientBlocked(): void {
    this.#isBlocked = true
  }

  failed(code: ProxyErrorCode, detail: string | undefined, keepsClient: boolean): void {
    this.#refuse(code, detail, keepsClient && !this.context.isStopping)
  }

  finished(keepsClient: boolean, origin: OriginConnection | undefined): void {
    this.#report(ALLOWED, this.#originRequest?.status)
    if (origin && this.context.isNearCapacity) origin.close()
    else if (origin) this.#origins.keep(origin, this.context.transport.now())
    if (keepsClient) this.#input.advance()
    else this.#endClient()
  }

  aborted(reason: string, reset: boolean): void {
    this.#report({ verdict: 'error', reason }, this.#originRequest?.status)
    if (!reset) {
      this.#endClient()
      return
    }
    this.client.reset()
    this.#finish()
  }

  upgraded(origin: OriginConnection): void {
    // The write of the 101 response may have found the client closed.
    if (this.#isClosed) return
    this.#isEnding = true
    this.#timeouts.cancel()
    this.#origins.close()
    const onTunnelEnd = (end: TunnelOutcome): void => {
      this.#originRequest?.updateByteCounts()
      this.#report(end, this.#originRequest?.status)
      this.#finish()
    }
    this.#tunnel = new Tunnel(
      this.context,
      this.client,
      origin.connection,
      onTunnelEnd,
      this.#originRequest?.target.port,
    )
    this.#tunnel.start(this.#input.rest)
  }

  #refuse(code: ProxyErrorCode, detail?: string, keepAlive = false): void {
    const { denyMessage } = this.context
    const bytes = formatRelayError(this.#request, code, { detail, keepAlive, denyMessage })
    const { status } = ERROR_RESPONSES[code]
    this.#respond(bytes, keepAlive, { verdict: status === 403 ? 'deny' : 'error', reason: code }, status)
  }

  /** Sends a response of the proxy itself. Without keep-alive the rest of the request is discarded. */
  #respond(bytes: Buffer, keepAlive: boolean, end: TunnelOutcome, status: number): void {
    this.#report(end, status)
    if (keepAlive) {
      if (!this.client.write(bytes)) this.#isBlocked = true
      // Restarts the timeout for the next request.
      this.#timeouts.start('dial')
      this.#input.advance()
      return
    }
    this.#isEnding = true
    this.#timeouts.cancel()
    this.#origins.close()
    lingerClose(this.context, this.client, bytes, () => this.#finish())
  }

  /** Ends the connection after the queued bytes are sent. */
  #endClient(): void {
    this.#isEnding = true
    this.#origins.close()
    this.#input.setPaused(false)
    if (this.#isBlocked) this.#timeouts.start('bytes')
    else this.#halfClose()
  }

  #halfClose(): void {
    this.#timeouts.start('client-close')
    this.client.end()
  }

  #discard(count: number): void {
    this.#discarded += count
    if (this.#discarded <= DISCARDED_MAX || this.#isBlocked) return
    this.client.close()
    this.#finish()
  }

  get destinations(): readonly HostPort[] {
    const target = this.#originRequest?.target
    if (!target) return []
    const sni = this.#tunnel?.sni
    return sni ? [target, { host: sni, port: target.port }] : [target]
  }

  get isTunnel(): boolean {
    return this.#tunnel !== undefined
  }

  get moved(): ClientSession['moved'] {
    this.#originRequest?.updateByteCounts()
    return this.#originRequest
      ? { up: this.#originRequest.bytesUp, down: this.#originRequest.bytesDown }
      : NO_BYTES_MOVED
  }

  revoke(): void {
    this.#abort({ verdict: 'deny', reason: 'revoked' })
  }

  drain(): void {
    if (!this.#originRequest && !this.#isEnding && this.#input.isEmpty) this.#endClient()
  }

  stop(): void {
    this.#abort({ verdict: 'allow', reason: 'stopped' })
  }

  #abort(end: TunnelOutcome): void {
    if (this.#isClosed) return
    if (this.#tunnel) {
      this.#tunnel.stop(end)
      return
    }
    this.client.reset()
    this.#abandon(end)
  }

  #abandon(end: TunnelOutcome): void {
    const originRequest = this.#originRequest
    originRequest?.abort()
    if (originRequest) this.#report(end, originRequest.status)
    this.#finish()
  }

  /** Writes the access record; call once per request. */
  #report({ verdict, reason, sni }: TunnelOutcome, status: number | undefined): void {
    const originRequest = this.#originRequest
    this.#originRequest = undefined
    const { startedAt, target, source, rule } = this.#request
    this.context.recordAccess({
      mode: this.#options.mode,
      source: this.client.remote.address,
      id: source?.id,
      host: target?.host.text,
      port: target?.port,
      sni,
      address: originRequest?.address,
      verdict,
      reason,
      rule,
      status,
      bytesUp: originRequest?.bytesUp ?? 0,
      bytesDown: originRequest?.bytesDown ?? 0,
      ms: this.context.transport.now() - startedAt,
      dialMs: originRequest?.dialMs,
    })
  }

  #finish(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#isEnding = true
    this.#timeouts.cancel()
    this.#origins.close()
    this.#onEnd()
  }
}
