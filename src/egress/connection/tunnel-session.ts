// A client that becomes a tunnel: policy check, dialling, tunnel, access record. `connect-request.ts` and
// `transparent-listener.ts` read the request and send errors.

import type { HostPort } from '../address/host-port.ts'
import { type CompiledSource, evaluatePolicy, type PolicyVerdict } from '../policy/policy.ts'
import type { ProxyMode } from '../reporting/access-record.ts'
import type { TcpConnection } from '../transport/transport.ts'
import type { DialFailure, DialSuccess } from './dialer.ts'
import { type ClientSession, type EgressContext, NO_BYTES_MOVED } from './egress-context.ts'
import type { ProxyErrorDetails } from './error-responses.ts'
import { Tunnel, type TunnelOutcome } from './tunnel.ts'

export interface TunnelSetup {
  /** Returns what the client has sent so far; called once, when the host is connected. */
  takeBuffered(): Uint8Array
  /** Sent to the client before any byte of the host, and its HTTP status. */
  readonly greeting?: { readonly bytes: Uint8Array; readonly status: number }
  failed(failure: DialFailure): void
}

export class TunnelSession implements ClientSession {
  readonly #context: EgressContext
  readonly #client: TcpConnection
  readonly #kind: { readonly mode: ProxyMode; readonly port?: number }
  readonly #onEnd: () => void
  readonly #startedAt: number
  #source: CompiledSource | undefined
  #target: HostPort | undefined
  #rule: string | undefined
  #isEndpoint = false
  #pendingDial: { cancel(): void } | undefined
  #dialMs: number | undefined
  #dialled: DialSuccess | undefined
  #tunnel: Tunnel | undefined

  /** `port` is set if it is known before `checkPolicy`. `onEnd` is called once, after the access record. */
  constructor(
    context: EgressContext,
    client: TcpConnection,
    kind: { readonly mode: ProxyMode; readonly port?: number },
    onEnd: () => void,
  ) {
    this.#context = context
    this.#client = client
    this.#kind = kind
    this.#onEnd = onEnd
    this.#startedAt = context.transport.now()
    this.#source = context.findSource(client.remote.address)
  }

  /** Looks the source up again: the registry may have changed since the client connected. */
  checkPolicy(target: HostPort): PolicyVerdict {
    this.#target = target
    this.#source = this.#context.findSource(this.#client.remote.address)
    const verdict = evaluatePolicy(this.#source, target.host, target.port)
    this.#rule = verdict.rule
    this.#isEndpoint = verdict.isEndpoint === true
    return verdict
  }

  /** Dials the target of the last `checkPolicy`. */
  open(setup: TunnelSetup): void {
    const target = this.#target
    if (!target) return
    let isDone = false
    const destination = { ...target, isEndpoint: this.#isEndpoint }
    const pendingDial = this.#context.dialer.dial(this.#client.remote.address, destination, (result) => {
      isDone = true
      this.#pendingDial = undefined
      this.#dialMs = this.#context.transport.now() - this.#startedAt
      if ('code' in result) setup.failed(result)
      else this.#startTunnel(result, setup)
    })
    if (!isDone) this.#pendingDial = pendingDial
  }

  get isDialling(): boolean {
    return this.#pendingDial !== undefined
  }

  get errorDetails(): ProxyErrorDetails {
    return { host: this.#target?.host.text, port: this.#target?.port, id: this.#source?.id }
  }

  get destinations(): readonly HostPort[] {
    const target = this.#target
    if (!target) return []
    const sni = this.#tunnel?.sni
    return sni ? [target, { host: sni, port: target.port }] : [target]
  }

  get isTunnel(): boolean {
    return this.#tunnel !== undefined
  }

  get moved(): ClientSession['moved'] {
    const connection = this.#dialled?.connection
    return connection ? { up: connection.bytesOut, down: connection.bytesIn } : NO_BYTES_MOVED
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

  /** Closes without a response to the client. */
  abort(outcome: TunnelOutcome): void {
    if (this.#tunnel) {
      this.#tunnel.stop(outcome)
      return
    }
    this.#pendingDial?.cancel()
    this.#client.reset()
    this.report(outcome)
  }

  /** The client closed before the tunnel was open. */
  clientClosed(): void {
    this.#pendingDial?.cancel()
    this.report({ verdict: 'error', reason: 'client-gone' })
  }

  report({ verdict, reason, sni }: TunnelOutcome, status?: number): void {
    const { up, down } = this.moved
    this.#context.recordAccess({
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
      ms: this.#context.transport.now() - this.#startedAt,
      dialMs: this.#dialMs,
    })
    this.#onEnd()
  }

  #startTunnel(dialled: DialSuccess, { takeBuffered, greeting }: TunnelSetup): void {
    this.#dialled = dialled
    const onEnd = (outcome: TunnelOutcome): void => this.report(outcome, greeting?.status)
    const tunnel = new Tunnel(this.#context, this.#client, dialled.connection, onEnd, this.#target?.port)
    this.#tunnel = tunnel
    // If this write finds the client closed, the tunnel ends.
    if (greeting) this.#client.write(greeting.bytes)
    tunnel.start(takeBuffered())
  }
}
