// The forward listener: a client that knows of the proxy says where it wants to go, by CONNECT or by a whole address.
import { ANSWERS, type AnswerCode, answerBytes } from './answers.ts'
import { serveConnect } from './connect.ts'
import type { Mode } from './exchange.ts'
import { sendOff } from './farewell.ts'
import { type Gate, type Held, NOTHING_MOVED } from './gate.ts'
import { HeldBytes } from './held-bytes.ts'
import type { HostPort } from './host-port.ts'
import { BAD_HEADS } from './http/asked.ts'
import { HEAD_MAX, type RequestHead, readRequestHead } from './http/head.ts'
import { type HttpManner, serveHttp } from './http/relay.ts'
import { forwardTarget } from './http/target.ts'
import type { Timer, Wire, WireOwner } from './wire.ts'

const HEAD_END = Buffer.from('\r\n\r\n')

export function acceptForward(gate: Gate, client: Wire): void {
  new Incoming(gate, client)
}

/** One client, from its first byte to its last. What it asks for is served by what its first request is. */
class Incoming implements WireOwner, Held {
  readonly #gate: Gate
  readonly #client: Wire
  readonly #acceptedAt: number
  #head: HeldBytes | undefined
  #timer: Timer
  #served: Held | undefined

  constructor(gate: Gate, client: Wire) {
    this.#gate = gate
    this.#client = client
    client.owner = this
    this.#acceptedAt = gate.wires.now()
    const isWelcome = gate.enter(client.remote.address, this)
    this.#timer = gate.wires.after(gate.limits.headMs, () => this.#refuse('head-timeout'))
    // Said before a word is heard: whoever opens more than he may must not take the room of others by saying nothing.
    if (!isWelcome) this.#refuse('limit-reached')
  }

  bytes(bytes: Buffer): void {
    const from = this.#head?.length ?? 0
    this.#head?.add(bytes)
    const all = this.#head?.bytes ?? bytes
    // Only the first look is at an unfinished head: whoever sends it byte by byte has it parsed twice, not each time.
    if (from > 0 && all.length < HEAD_MAX && all.indexOf(HEAD_END, Math.max(0, from - 3)) < 0) return
    this.#read(all)
  }

  ended(): void {
    // Half a request, or none: there is nothing to answer.
    this.#client.close()
    this.#over()
  }

  drained(): void {}

  closed(): void {
    this.#over()
  }

  get reaches(): readonly HostPort[] {
    return this.#served?.reaches ?? []
  }

  get isTunnel(): boolean {
    return this.#served?.isTunnel ?? false
  }

  get moved(): Held['moved'] {
    return this.#served?.moved ?? NOTHING_MOVED
  }

  revoke(): void {
    this.#served?.revoke()
  }

  drain(): void {
    if (this.#served) this.#served.drain()
    else this.stop()
  }

  stop(): void {
    if (this.#served) {
      this.#served.stop()
      return
    }
    this.#client.close()
    this.#over()
  }

  #read(all: Buffer): void {
    const result = readRequestHead(all)
    if (result.kind === 'more') {
      if (!this.#head) {
        this.#head = new HeldBytes()
        this.#head.add(all)
      }
      return
    }
    if (result.kind === 'bad') {
      this.#refuse(BAD_HEADS[result.status], result.why)
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
    const manner = this.#manner()
    this.#keep((over) => serveHttp(this.#gate, this.#client, all, manner, over))
  }

  /** Made where the bytes of the head are out of sight, or it would keep them for as long as the client stays. */
  #manner(): HttpManner {
    const connect = (client: Wire, later: RequestHead, rest: Buffer): void => this.#connect(client, later, rest)
    return { mode: 'http', targetOf: forwardTarget, acceptedAt: this.#acceptedAt, connect }
  }

  #connect(client: Wire, head: RequestHead, rest: Buffer): void {
    this.#keep((over) => serveConnect(this.#gate, client, head, rest, over))
  }

  /** What is served may be over before it is known here, or have given the client to a CONNECT that came behind it. */
  #keep(serve: (over: () => void) => Held): void {
    let isOver = false
    const before = this.#served
    const served = serve(() => {
      isOver = true
      this.#over()
    })
    if (!isOver && this.#served === before) this.#served = served
  }

  #refuse(code: AnswerCode, detail?: string): void {
    const { status } = ANSWERS[code]
    const mode: Mode = 'http'
    const source = this.#client.remote.address
    const ms = this.#gate.wires.now() - this.#acceptedAt
    this.#gate.done({ mode, source, verdict: 'error', reason: code, status, bytesUp: 0, bytesDown: 0, ms })
    this.#over()
    sendOff(this.#gate, this.#client, answerBytes(code, { detail }))
  }

  #over(): void {
    this.#timer.cancel()
    this.#gate.leave(this.#client.remote.address, this)
  }
}
