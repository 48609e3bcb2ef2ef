// The current timeout of a client connection. A transfer that makes progress has none.

import type { ProxyLimits } from '../connection/limits.ts'
import type { TcpTransport } from '../transport/transport.ts'
import { Deadline } from './deadline.ts'

export type TimeoutKind =
  /** The rest of a head, counted from its first byte. */
  | 'head'
  /** The next request, with and without idle origin connections. */
  | 'idle'
  | 'idle-client'
  /** A connection to the origin; the dialer has its own limits. */
  | 'dial'
  /** The head of a response. */
  | 'response'
  /** Any progress. */
  | 'bytes'
  /** For the client to close. */
  | 'client-close'

export class ConnectionTimeouts {
  readonly #limits: ProxyLimits
  readonly #deadline: Deadline
  #kind: TimeoutKind = 'dial'

  constructor(transport: TcpTransport, limits: ProxyLimits, onTimeout: (kind: TimeoutKind) => void) {
    this.#limits = limits
    this.#deadline = new Deadline(transport, () => onTimeout(this.#kind))
  }

  /** `elapsedMs` is subtracted from the timeout. */
  start(kind: TimeoutKind, elapsedMs = 0): void {
    this.#kind = kind
    const ms = this.#msOf(kind) - elapsedMs
    if (ms === Number.POSITIVE_INFINITY) this.#deadline.disarm()
    else this.#deadline.set(Math.max(1, ms))
  }

  /** Starts it unless it is already running. */
  ensure(kind: TimeoutKind): void {
    if (kind !== this.#kind) this.start(kind)
  }

  cancel(): void {
    this.#deadline.dispose()
  }

  #msOf(kind: TimeoutKind): number {
    const { headMs, keepAliveMs, originIdleMs, responseMs, idleMs, lingerMs } = this.#limits
    if (kind === 'head') return headMs
    if (kind === 'idle') return Math.min(keepAliveMs, originIdleMs)
    if (kind === 'idle-client') return keepAliveMs
    if (kind === 'bytes') return idleMs
    if (kind === 'client-close') return lingerMs
    return kind === 'response' && responseMs > 0 ? responseMs : Number.POSITIVE_INFINITY
  }
}
