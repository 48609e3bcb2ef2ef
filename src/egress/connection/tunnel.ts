// Forwards bytes and half-closes between a client and a host. If the client starts with a TLS ClientHello, the server name in
// it must be allowed too; otherwise an allowed host would give access to every other one at the same address. Further
// ClientHellos are checked until the server has accepted one. Bytes from the server are never held back.
// See docs/decisions.md#sni-inside-connect.

import { type CanonicalHost, parseHost } from '../address/host.ts'
import { evaluatePolicy } from '../policy/policy.ts'
import { ClientHelloReader, HELLO_TOO_LONG, NOT_CLIENT_HELLO } from '../tls/client-hello.ts'
import type { ClientHelloResult } from '../tls/client-hello-message.ts'
import { SecondHelloScanner } from '../tls/second-hello-scanner.ts'
import { ServerHelloReader } from '../tls/server-hello.ts'
import type { ConnectionOwner, TcpConnection, Timer } from '../transport/transport.ts'
import { ByteAccumulator } from './byte-accumulator.ts'
import type { EgressContext } from './egress-context.ts'
import { TLS_ACCESS_DENIED_ALERT } from './error-responses.ts'
import { lingerClose } from './linger-close.ts'

/** Result of a tunnel for its access record. */
export interface TunnelOutcome {
  readonly verdict: 'allow' | 'deny' | 'error'
  readonly reason: string
  /** The denied server name. */
  readonly sni?: string | undefined
}

const NOTHING = new Uint8Array(0)
/** Interval of the idle check; the idle timeout may be late by this much. */
const IDLE_CHECK_MS = 60_000

export class Tunnel {
  readonly #context: EgressContext
  readonly #client: TcpConnection
  readonly #server: TcpConnection
  readonly #onEnd: (outcome: TunnelOutcome) => void
  readonly #port: number | undefined
  #openSides = 2
  #outcome: TunnelOutcome = { verdict: 'allow', reason: 'allowed' }
  /** Reads the current ClientHello. */
  #hello: ClientHelloReader | undefined
  #scanner: SecondHelloScanner | undefined
  /** Watches for the server's answer to a ClientHello; undefined once server bytes are pumped. */
  #serverHello: ServerHelloReader | undefined
  #heldBack: ByteAccumulator | undefined
  #bytesMoved = 0
  #lastProgressAt: number
  #timer: Timer
  /** Server name of the client's ClientHello. */
  sni: CanonicalHost | undefined

  /** The server name is checked together with `port`, so that the name of an allowed endpoint is accepted. */
  constructor(
    context: EgressContext,
    client: TcpConnection,
    server: TcpConnection,
    onEnd: (outcome: TunnelOutcome) => void,
    port?: number,
  ) {
    this.#context = context
    this.#client = client
    this.#server = server
    this.#onEnd = onEnd
    this.#port = port
    this.#lastProgressAt = context.transport.now()
    client.owner = this.#ownerOf(server, (bytes) => this.#inspectClient(bytes))
    server.owner = this.#ownerOf(client, (bytes) => this.#inspectServer(bytes))
    this.#timer = this.#startIdleCheck()
  }

  /** `early` are bytes that the client has already sent. */
  start(early: Uint8Array): void {
    const { transport, verifySni } = this.#context
    if (this.#openSides === 0) return
    if (!verifySni) {
      transport.pump(this.#server, this.#client)
      if (early.length > 0) this.#server.write(early)
      transport.pump(this.#client, this.#server)
      return
    }
    this.#serverHello = new ServerHelloReader()
    this.#hello = new ClientHelloReader()
    this.#timer.cancel()
    this.#timer = transport.after(this.#context.limits.headMs, () => this.#helloTimedOut())
    this.#client.resume()
    if (early.length > 0) this.#inspectClient(early)
    if (this.#client.hasEnded) this.#server.end()
  }

  stop(outcome: TunnelOutcome): void {
    if (this.#openSides === 0) return
    this.#outcome = outcome
    this.#client.reset()
    this.#server.reset()
    this.#finish()
  }

  /** A client that sends nothing waits for the server, as with SSH; one that stops within its ClientHello is denied. */
  #helloTimedOut(): void {
    if (this.#heldBack) {
      this.stop({ verdict: 'deny', reason: 'sni-unreadable' })
      return
    }
    this.#timer = this.#startIdleCheck()
  }

  /** Handles client bytes for as long as they may contain a ClientHello. */
  #inspectClient(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length && this.#openSides > 0; )
      at = this.#hello ? this.#checkHello(this.#hello, bytes, at) : this.#scanForHello(bytes, at)
  }

  /** Returns the end of the consumed bytes. */
  #checkHello(reader: ClientHelloReader, bytes: Uint8Array, at: number): number {
    const rest = at === 0 ? bytes : bytes.subarray(at)
    const hello = reader.push(rest)
    if (hello.kind === 'more') {
      this.#heldBack ??= new ByteAccumulator()
      this.#heldBack.add(rest)
      return bytes.length
    }
    // No server reads another ClientHello after these.
    const isNoHello = this.#scanner && (hello === NOT_CLIENT_HELLO || hello === HELLO_TOO_LONG)
    if (hello.kind === 'not-tls' || isNoHello) {
      this.#sendAndPump(rest)
      return bytes.length
    }
    const denial = this.#findDenial(hello)
    if (denial !== undefined) {
      this.#refuse(denial)
      return bytes.length
    }
    this.#send(rest.subarray(0, reader.end))
    this.#hello = undefined
    this.#scanner = new SecondHelloScanner()
    this.#timer.cancel()
    if (this.#openSides > 0) this.#timer = this.#startIdleCheck()
    return at + reader.end
  }

  #findDenial(hello: ClientHelloResult): TunnelOutcome | undefined {
    if (hello.kind !== 'hello') return { verdict: 'deny', reason: 'sni-unreadable' }
    if (hello.sni === undefined) return undefined
    const sni = parseHost(hello.sni)
    if (!sni) return { verdict: 'deny', reason: 'sni-unreadable', sni: hello.sni }
    this.sni = sni
    const { allow } = evaluatePolicy(this.#context.findSource(this.#client.remote.address), sni, this.#port)
    return allow ? undefined : { verdict: 'deny', reason: 'sni-denied', sni: sni.text }
  }

  #scanForHello(bytes: Uint8Array, at: number): number {
    if (!this.#scanner || !this.#serverHello) {
      this.#sendAndPump(bytes.subarray(at))
      return bytes.length
    }
    const end = this.#scanner.find(bytes, at)
    if (end > at) this.#send(bytes.subarray(at, end))
    if (end < bytes.length) this.#hello = new ClientHelloReader()
    return end
  }

  /** Handles server bytes for as long as the server may request another ClientHello. */
  #inspectServer(bytes: Uint8Array): void {
    if (!this.#client.write(bytes)) this.#server.pause()
    this.#serverHello?.push(bytes)
    if (this.#openSides === 0 || !this.#serverHello?.isSettled) return
    this.#pumpServer()
    // A server that sends first has not read a ClientHello, so the first one is still checked.
    if (this.#scanner) this.#sendAndPump(NOTHING)
  }

  /** Sends `bytes` and pumps everything after them. */
  #sendAndPump(bytes: Uint8Array): void {
    this.#send(bytes)
    this.#hello = undefined
    this.#scanner = undefined
    this.#timer.cancel()
    // The write may have found the server closed.
    if (this.#openSides === 0) return
    this.#timer = this.#startIdleCheck()
    this.#pumpServer()
    this.#context.transport.pump(this.#client, this.#server)
  }

  #pumpServer(): void {
    if (!this.#serverHello) return
    this.#serverHello = undefined
    this.#context.transport.pump(this.#server, this.#client)
  }

  #send(bytes: Uint8Array): void {
    if (this.#heldBack) this.#server.write(this.#heldBack.bytes)
    this.#heldBack = undefined
    // The server decides how long this phase lasts, so unread bytes must not pile up here.
    if (bytes.length > 0 && !this.#server.write(bytes)) this.#client.pause()
  }

  #refuse(outcome: TunnelOutcome): void {
    this.#outcome = outcome
    this.#server.reset()
    lingerClose(this.#context, this.#client, TLS_ACCESS_DENIED_ALERT)
    this.#finish()
  }

  #ownerOf(other: TcpConnection, bytes: (bytes: Uint8Array) => void): ConnectionOwner {
    return {
      received: bytes,
      // A pump forwards the end itself.
      ended: () => other.end(),
      drained: () => other.resume(),
      closed: (error) => this.#closed(other, error),
    }
  }

  #closed(other: TcpConnection, error: string | undefined): void {
    if (error === undefined) {
      this.#openSides--
      if (this.#openSides === 0) this.#finish()
      return
    }
    other.reset()
    this.#finish()
  }

  #finish(): void {
    this.#openSides = 0
    this.#timer.cancel()
    this.#onEnd(this.#outcome)
  }

  /** Counts bytes when received and again when acknowledged: a slow reader may take longer than the limit to drain the kernel's buffers. */
  #countProgress(): number {
    const [client, server] = [this.#client, this.#server]
    return 2 * (server.bytesIn + server.bytesOut) - client.unsent - server.unsent
  }

  /** Polls the byte counters, which costs nothing per chunk. */
  #startIdleCheck(): Timer {
    const { transport, limits } = this.#context
    return transport.after(Math.min(limits.idleMs, IDLE_CHECK_MS), () => {
      const bytesMoved = this.#countProgress()
      const now = transport.now()
      if (bytesMoved !== this.#bytesMoved) {
        this.#bytesMoved = bytesMoved
        this.#lastProgressAt = now
      }
      if (now - this.#lastProgressAt >= limits.idleMs) this.stop({ verdict: 'allow', reason: 'idle' })
      else this.#timer = this.#startIdleCheck()
    })
  }
}
