// A client on its way to a host: the verdict, the dialling, the tunnel, and what is told of it in the end. How it asked and
// how it is told no is for `connect.ts` and `transparent.ts`.
import type { About } from './answers.ts'
import type { Dialled, Failure } from './dialer.ts'
import type { Mode } from './exchange.ts'
import { type Gate, type Held, NOTHING_MOVED } from './gate.ts'
import type { HostPort } from './host-port.ts'
import { decide, type Source, type Verdict } from './match.ts'
import { Tunnel, type TunnelEnd } from './tunnel.ts'
import type { Wire } from './wire.ts'

/** What becomes a tunnel. */
export interface Opening {
  /** What the client has sent so far; asked for once, when there is somebody to send it to. */
  takeEarly(): Uint8Array
  /** What the client is told before a byte of the host, and the number in it. */
  readonly greeting?: { readonly bytes: Uint8Array; readonly status: number }
  failed(failure: Failure): void
}

export class Passage implements Held {
  readonly #gate: Gate
  readonly #client: Wire
  readonly #kind: { readonly mode: Mode; readonly port?: number }
  readonly #over: () => void
  readonly #startedAt: number
  #source: Source | undefined
  #target: HostPort | undefined
  #rule: string | undefined
  #isEndpoint = false
  #dialling: { cancel(): void } | undefined
  #dialMs: number | undefined
  #dialled: Dialled | undefined
  #tunnel: Tunnel | undefined

  /** What it wants is known to `judge`; of some the port is known before. `over` is told once, when all is said about it. */
  constructor(gate: Gate, client: Wire, kind: { readonly mode: Mode; readonly port?: number }, over: () => void) {
    this.#gate = gate
    this.#client = client
    this.#kind = kind
    this.#over = over
    this.#startedAt = gate.wires.now()
    this.#source = gate.find(client.remote.address)
  }

  /** As of now: the list may have changed since the client connected. */
  judge(target: HostPort): Verdict {
    this.#target = target
    this.#source = this.#gate.find(this.#client.remote.address)
    const verdict = decide(this.#source, target.host, target.port)
    this.#rule = verdict.rule
    this.#isEndpoint = verdict.isEndpoint === true
    return verdict
  }

  /** Dials what was judged. */
  open(opening: Opening): void {
    const target = this.#target
    if (!target) return
    let isTold = false
    const destination = { ...target, isEndpoint: this.#isEndpoint }
    const dialling = this.#gate.dialer.dial(this.#client.remote.address, destination, (result) => {
      isTold = true
      this.#dialling = undefined
      this.#dialMs = this.#gate.wires.now() - this.#startedAt
      if ('code' in result) opening.failed(result)
      else this.#join(result, opening)
    })
    if (!isTold) this.#dialling = dialling
  }

  get isDialling(): boolean {
    return this.#dialling !== undefined
  }

  /** What an answer may say of it. */
  get about(): About {
    return { host: this.#target?.host.text, port: this.#target?.port, id: this.#source?.id }
  }

  get reaches(): readonly HostPort[] {
    const target = this.#target
    if (!target) return []
    const sni = this.#tunnel?.sni
    return sni ? [target, { host: sni, port: target.port }] : [target]
  }

  get isTunnel(): boolean {
    return this.#tunnel !== undefined
  }

  get moved(): Held['moved'] {
    const wire = this.#dialled?.wire
    return wire ? { up: wire.bytesOut, down: wire.bytesIn } : NOTHING_MOVED
  }

  revoke(): void {
    this.abort({ verdict: 'deny', reason: 'revoked' })
  }

  drain(): void {
    if (!this.#tunnel) this.stop()
  }

  stop(): void {
    this.abort({ verdict: 'allow', reason: 'stopped' })
  }

  /** Without a word to the client. */
  abort(end: TunnelEnd): void {
    if (this.#tunnel) {
      this.#tunnel.stop(end)
      return
    }
    this.#dialling?.cancel()
    this.#client.reset()
    this.report(end)
  }

  /** The client has closed before there was a tunnel. */
  leave(): void {
    this.#dialling?.cancel()
    this.report({ verdict: 'error', reason: 'client-gone' })
  }

  report({ verdict, reason, sni }: TunnelEnd, status?: number): void {
    const { up, down } = this.moved
    this.#gate.done({
      mode: this.#kind.mode,
      source: this.#client.remote.address,
      id: this.#source?.id,
      host: this.#target?.host.text,
      port: this.#target?.port ?? this.#kind.port,
      sni,
      address: this.#dialled?.address,
      verdict,
      reason,
      rule: this.#rule,
      status,
      bytesUp: up,
      bytesDown: down,
      ms: this.#gate.wires.now() - this.#startedAt,
      dialMs: this.#dialMs,
    })
    this.#over()
  }

  #join(dialled: Dialled, { takeEarly, greeting }: Opening): void {
    const { verifySni } = this.#gate
    this.#dialled = dialled
    const over = (end: TunnelEnd): void => this.report(end, greeting?.status)
    const tunnel = new Tunnel(this.#gate, this.#client, dialled.wire, over, this.#target?.port)
    this.#tunnel = tunnel
    // The client may turn out to be gone by now: then it is the tunnel that ends.
    if (greeting) this.#client.write(greeting.bytes)
    tunnel.start(takeEarly(), !verifySni)
  }
}
