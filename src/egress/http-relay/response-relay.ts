// Relays the origin's response to the client: interim responses, head, body, trailers.

import { ByteAccumulator } from '../connection/byte-accumulator.ts'
import { BodyPipe } from '../http/body-pipe.ts'
import { type RequestHead, type ResponseHead, readResponseHead } from '../http/head.ts'
import { type ResponseFraming, writeResponseHead } from '../http/head-writer.ts'
import { WRITE_BUFFER } from '../http/write-buffer.ts'
import type { TcpConnection } from '../transport/transport.ts'

export interface ResponseRelayOwner {
  /** Whether the client connection must close after this response for a reason outside of it. */
  mustClose(): boolean
  /** The origin's response is invalid and nothing was sent to the client. */
  responseInvalid(why: string): void
  interimReceived(status: number): void
  responseStarted(): void
  responseCompleted(): void
  /** The origin's response is invalid within the body. */
  responseBroken(): void
  /** A write to the client was queued. */
  responseBlocked(): void
  responseUpgraded(): void
}

/** More interim responses than this are treated as an attack. */
const INTERIM_MAX = 16

export class ResponseRelay {
  readonly #owner: ResponseRelayOwner
  readonly #request: RequestHead
  readonly #client: TcpConnection
  readonly #via: string
  /** An incomplete head. */
  #partialHead: ByteAccumulator | undefined
  #scannedBytes = 0
  #interims = 0
  #body: BodyPipe | undefined
  #framing: ResponseFraming = 'as-is'
  #isOver = false
  /** Status of the final response once it is sent. */
  status: number | undefined
  /** Whether the connections can be used for another request. */
  keepsClient = false
  keepsOrigin = false
  /** The origin marks the end of the body by closing. */
  endsByClose = false

  constructor(owner: ResponseRelayOwner, request: RequestHead, client: TcpConnection, via: string) {
    this.#owner = owner
    this.#request = request
    this.#client = client
    this.#via = via
  }

  get hasBegun(): boolean {
    return this.#body !== undefined
  }

  get isDone(): boolean {
    return this.#body?.isDone ?? false
  }

  /** Whether a head is incomplete. */
  get isPartial(): boolean {
    return this.#partialHead !== undefined
  }

  /** Whether the client can detect the end of the body only by the end of the connection. */
  get isOpenEnded(): boolean {
    return this.#framing === 'until-close'
  }

  stop(): void {
    this.#isOver = true
  }

  take(bytes: Buffer): void {
    if (this.#body) {
      // Unrequested bytes after the response, while the request is still being sent. The end is not written twice.
      if (this.isDone) this.keepsOrigin = false
      else this.#relayBody(this.#body, bytes, 0)
      return
    }
    if (!this.#partialHead) {
      this.#readHeads(bytes)
      return
    }
    this.#partialHead.add(bytes)
    this.#readHeads(this.#partialHead.bytes)
  }

  #readHeads(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length && !this.#isOver) {
      const result = readResponseHead(at === 0 ? bytes : bytes.subarray(at), this.#request.method, this.#scannedBytes)
      if (result.kind === 'bad') {
        this.#owner.responseInvalid(result.why)
        return
      }
      if (result.kind === 'more') {
        this.#keepPartialHead(bytes, at)
        return
      }
      this.#scannedBytes = 0
      at += result.end
      if (result.head.status >= 200) {
        this.#relayHead(result.head, bytes, at)
        return
      }
      this.#relayInterim(result.head, bytes, at)
    }
    this.#partialHead = undefined
  }

  #keepPartialHead(bytes: Buffer, at: number): void {
    this.#scannedBytes = bytes.length - at
    if (this.#partialHead) {
      this.#partialHead.skip(at)
      return
    }
    this.#partialHead = new ByteAccumulator()
    this.#partialHead.add(bytes.subarray(at))
  }

  #relayInterim(head: ResponseHead, bytes: Buffer, at: number): void {
    if (head.status === 101) {
      this.#relayUpgrade(head, bytes, at)
      return
    }
    if (++this.#interims > INTERIM_MAX) {
      this.#owner.responseInvalid('too many interim responses')
      return
    }
    this.#owner.interimReceived(head.status)
    // HTTP/1.0 has no interim responses.
    if (this.#request.minor === 0) return
    this.#appendInterimHead(head)
    if (!WRITE_BUFFER.flushTo(this.#client)) this.#owner.responseBlocked()
  }

  #appendInterimHead(head: ResponseHead): void {
    WRITE_BUFFER.appendText(
      writeResponseHead(head, { framing: 'as-is', close: false, trailers: false, via: this.#via }),
    )
  }

  #relayUpgrade(head: ResponseHead, bytes: Buffer, at: number): void {
    if (!isOffered(head.upgrade, this.#request.upgrade)) {
      this.#owner.responseInvalid('unrequested change of protocol')
      return
    }
    this.status = head.status
    this.stop()
    this.#appendInterimHead(head)
    WRITE_BUFFER.appendBytes(bytes, at, bytes.length)
    WRITE_BUFFER.flushTo(this.#client)
    this.#owner.responseUpgraded()
  }

  #relayHead(head: ResponseHead, bytes: Buffer, at: number): void {
    const { framing, status } = head
    const { keepAlive } = this.#request
    this.status = status
    this.endsByClose = framing.kind === 'until-close'
    this.#framing = this.#clientFraming(head)
    this.keepsClient = keepAlive && !this.isOpenEnded && !this.#owner.mustClose()
    this.keepsOrigin = keepAlive && head.keepAlive && !this.endsByClose
    const isChunked = this.#framing === 'chunked'
    const trailers = isChunked && this.#request.wantsTrailers
    this.#body = new BodyPipe(framing, isChunked, trailers)
    WRITE_BUFFER.appendText(
      writeResponseHead(head, { framing: this.#framing, close: !this.keepsClient, trailers, via: this.#via }),
    )
    this.#relayBody(this.#body, bytes, at)
    this.#partialHead = undefined
    if (!this.#isOver && !this.isDone) this.#owner.responseStarted()
  }

  #clientFraming({ framing }: ResponseHead): ResponseFraming {
    if (framing.kind === 'until-close') return 'until-close'
    if (framing.kind !== 'chunked') return 'as-is'
    return this.#request.minor === 0 ? 'until-close' : 'chunked'
  }

  #relayBody(body: BodyPipe, bytes: Buffer, at: number): void {
    if (this.#isOver) return
    const end = body.pass(bytes, at, this.#client)
    if (body.fault !== undefined) {
      this.#owner.responseBroken()
      return
    }
    // Excess bytes must not be read as the response to the next request.
    if (end < bytes.length) this.keepsOrigin = false
    if (!body.hasRoom) this.#owner.responseBlocked()
    if (body.isDone) this.#owner.responseCompleted()
  }
}

function isOffered(chosen: string | undefined, offered: string | undefined): boolean {
  if (chosen === undefined || offered === undefined) return false
  const offers = new Set(offered.toLowerCase().split(/[\s,]+/))
  const names = chosen.toLowerCase().split(/[\s,]+/)
  return names.every((name) => offers.has(name))
}
