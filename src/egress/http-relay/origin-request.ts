// One allowed plain HTTP request: dials the origin, sends the request, relays the response, with back-pressure both ways.

import type { EgressContext } from '../connection/egress-context.ts'
import type { ProxyErrorCode } from '../connection/error-responses.ts'
import { BodyPipe } from '../http/body-pipe.ts'
import { hasBody } from '../http/framing.ts'
import type { RequestHead } from '../http/head.ts'
import { writeRequestHead } from '../http/head-writer.ts'
import type { OriginTarget } from '../http/target.ts'
import { WRITE_BUFFER } from '../http/write-buffer.ts'
import type { TcpConnection } from '../transport/transport.ts'
import { OriginConnection, type OriginConnectionUser } from './origin-connection.ts'
import { ResponseRelay, type ResponseRelayOwner } from './response-relay.ts'

export interface OriginRequestOwner {
  readonly context: EgressContext
  readonly client: TcpConnection
  /** Returns an idle connection to the same authority. */
  takeOrigin(key: string): OriginConnection | undefined
  /** Buffered bytes of the request body can be taken now. */
  resumeUpload(): void
  /** Waits for the head of the response, or for any progress. */
  startTimeout(kind: 'response' | 'bytes'): void
  /** A write to the client was queued: `clientDrained` is called when it is sent. */
  clientBlocked(): void
  /** No response was sent: answer with this error. */
  failed(code: ProxyErrorCode, detail: string | undefined, keepsClient: boolean): void
  /** The response is complete. `origin` is set if it can serve another request. */
  finished(keepsClient: boolean, origin: OriginConnection | undefined): void
  /** The response cannot be completed, and the client must notice. */
  aborted(reason: string, reset: boolean): void
  upgraded(origin: OriginConnection): void
}

/** Methods that may be retried. */
const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

export class OriginRequest implements OriginConnectionUser, ResponseRelayOwner {
  readonly head: RequestHead
  readonly target: OriginTarget
  readonly startedAt: number
  readonly #owner: OriginRequestOwner
  readonly #isEndpoint: boolean
  readonly #key: string
  readonly #upload: BodyPipe
  readonly #response: ResponseRelay
  #origin: OriginConnection | undefined
  #pendingDial: { cancel(): void } | undefined
  /** The head, until it can be sent together with the first part of the body. */
  #pendingHead: string | undefined
  #hasReceived = false
  #hasContinued = false
  #hasUploaded = false
  #isDone = false
  #bytesOutBefore = 0
  #bytesInBefore = 0
  isUploadBlocked = false
  address: string | undefined
  dialMs: number | undefined
  bytesUp = 0
  bytesDown = 0

  constructor(owner: OriginRequestOwner, head: RequestHead, target: OriginTarget, isEndpoint = false) {
    this.#owner = owner
    this.#isEndpoint = isEndpoint
    this.head = head
    this.target = target
    this.startedAt = owner.context.transport.now()
    this.#key = `${target.host.text} ${target.port}`
    this.#upload = new BodyPipe(head.framing, head.framing.kind === 'chunked', false)
    this.#response = new ResponseRelay(this, head, owner.client, owner.context.via)
  }

  get status(): number | undefined {
    return this.#response.status
  }

  /** Whether client bytes can be sent to the origin now. */
  get wantsBody(): boolean {
    return this.#origin !== undefined && !this.#upload.isDone && !this.#isDone
  }

  begin(): void {
    const idle = this.#owner.takeOrigin(this.#key)
    if (idle) this.#send(idle)
    else this.#dial()
  }

  #dial(): void {
    const { dialer, transport } = this.#owner.context
    const from = transport.now()
    let isDone = false
    const destination = { host: this.target.host, port: this.target.port, isEndpoint: this.#isEndpoint }
    const pendingDial = dialer.dial(this.#owner.client.remote.address, destination, (result) => {
      isDone = true
      this.#pendingDial = undefined
      this.dialMs = transport.now() - from
      if ('code' in result) this.#fail(result.code, result.detail)
      else this.#send(new OriginConnection(result.connection, result.address, this.#key))
    })
    if (!isDone) this.#pendingDial = pendingDial
  }

  #send(origin: OriginConnection): void {
    this.#origin = origin
    this.address = origin.address
    this.#bytesOutBefore = origin.connection.bytesOut
    this.#bytesInBefore = origin.connection.bytesIn
    origin.useBy(this)
    const { path, authority } = this.target
    const { via } = this.#owner.context
    this.#pendingHead = writeRequestHead(this.head, { path, authority, close: !this.head.keepAlive, via })
    if (this.#upload.isDone || this.head.expectsContinue) this.flush()
    this.#owner.startTimeout(this.#upload.isDone ? 'response' : 'bytes')
    this.#owner.resumeUpload()
  }

  /** Sends the head alone if no part of the body has arrived. */
  flush(): void {
    const origin = this.#origin
    if (!origin || this.#pendingHead === undefined) return
    WRITE_BUFFER.appendText(this.#pendingHead)
    this.#pendingHead = undefined
    if (!WRITE_BUFFER.flushTo(origin.connection)) this.isUploadBlocked = true
  }

  /** Consumes the bytes that belong to the request and returns where they end. */
  consumeBody(bytes: Buffer, at: number): number {
    const origin = this.#origin
    if (!origin) return at
    if (this.#pendingHead !== undefined) WRITE_BUFFER.appendText(this.#pendingHead)
    this.#pendingHead = undefined
    this.#hasUploaded = true
    const end = this.#upload.pass(bytes, at, origin.connection)
    this.isUploadBlocked = !this.#upload.hasRoom
    if (this.#upload.fault !== undefined) this.abortUpload(this.#upload.fault)
    else if (this.#upload.isDone) this.#uploadCompleted()
    return end
  }

  #uploadCompleted(): void {
    if (!this.#response.hasBegun) this.#owner.startTimeout('response')
    else if (this.#response.isDone) this.#finish()
  }

  /** The request cannot be completed, and the origin must not take it for complete. */
  abortUpload(detail: string): void {
    if (this.#response.hasBegun) this.#abortResponse('client-gone', true)
    else this.#fail('bad-request', detail)
  }

  clientDrained(): void {
    this.#origin?.connection.resume()
  }

  timedOut(): void {
    if (this.#response.hasBegun) this.#abortResponse('idle', true)
    else this.#fail('read-timeout')
  }

  /** Closes without a response to the client. */
  abort(): void {
    this.#stop()
    this.#origin?.reset()
  }

  originDrained(): void {
    this.isUploadBlocked = false
    this.#owner.resumeUpload()
  }

  fromOrigin(bytes: Buffer): void {
    this.#hasReceived = true
    this.#response.take(bytes)
  }

  originEnded(): void {
    if (!this.#response.hasBegun) this.#retryOrFail()
    else if (this.#response.isDone || this.#response.endsByClose) this.#finish()
    else this.#abortResponse('connection-terminated')
  }

  originClosed(error?: string): void {
    if (!this.#response.hasBegun) this.#retryOrFail()
    else if (this.#response.isDone || (this.#response.endsByClose && error === undefined)) this.#finish()
    else this.#abortResponse('connection-terminated')
  }

  /** No response. The origin may have closed a kept connection before it read our request: then retry. */
  #retryOrFail(): void {
    const origin = this.#origin
    const { method, framing, upgrade } = this.head
    const isRetryable = IDEMPOTENT.has(method) && !hasBody(framing) && upgrade === undefined
    if (!origin?.isReused || this.#hasReceived || !isRetryable) {
      this.#fail(this.#response.isPartial ? 'bad-response' : 'connection-terminated', 'connection ended early')
      return
    }
    origin.close()
    this.#origin = undefined
    this.#dial()
  }

  mustClose(): boolean {
    return this.#owner.context.isStopping || this.#isBodyInDoubt()
  }

  /** After an error instead of 100 Continue, the client may or may not send its body. */
  #isBodyInDoubt(): boolean {
    return this.head.expectsContinue && !this.#hasContinued && !this.#hasUploaded && !this.#upload.isDone
  }

  responseInvalid(detail: string): void {
    this.#fail('bad-response', detail)
  }

  interimReceived(status: number): void {
    if (status === 100) this.#hasContinued = true
    if (this.#upload.isDone) this.#owner.startTimeout('response')
  }

  responseStarted(): void {
    this.#owner.startTimeout('bytes')
  }

  /** An origin may respond before it has read the whole request, and go on reading. */
  responseCompleted(): void {
    if (this.#upload.isDone || this.#isBodyInDoubt()) this.#finish()
    else this.#owner.startTimeout('bytes')
  }

  responseBroken(): void {
    this.#abortResponse('bad-response')
  }

  responseBlocked(): void {
    if (!this.#response.isDone) this.#origin?.connection.pause()
    this.#owner.clientBlocked()
  }

  responseUpgraded(): void {
    const origin = this.#origin
    this.#isDone = true
    if (origin) this.#owner.upgraded(origin)
  }

  /** Updates the byte counters of this request. */
  updateByteCounts(): void {
    const connection = this.#origin?.connection
    if (!connection) return
    this.bytesUp = connection.bytesOut - this.#bytesOutBefore
    this.bytesDown = connection.bytesIn - this.#bytesInBefore
  }

  #stop(): void {
    this.updateByteCounts()
    this.#isDone = true
    // A retried request may time out while dialling.
    this.#pendingDial?.cancel()
    this.#response.stop()
  }

  #fail(code: ProxyErrorCode, detail?: string): void {
    if (this.#isDone) return
    this.#stop()
    this.#origin?.reset()
    this.#owner.failed(code, detail, this.head.keepAlive && this.#upload.isDone)
  }

  #abortResponse(reason: string, reset: boolean = this.#response.isOpenEnded): void {
    if (this.#isDone) return
    this.#stop()
    this.#origin?.reset()
    this.#owner.aborted(reason, reset)
  }

  #finish(): void {
    if (this.#isDone) return
    this.#stop()
    const origin = this.#origin
    const isReusable = this.#response.keepsOrigin && this.#upload.isDone && origin?.isClosed === false
    if (isReusable) origin.useBy(undefined)
    else if (this.#upload.isDone) origin?.close()
    else origin?.reset()
    this.#owner.finished(this.#response.keepsClient && this.#upload.isDone, isReusable ? origin : undefined)
  }
}
