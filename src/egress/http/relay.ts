// A client that sends plain HTTP requests, one behind the other on one connection. Each is judged on its own; the next is
// not looked at before the one before it is answered.
import { ANSWERS, type AnswerCode } from '../answers.ts'
import { sendOff } from '../farewell.ts'
import { type Gate, type Held, NOTHING_MOVED } from '../gate.ts'
import type { HostPort } from '../host-port.ts'
import { Tunnel, type TunnelEnd } from '../tunnel.ts'
import type { Wire, WireOwner } from '../wire.ts'
import { type Asked, BAD_HEADS, recordOf, writeRefusal } from './asked.ts'
import { type RequestHead, readRequestHead } from './head.ts'
import { Intake, type Taker } from './intake.ts'
import { judgeRequest } from './judge.ts'
import type { Origin } from './origin.ts'
import { Origins } from './origins.ts'
import { Patience, type Wait } from './patience.ts'
import type { TargetOf } from './target.ts'
import { Turn, type TurnHost } from './turn.ts'

/** How the client came to us. */
export interface HttpManner {
  readonly mode: 'http' | 'transparent-http'
  readonly targetOf: TargetOf
  /** By the wires' clock: the first head is due from then on. */
  readonly acceptedAt?: number
  /** Takes over a client that sends CONNECT after plain requests, with what came behind it; without it, that is refused. */
  connect?(client: Wire, head: RequestHead, rest: Buffer): void
}

/** Serves a client whose first bytes are `first`. `over` is told when it is gone; not when `connect` took it over. */
export function serveHttp(gate: Gate, client: Wire, first: Buffer, manner: HttpManner, over: () => void): Held {
  const relay = new HttpRelay(gate, client, manner, over)
  relay.begin(first)
  return relay
}

/**
 * What is read and dropped behind the last answer. An origin may refuse an upload that is still coming; closed with bytes
 * that nobody read, the client's connection would be reset, and the refusal lost.
 */
const DROPPED_MAX = 16_777_216
const ALLOWED: TunnelEnd = { verdict: 'allow', reason: 'allowed' }

class HttpRelay implements WireOwner, Held, Taker, TurnHost {
  readonly gate: Gate
  readonly client: Wire
  readonly #manner: HttpManner
  readonly #over: () => void
  readonly #patience: Patience
  readonly #intake: Intake
  readonly #origins: Origins
  #asked: Asked
  #turn: Turn | undefined
  #tunnel: Tunnel | undefined
  /** How many bytes of a head that is not whole have been looked at. */
  #seen = 0
  #moved = 0
  #dropped = 0
  /** What was written waits; the next answer must wait for it. */
  #isBlocked = false
  #hasEnded = false
  /** Nothing that comes is read any more. */
  #isLeaving = false
  #isOver = false

  constructor(gate: Gate, client: Wire, manner: HttpManner, over: () => void) {
    this.gate = gate
    this.client = client
    this.#manner = manner
    this.#over = over
    this.#patience = new Patience(gate.wires, gate.limits, (wait) => this.#ring(wait))
    this.#intake = new Intake(client, this)
    this.#origins = new Origins(gate.limits.originIdleMs)
    this.#asked = { startedAt: gate.wires.now() }
    client.owner = this
  }

  begin(first: Buffer): void {
    const { startedAt } = this.#asked
    this.#patience.begin('head', startedAt - (this.#manner.acceptedAt ?? startedAt))
    this.#hasEnded = this.client.hasEnded
    // Whoever has said nothing yet does not lie idle between two requests: his first head is due.
    if (first.length > 0) this.#intake.push(first)
  }

  bytes(bytes: Buffer): void {
    if (this.#isLeaving) this.#drop(bytes.length)
    else this.#intake.push(bytes)
  }

  /** Heads and bodies in turn. */
  take(bytes: Buffer, at: number): number {
    const turn = this.#turn
    if (this.#isLeaving) return at
    if (!turn) return this.#takeHead(bytes, at)
    return turn.wantsBody && !turn.isUploadBlocked ? turn.takeBody(bytes, at) : at
  }

  #takeHead(bytes: Buffer, at: number): number {
    if (this.#isBlocked) return at
    const result = readRequestHead(at === 0 ? bytes : bytes.subarray(at), this.#seen)
    if (result.kind === 'more') {
      this.#seen = bytes.length - at
      return at
    }
    this.#seen = 0
    if (result.kind === 'bad') {
      this.#asked = { startedAt: this.gate.wires.now() }
      this.#refuse(BAD_HEADS[result.status], result.why)
      return bytes.length
    }
    const { head, end } = result
    if (head.method === 'CONNECT') this.#connect(head, bytes.subarray(at + end))
    else this.#judge(head)
    return at + end
  }

  #connect(head: RequestHead, rest: Buffer): void {
    if (!this.#manner.connect) {
      this.#asked = { startedAt: this.gate.wires.now(), head }
      this.#refuse('bad-request', 'CONNECT on a port that is no proxy')
      return
    }
    this.#isLeaving = true
    this.#patience.cancel()
    this.#origins.close()
    this.#intake.setPaused(false)
    this.#manner.connect(this.client, head, Buffer.from(rest))
  }

  #judge(head: RequestHead): void {
    const judged = judgeRequest(this.gate, this.client.remote.address, head, this.#manner.targetOf)
    this.#asked = judged.asked
    if (judged.kind === 'refuse') this.#refuse(judged.code, judged.why, judged.stays)
    else if (judged.kind === 'answer') this.#say(judged.bytes, judged.stays, ALLOWED, 200)
    else {
      this.#patience.begin('dial')
      this.#turn = new Turn(this, head, judged.target, judged.isEndpoint)
      this.#turn.begin()
    }
  }

  /** What follows from where things stand: whether to read on, and what to wait for. */
  settle(): void {
    if (this.#isLeaving) return
    const turn = this.#turn
    turn?.flush()
    if (this.#hasEnded && (turn ? turn.wantsBody && !turn.isUploadBlocked : !this.#isBlocked)) {
      if (turn) turn.cutUpload('the body ends too early')
      else this.#leave()
      return
    }
    const isStuck = turn !== undefined || this.#isBlocked
    this.#intake.setPaused((isStuck && !this.#intake.isEmpty) || turn?.isUploadBlocked === true)
    if (turn) return
    if (this.#isBlocked) this.#patience.keep('bytes')
    else if (!this.#intake.isEmpty) this.#patience.keep('head')
    else this.#patience.keep(this.#origins.isEmpty ? 'idle-alone' : 'idle')
  }

  #ring(wait: Wait): void {
    if (wait === 'head') this.#refuseLate()
    else if (wait === 'idle' || wait === 'idle-alone') this.#rest()
    else if (wait === 'bytes' && this.#hasMoved()) this.#patience.begin('bytes')
    else if (this.#turn) this.#turn.timedOut()
    else {
      this.client.close()
      this.#end()
    }
  }

  /** What is late is not the request before it. */
  #refuseLate(): void {
    const { limits, wires } = this.gate
    this.#asked = { startedAt: wires.now() - limits.headMs }
    this.#refuse('head-timeout')
  }

  /** First the origins are left, then the client. */
  #rest(): void {
    const { keepAliveMs, originIdleMs } = this.gate.limits
    if (this.#origins.isEmpty || keepAliveMs <= originIdleMs) this.#leave()
    else {
      this.#origins.close()
      this.#patience.begin('idle-alone', originIdleMs)
    }
  }

  #hasMoved(): boolean {
    const { up, down } = this.moved
    const moved = this.client.bytesIn + this.client.bytesOut + up + down
    const has = moved !== this.#moved
    this.#moved = moved
    return has
  }

  ended(): void {
    this.#hasEnded = true
    this.settle()
  }

  drained(): void {
    this.#isBlocked = false
    if (this.#isLeaving) this.#farewell()
    else if (this.#turn) this.#turn.clientDrained()
    else this.#intake.advance()
  }

  closed(): void {
    this.#abandon({ verdict: 'error', reason: 'client-gone' })
  }

  takeOrigin(key: string): Origin | undefined {
    return this.#origins.take(key, this.gate.wires.now())
  }

  wantsMore(): void {
    this.#intake.advance()
  }

  awaits(what: 'answer' | 'bytes'): void {
    this.#patience.begin(what)
  }

  clientBlocked(): void {
    this.#isBlocked = true
  }

  failed(code: AnswerCode, detail: string | undefined, clientStays: boolean): void {
    this.#refuse(code, detail, clientStays && !this.gate.isStopping)
  }

  finished(clientStays: boolean, origin: Origin | undefined): void {
    this.#report(ALLOWED, this.#turn?.status)
    if (origin && this.gate.isCrowded) origin.close()
    else if (origin) this.#origins.keep(origin, this.gate.wires.now())
    if (clientStays) this.#intake.advance()
    else this.#leave()
  }

  broke(reason: string, reset: boolean): void {
    this.#report({ verdict: 'error', reason }, this.#turn?.status)
    if (!reset) {
      this.#leave()
      return
    }
    this.client.reset()
    this.#end()
  }

  upgraded(origin: Origin): void {
    // Telling the client may have shown that it is gone.
    if (this.#isOver) return
    this.#isLeaving = true
    this.#patience.cancel()
    this.#origins.close()
    const over = (end: TunnelEnd): void => {
      this.#turn?.count()
      this.#report(end, this.#turn?.status)
      this.#end()
    }
    this.#tunnel = new Tunnel(this.gate, this.client, origin.wire, over, this.#turn?.target.port)
    this.#tunnel.start(this.#intake.rest, !this.gate.verifySni)
  }

  #refuse(code: AnswerCode, detail?: string, stays = false): void {
    const { denyMessage } = this.gate
    const bytes = writeRefusal(this.#asked, code, { detail, keepAlive: stays, denyMessage })
    const { status } = ANSWERS[code]
    this.#say(bytes, stays, { verdict: status === 403 ? 'deny' : 'error', reason: code }, status)
  }

  /** What we answer ourselves. What still comes of a request that ends here is read and dropped. */
  #say(bytes: Buffer, stays: boolean, end: TunnelEnd, status: number): void {
    this.#report(end, status)
    if (stays) {
      if (!this.client.write(bytes)) this.#isBlocked = true
      // The time for the next request starts now.
      this.#patience.begin('dial')
      this.#intake.advance()
      return
    }
    this.#isLeaving = true
    this.#patience.cancel()
    this.#origins.close()
    sendOff(this.gate, this.client, bytes, () => this.#end())
  }

  /** Nothing more is begun; what was written still goes. */
  #leave(): void {
    this.#isLeaving = true
    this.#origins.close()
    this.#intake.setPaused(false)
    if (this.#isBlocked) this.#patience.begin('bytes')
    else this.#farewell()
  }

  #farewell(): void {
    this.#patience.begin('leave')
    this.client.end()
  }

  #drop(count: number): void {
    this.#dropped += count
    if (this.#dropped <= DROPPED_MAX || this.#isBlocked) return
    this.client.close()
    this.#end()
  }

  get reaches(): readonly HostPort[] {
    const target = this.#turn?.target
    if (!target) return []
    const sni = this.#tunnel?.sni
    return sni ? [target, { host: sni, port: target.port }] : [target]
  }

  get isTunnel(): boolean {
    return this.#tunnel !== undefined
  }

  get moved(): Held['moved'] {
    this.#turn?.count()
    return this.#turn ? { up: this.#turn.bytesUp, down: this.#turn.bytesDown } : NOTHING_MOVED
  }

  revoke(): void {
    this.#abort({ verdict: 'deny', reason: 'revoked' })
  }

  drain(): void {
    if (!this.#turn && !this.#isLeaving && this.#intake.isEmpty) this.#leave()
  }

  stop(): void {
    this.#abort({ verdict: 'allow', reason: 'stopped' })
  }

  #abort(end: TunnelEnd): void {
    if (this.#isOver) return
    if (this.#tunnel) {
      this.#tunnel.stop(end)
      return
    }
    this.client.reset()
    this.#abandon(end)
  }

  #abandon(end: TunnelEnd): void {
    const turn = this.#turn
    turn?.abort()
    if (turn) this.#report(end, turn.status)
    this.#end()
  }

  /** The one record of a request, after which there is none. */
  #report(end: TunnelEnd, status: number | undefined): void {
    const turn = this.#turn
    this.#turn = undefined
    const [mode, from, now] = [this.#manner.mode, this.client.remote.address, this.gate.wires.now()]
    this.gate.done(recordOf(this.#asked, turn, { ...end, status, mode, from, now }))
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#isLeaving = true
    this.#patience.cancel()
    this.#origins.close()
    this.#over()
  }
}
