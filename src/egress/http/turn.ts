// One plain request that was allowed: dialled, sent, answered. Neither side is read faster than the other takes.
import type { AnswerCode } from '../answers.ts'
import type { Dialled, Failure } from '../dialer.ts'
import type { Gate } from '../gate.ts'
import type { Wire } from '../wire.ts'
import { BodyPipe } from './body-pipe.ts'
import { hasBody } from './framing.ts'
import { GATHER } from './gather.ts'
import type { RequestHead } from './head.ts'
import { writeRequestHead } from './head-text.ts'
import { Origin, type OriginUser } from './origin.ts'
import { Reply, type ReplyOwner } from './reply.ts'
import type { Target } from './target.ts'

/** What a turn needs of the client's connection. */
export interface TurnHost {
  readonly gate: Gate
  readonly client: Wire
  /** The connection that the last request left, when it leads to the same place. */
  takeOrigin(key: string): Origin | undefined
  /** What of the request has come may be taken now. */
  wantsMore(): void
  /** What is waited for from now on: the head of the answer, or that anything moves. */
  awaits(what: 'answer' | 'bytes'): void
  /** What went to the client did not go out whole: `clientDrained` is told when it has. */
  clientBlocked(): void
  /** Nothing was answered, and this is said in its place. */
  failed(code: AnswerCode, detail: string | undefined, clientStays: boolean): void
  /** The answer is complete. The origin is given back when it can serve another. */
  finished(clientStays: boolean, origin: Origin | undefined): void
  /** The answer cannot be completed, and the client must see that. */
  broke(reason: string, reset: boolean): void
  upgraded(origin: Origin): void
}

/** These may be sent twice without harm. */
const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

export class Turn implements OriginUser, ReplyOwner {
  readonly head: RequestHead
  readonly target: Target
  readonly startedAt: number
  readonly #host: TurnHost
  readonly #isEndpoint: boolean
  readonly #key: string
  readonly #upload: BodyPipe
  readonly #reply: Reply
  #origin: Origin | undefined
  #dialling: { cancel(): void } | undefined
  /** The head, until the first of the body can go with it. */
  #unsent: string | undefined
  #hasHeard = false
  #hasContinued = false
  #hasUploaded = false
  #isOver = false
  #upFrom = 0
  #downFrom = 0
  isUploadBlocked = false
  address: string | undefined
  dialMs: number | undefined
  bytesUp = 0
  bytesDown = 0

  constructor(host: TurnHost, head: RequestHead, target: Target, isEndpoint = false) {
    this.#host = host
    this.#isEndpoint = isEndpoint
    this.head = head
    this.target = target
    this.startedAt = host.gate.wires.now()
    this.#key = `${target.host.text} ${target.port}`
    this.#upload = new BodyPipe(head.framing, head.framing.kind === 'chunked', false)
    this.#reply = new Reply(this, head, host.client, host.gate.via)
  }

  get status(): number | undefined {
    return this.#reply.status
  }

  /** Whether bytes of the client can go to the origin now. */
  get wantsBody(): boolean {
    return this.#origin !== undefined && !this.#upload.isDone && !this.#isOver
  }

  begin(): void {
    const kept = this.#host.takeOrigin(this.#key)
    if (kept) this.#send(kept)
    else this.#dial()
  }

  #dial(): void {
    const { dialer, wires } = this.#host.gate
    const from = wires.now()
    let isTold = false
    const destination = { host: this.target.host, port: this.target.port, isEndpoint: this.#isEndpoint }
    const dialling = dialer.dial(this.#host.client.remote.address, destination, (result) => {
      isTold = true
      this.#dialling = undefined
      this.dialMs = wires.now() - from
      this.#dialled(result)
    })
    if (!isTold) this.#dialling = dialling
  }

  #dialled(result: Dialled | Failure): void {
    if ('code' in result) this.#fail(result.code, result.detail)
    else this.#send(new Origin(result.wire, result.address, this.#key))
  }

  #send(origin: Origin): void {
    this.#origin = origin
    this.address = origin.address
    this.#upFrom = origin.wire.bytesOut
    this.#downFrom = origin.wire.bytesIn
    origin.useBy(this)
    const { path, authority } = this.target
    const { via } = this.#host.gate
    this.#unsent = writeRequestHead(this.head, { path, authority, close: !this.head.keepAlive, via })
    if (this.#upload.isDone || this.head.expectsContinue) this.flush()
    this.#host.awaits(this.#upload.isDone ? 'answer' : 'bytes')
    this.#host.wantsMore()
  }

  /** Sends the head, where no body came to go with it. */
  flush(): void {
    const origin = this.#origin
    if (!origin || this.#unsent === undefined) return
    GATHER.text(this.#unsent)
    this.#unsent = undefined
    if (!GATHER.send(origin.wire)) this.isUploadBlocked = true
  }

  /** Takes what of the client's bytes belongs to the request, and says where it ended. */
  takeBody(bytes: Buffer, at: number): number {
    const origin = this.#origin
    if (!origin) return at
    if (this.#unsent !== undefined) GATHER.text(this.#unsent)
    this.#unsent = undefined
    this.#hasUploaded = true
    const end = this.#upload.pass(bytes, at, origin.wire)
    this.isUploadBlocked = !this.#upload.hasRoom
    if (this.#upload.fault !== undefined) this.cutUpload(this.#upload.fault)
    else if (this.#upload.isDone) this.#uploaded()
    return end
  }

  #uploaded(): void {
    if (!this.#reply.hasBegun) this.#host.awaits('answer')
    else if (this.#reply.isDone) this.#finish()
  }

  /** The request will never be whole, and the origin must not take it for that. */
  cutUpload(why: string): void {
    if (this.#reply.hasBegun) this.#break('client-gone', true)
    else this.#fail('bad-request', why)
  }

  clientDrained(): void {
    this.#origin?.wire.resume()
  }

  timedOut(): void {
    if (this.#reply.hasBegun) this.#break('idle', true)
    else this.#fail('read-timeout')
  }

  /** Without a word to the client. */
  abort(): void {
    this.#close()
    this.#origin?.reset()
  }

  originDrained(): void {
    this.isUploadBlocked = false
    this.#host.wantsMore()
  }

  fromOrigin(bytes: Buffer): void {
    this.#hasHeard = true
    this.#reply.take(bytes)
  }

  originEnded(): void {
    if (!this.#reply.hasBegun) this.#lose()
    else if (this.#reply.isDone || this.#reply.endsByClose) this.#finish()
    else this.#break('connection-terminated')
  }

  originClosed(error?: string): void {
    if (!this.#reply.hasBegun) this.#lose()
    else if (this.#reply.isDone || (this.#reply.endsByClose && error === undefined)) this.#finish()
    else this.#break('connection-terminated')
  }

  /** Without an answer. A kept connection may have been closed while our request was on its way: nobody has seen it. */
  #lose(): void {
    const origin = this.#origin
    const { method, framing, upgrade } = this.head
    const isHarmless = IDEMPOTENT.has(method) && !hasBody(framing) && upgrade === undefined
    if (!origin?.isReused || this.#hasHeard || !isHarmless) {
      this.#fail(this.#reply.isPartial ? 'bad-response' : 'connection-terminated', 'it ends too early')
      return
    }
    origin.close()
    this.#origin = undefined
    this.#dial()
  }

  mustClose(): boolean {
    return this.#host.gate.isStopping || this.#isBodyInDoubt()
  }

  /** A client that was waiting for leave to send its body may send it now, or not. */
  #isBodyInDoubt(): boolean {
    return this.head.expectsContinue && !this.#hasContinued && !this.#hasUploaded && !this.#upload.isDone
  }

  replyBad(why: string): void {
    this.#fail('bad-response', why)
  }

  replyInterim(status: number): void {
    if (status === 100) this.#hasContinued = true
    if (this.#upload.isDone) this.#host.awaits('answer')
  }

  replyBegan(): void {
    this.#host.awaits('bytes')
  }

  /** An origin may answer before it has read everything, and go on reading. */
  replyDone(): void {
    if (this.#upload.isDone || this.#isBodyInDoubt()) this.#finish()
    else this.#host.awaits('bytes')
  }

  replyBroke(): void {
    this.#break('bad-response')
  }

  replyBlocked(): void {
    if (!this.#reply.isDone) this.#origin?.wire.pause()
    this.#host.clientBlocked()
  }

  replyUpgraded(): void {
    const origin = this.#origin
    this.#isOver = true
    if (origin) this.#host.upgraded(origin)
  }

  /** How much has passed, from when this turn began. */
  count(): void {
    const wire = this.#origin?.wire
    if (!wire) return
    this.bytesUp = wire.bytesOut - this.#upFrom
    this.bytesDown = wire.bytesIn - this.#downFrom
  }

  #close(): void {
    this.count()
    this.#isOver = true
    // A request that is tried once more may run out of its time meanwhile.
    this.#dialling?.cancel()
    this.#reply.stop()
  }

  #fail(code: AnswerCode, detail?: string): void {
    if (this.#isOver) return
    this.#close()
    this.#origin?.reset()
    this.#host.failed(code, detail, this.head.keepAlive && this.#upload.isDone)
  }

  #break(reason: string, reset: boolean = this.#reply.isOpenEnded): void {
    if (this.#isOver) return
    this.#close()
    this.#origin?.reset()
    this.#host.broke(reason, reset)
  }

  #finish(): void {
    if (this.#isOver) return
    this.#close()
    const origin = this.#origin
    const stays = this.#reply.originStays && this.#upload.isDone && origin?.isOver === false
    if (stays) origin.useBy(undefined)
    else this.#leaveOrigin()
    this.#host.finished(this.#reply.clientStays && this.#upload.isDone, stays ? origin : undefined)
  }

  #leaveOrigin(): void {
    if (this.#upload.isDone) this.#origin?.close()
    else this.#origin?.reset()
  }
}
