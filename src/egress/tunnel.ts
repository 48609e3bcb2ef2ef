// Two connections made one: bytes pass both ways, and so does the end of each side. Where the first bytes of the client are
// a TLS hello, the name in it must be allowed too, or an allowed host would be the door to every other behind the same
// address. Until the server has accepted a hello, another one may follow, and is judged too. What the server sends is never
// held back for it.
import { TLS_DENIED } from './answers.ts'
import { BEYOND_ALL, type Hello, HelloReader, OTHER_MESSAGE } from './client-hello.ts'
import { sendOff } from './farewell.ts'
import type { Gate } from './gate.ts'
import { HeldBytes } from './held-bytes.ts'
import { type Host, parseHost } from './host.ts'
import { decide } from './match.ts'
import { SecondHello } from './second-hello.ts'
import { ServerHelloReader } from './server-hello.ts'
import type { Timer, Wire, WireOwner } from './wire.ts'

/** How a tunnel ended, for the log line. */
export interface TunnelEnd {
  readonly verdict: 'allow' | 'deny' | 'error'
  readonly reason: string
  /** The name in the hello for which it was refused. */
  readonly sni?: string | undefined
}

const NOTHING = new Uint8Array(0)
/** How often a tunnel is looked at, so that it ends by so much too late at most. */
const WATCH_MS = 60_000

export class Tunnel {
  readonly #gate: Gate
  readonly #client: Wire
  readonly #server: Wire
  readonly #over: (end: TunnelEnd) => void
  readonly #port: number | undefined
  #open = 2
  #end: TunnelEnd = { verdict: 'allow', reason: 'allowed' }
  /** While a hello is being read, and behind the first one until there can be no other. */
  #hello: HelloReader | undefined
  #second: SecondHello | undefined
  /** While what the server sends is looked at; behind it everything is pumped. */
  #answer: ServerHelloReader | undefined
  #held: HeldBytes | undefined
  #moved = 0
  #movedAt: number
  #timer: Timer
  /** The name in the client's hello, where it has one. */
  sni: Host | undefined

  /** The server name is judged together with `port`, so that an endpoint's own name is accepted. */
  constructor(gate: Gate, client: Wire, server: Wire, over: (end: TunnelEnd) => void, port?: number) {
    this.#gate = gate
    this.#client = client
    this.#server = server
    this.#over = over
    this.#port = port
    this.#movedAt = gate.wires.now()
    client.owner = this.#ownerOf(server, (bytes) => this.#look(bytes))
    server.owner = this.#ownerOf(client, (bytes) => this.#listen(bytes))
    this.#timer = this.#watch()
  }

  /** `early` are bytes that the client has sent already. With `verified`, they have been judged. */
  start(early: Uint8Array, verified: boolean): void {
    const { wires } = this.#gate
    if (this.#open === 0) return
    if (verified) {
      wires.pump(this.#server, this.#client)
      if (early.length > 0) this.#server.write(early)
      wires.pump(this.#client, this.#server)
      return
    }
    this.#answer = new ServerHelloReader()
    this.#hello = new HelloReader()
    this.#timer.cancel()
    this.#timer = wires.after(this.#gate.limits.headMs, () => this.#waited())
    this.#client.resume()
    if (early.length > 0) this.#look(early)
    if (this.#client.hasEnded) this.#server.end()
  }

  stop(end: TunnelEnd): void {
    if (this.#open === 0) return
    this.#end = end
    this.#client.reset()
    this.#server.reset()
    this.#finish()
  }

  /** A client that says nothing is waiting for the server, as with SSH; one that stops within its hello is not. */
  #waited(): void {
    if (this.#held) {
      this.stop({ verdict: 'deny', reason: 'sni-unreadable' })
      return
    }
    this.#timer = this.#watch()
  }

  /** What the client sends, for as long as a hello may be in it. */
  #look(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length && this.#open > 0; )
      at = this.#hello ? this.#judge(this.#hello, bytes, at) : this.#passOver(bytes, at)
  }

  /** Says where it stopped. */
  #judge(reader: HelloReader, bytes: Uint8Array, at: number): number {
    const rest = at === 0 ? bytes : bytes.subarray(at)
    const hello = reader.push(rest)
    if (hello.kind === 'more') {
      this.#held ??= new HeldBytes()
      this.#held.add(rest)
      return bytes.length
    }
    // No server reads another hello behind these.
    const isNone = this.#second && (hello === OTHER_MESSAGE || hello === BEYOND_ALL)
    if (hello.kind === 'not-tls' || isNone) {
      this.#pass(rest)
      return bytes.length
    }
    const fault = this.#findFault(hello)
    if (fault !== undefined) {
      this.#refuse(fault)
      return bytes.length
    }
    this.#send(rest.subarray(0, reader.end))
    this.#hello = undefined
    this.#second = new SecondHello()
    this.#timer.cancel()
    if (this.#open > 0) this.#timer = this.#watch()
    return at + reader.end
  }

  #findFault(hello: Hello): TunnelEnd | undefined {
    if (hello.kind !== 'hello') return { verdict: 'deny', reason: 'sni-unreadable' }
    if (hello.sni === undefined) return undefined
    const sni = parseHost(hello.sni)
    if (!sni) return { verdict: 'deny', reason: 'sni-unreadable', sni: hello.sni }
    this.sni = sni
    const { allow } = decide(this.#gate.find(this.#client.remote.address), sni, this.#port)
    return allow ? undefined : { verdict: 'deny', reason: 'sni-denied', sni: sni.text }
  }

  #passOver(bytes: Uint8Array, at: number): number {
    if (!this.#second || !this.#answer) {
      this.#pass(bytes.subarray(at))
      return bytes.length
    }
    const end = this.#second.find(bytes, at)
    if (end > at) this.#send(bytes.subarray(at, end))
    if (end < bytes.length) this.#hello = new HelloReader()
    return end
  }

  /** What the server sends, for as long as it may ask for another hello. */
  #listen(bytes: Uint8Array): void {
    if (!this.#client.write(bytes)) this.#server.pause()
    this.#answer?.push(bytes)
    if (this.#open === 0 || !this.#answer?.isSettled) return
    this.#pumpAnswer()
    // A server that spoke first has read no hello: the first one is still judged.
    if (this.#second) this.#pass(NOTHING)
  }

  /** These, and from now on everything as it comes. */
  #pass(bytes: Uint8Array): void {
    this.#send(bytes)
    this.#hello = undefined
    this.#second = undefined
    this.#timer.cancel()
    // Sending may have shown that the server is gone.
    if (this.#open === 0) return
    this.#timer = this.#watch()
    this.#pumpAnswer()
    this.#gate.wires.pump(this.#client, this.#server)
  }

  #pumpAnswer(): void {
    if (!this.#answer) return
    this.#answer = undefined
    this.#gate.wires.pump(this.#server, this.#client)
  }

  #send(bytes: Uint8Array): void {
    if (this.#held) this.#server.write(this.#held.bytes)
    this.#held = undefined
    // The server decides how long it is looked at: what it does not read must not pile up here.
    if (bytes.length > 0 && !this.#server.write(bytes)) this.#client.pause()
  }

  #refuse(end: TunnelEnd): void {
    this.#end = end
    this.#server.reset()
    sendOff(this.#gate, this.#client, TLS_DENIED)
    this.#finish()
  }

  #ownerOf(other: Wire, bytes: (bytes: Uint8Array) => void): WireOwner {
    return {
      bytes,
      // Only while it is looked at: what is pumped passes its end on.
      ended: () => other.end(),
      drained: () => other.resume(),
      closed: (error) => this.#closed(other, error),
    }
  }

  #closed(other: Wire, error: string | undefined): void {
    if (error === undefined) {
      this.#open--
      if (this.#open === 0) this.#finish()
      return
    }
    other.reset()
    this.#finish()
  }

  #finish(): void {
    this.#open = 0
    this.#timer.cancel()
    this.#over(this.#end)
  }

  /**
   * What comes in counts, and what arrives counts again: in between the kernel keeps more than a slow reader takes within
   * the limit.
   */
  #countMoved(): number {
    const [client, server] = [this.#client, this.#server]
    return 2 * (server.bytesIn + server.bytesOut) - client.unsent - server.unsent
  }

  /** Looks now and then whether anything has moved. No work for each chunk. */
  #watch(): Timer {
    const { wires, limits } = this.#gate
    return wires.after(Math.min(limits.idleMs, WATCH_MS), () => {
      const moved = this.#countMoved()
      const now = wires.now()
      if (moved !== this.#moved) {
        this.#moved = moved
        this.#movedAt = now
      }
      if (now - this.#movedAt >= limits.idleMs) this.stop({ verdict: 'allow', reason: 'idle' })
      else this.#timer = this.#watch()
    })
  }
}
