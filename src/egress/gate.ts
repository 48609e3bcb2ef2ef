// What every kind of connection shares: who may reach what, how to get there, and who is told what became of it.
import type { Dialer } from './dialer.ts'
import type { Exchange } from './exchange.ts'
import type { HostPort } from './host-port.ts'
import type { Limits } from './limits.ts'
import type { Source } from './match.ts'
import type { Refusals } from './refusals.ts'
import type { Wires } from './wire.ts'

/** Something open that a change of the list may end. */
export interface Held {
  /** What it reaches, or nothing yet. */
  readonly reaches: readonly HostPort[]
  readonly isTunnel: boolean
  /** Bytes of what is not over yet. */
  readonly moved: { readonly up: number; readonly down: number }
  /** Ends it at once, because it is not allowed any more. */
  revoke(): void
  /** The proxy is about to stop: what has not begun ends now, what is under way by itself. */
  drain(): void
  /** Ends it because the proxy stops. */
  stop(): void
}

export const NOTHING_MOVED: Held['moved'] = { up: 0, down: 0 }

export interface Gate {
  readonly wires: Wires
  readonly limits: Limits
  readonly refusals: Refusals
  readonly dialer: Dialer
  readonly verifySni: boolean
  /** The name of this proxy in Via. */
  readonly via: string
  readonly denyMessage: string | undefined
  /** Nothing new is begun any more. */
  readonly isStopping: boolean
  /** More than half of the connections that may be open are: what is only kept for later is better closed. */
  readonly isCrowded: boolean
  find(address: string): Source | undefined
  /** False when this source, or the whole proxy, has as many open as it may. */
  enter(address: string, held: Held): boolean
  leave(address: string, held: Held): void
  done(exchange: Exchange): void
}
