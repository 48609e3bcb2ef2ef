// The origin's answer on its way to the client: the interim ones, the head, the body, the trailers.

import type { Wire } from '../wire.ts'
import { Backlog } from './backlog.ts'
import { BodyPipe } from './body-pipe.ts'
import { GATHER } from './gather.ts'
import { type RequestHead, type ResponseHead, readResponseHead } from './head.ts'
import { type Sent, writeResponseHead } from './head-text.ts'

export interface ReplyOwner {
  /** Whether the client's connection cannot go on behind this answer, for a reason that is not in it. */
  mustClose(): boolean
  /** The origin's fault, and the client has heard nothing yet. */
  replyBad(why: string): void
  replyInterim(status: number): void
  replyBegan(): void
  replyDone(): void
  /** The origin's fault, in the middle of the body. */
  replyBroke(): void
  /** What went to the client did not go out whole. */
  replyBlocked(): void
  replyUpgraded(): void
}

/** Answers before the answer. More of them are a flood. */
const INTERIM_MAX = 16

export class Reply {
  readonly #owner: ReplyOwner
  readonly #request: RequestHead
  readonly #client: Wire
  readonly #via: string
  /** The start of a head. */
  #early: Backlog | undefined
  #seen = 0
  #interims = 0
  #body: BodyPipe | undefined
  #sent: Sent = 'as-is'
  #isOver = false
  /** Of the final answer, once it goes out. */
  status: number | undefined
  /** Whether another request may follow on the client's connection, and on the origin's. */
  clientStays = false
  originStays = false
  /** The end of the connection is the end of the body. */
  endsByClose = false

  /** `via` is the name of this proxy. */
  constructor(owner: ReplyOwner, request: RequestHead, client: Wire, via: string) {
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

  /** Whether a head has begun to come, and not ended. */
  get isPartial(): boolean {
    return this.#early !== undefined
  }

  /** Whether the client can only tell the end of the body by the end of the connection. */
  get isOpenEnded(): boolean {
    return this.#sent === 'until-close'
  }

  stop(): void {
    this.#isOver = true
  }

  take(bytes: Buffer): void {
    if (this.#body) {
      // Behind the end, while the request is still on its way: nobody asked for it, and the end is not written twice.
      if (this.isDone) this.originStays = false
      else this.#pass(this.#body, bytes, 0)
      return
    }
    if (!this.#early) {
      this.#readHeads(bytes)
      return
    }
    this.#early.add(bytes)
    this.#readHeads(this.#early.bytes)
  }

  #readHeads(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length && !this.#isOver) {
      const result = readResponseHead(at === 0 ? bytes : bytes.subarray(at), this.#request.method, this.#seen)
      if (result.kind === 'bad') {
        this.#owner.replyBad(result.why)
        return
      }
      if (result.kind === 'more') {
        this.#keep(bytes, at)
        return
      }
      this.#seen = 0
      at += result.end
      if (result.head.status >= 200) {
        this.#begin(result.head, bytes, at)
        return
      }
      this.#interim(result.head, bytes, at)
    }
    this.#early = undefined
  }

  #keep(bytes: Buffer, at: number): void {
    this.#seen = bytes.length - at
    if (this.#early) {
      this.#early.skip(at)
      return
    }
    this.#early = new Backlog()
    this.#early.add(bytes.subarray(at))
  }

  #interim(head: ResponseHead, bytes: Buffer, at: number): void {
    if (head.status === 101) {
      this.#upgrade(head, bytes, at)
      return
    }
    if (++this.#interims > INTERIM_MAX) {
      this.#owner.replyBad('too many interim answers')
      return
    }
    this.#owner.replyInterim(head.status)
    // HTTP/1.0 knows none.
    if (this.#request.minor === 0) return
    GATHER.text(writeResponseHead(head, { sent: 'as-is', close: false, trailers: false, via: this.#via }))
    if (!GATHER.send(this.#client)) this.#owner.replyBlocked()
  }

  #upgrade(head: ResponseHead, bytes: Buffer, at: number): void {
    if (!isAskedFor(head.upgrade, this.#request.upgrade)) {
      this.#owner.replyBad('a change of protocol that nobody asked for')
      return
    }
    this.status = head.status
    this.stop()
    GATHER.text(writeResponseHead(head, { sent: 'as-is', close: false, trailers: false, via: this.#via }))
    GATHER.bytes(bytes, at, bytes.length)
    GATHER.send(this.#client)
    this.#owner.replyUpgraded()
  }

  #begin(head: ResponseHead, bytes: Buffer, at: number): void {
    const { framing, status } = head
    const { keepAlive } = this.#request
    this.status = status
    this.endsByClose = framing.kind === 'until-close'
    this.#sent = this.#waysOut(head)
    this.clientStays = keepAlive && !this.isOpenEnded && !this.#owner.mustClose()
    this.originStays = keepAlive && head.keepAlive && !this.endsByClose
    const isChunked = this.#sent === 'chunked'
    const trailers = isChunked && this.#request.wantsTrailers
    this.#body = new BodyPipe(framing, isChunked, trailers)
    GATHER.text(writeResponseHead(head, { sent: this.#sent, close: !this.clientStays, trailers, via: this.#via }))
    this.#pass(this.#body, bytes, at)
    this.#early = undefined
    if (!this.#isOver && !this.isDone) this.#owner.replyBegan()
  }

  #waysOut({ framing }: ResponseHead): Sent {
    if (framing.kind === 'until-close') return 'until-close'
    if (framing.kind !== 'chunked') return 'as-is'
    return this.#request.minor === 0 ? 'until-close' : 'chunked'
  }

  #pass(body: BodyPipe, bytes: Buffer, at: number): void {
    if (this.#isOver) return
    const end = body.pass(bytes, at, this.#client)
    if (body.fault !== undefined) {
      this.#owner.replyBroke()
      return
    }
    // More than was announced: whatever it is, it must not be read as the answer to the next request.
    if (end < bytes.length) this.originStays = false
    if (!body.hasRoom) this.#owner.replyBlocked()
    if (body.isDone) this.#owner.replyDone()
  }
}

function isAskedFor(given: string | undefined, asked: string | undefined): boolean {
  if (given === undefined || asked === undefined) return false
  const offers = new Set(asked.toLowerCase().split(/[\s,]+/))
  const names = given.toLowerCase().split(/[\s,]+/)
  return names.every((name) => offers.has(name))
}
