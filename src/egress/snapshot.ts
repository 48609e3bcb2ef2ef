// What the proxy has counted, at one moment: plain values, so that one thread can hand it to another.
import type { Mode } from './exchange.ts'

export interface Snapshot {
  readonly decisions: readonly Decisions[]
  readonly errors: readonly Errors[]
  /** Connections of clients that are open now, and how many of those are tunnels. */
  readonly connections: number
  readonly tunnels: number
  /** From clients, and to them. */
  readonly bytesUp: number
  readonly bytesDown: number
  readonly dial: Durations
  readonly dns: Durations
  /** Lines that the log could not take in time. */
  readonly droppedLines: number
  /** The newest first. */
  readonly denied: readonly DeniedHost[]
}

export interface Decisions {
  readonly mode: Mode
  readonly verdict: 'allow' | 'deny'
  readonly reason: string
  readonly count: number
}

export interface Errors {
  readonly code: string
  readonly count: number
}

/** The upper bounds of all durations. */
export const BOUNDS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30] as const

export interface Durations {
  /** One for each bound, and one for what is longer. Each duration is in one of them. */
  readonly counts: readonly number[]
  readonly sumS: number
}

/** A host that a source may not reach, and asked for; what an operator may want to allow. */
export interface DeniedHost {
  readonly ip: string
  readonly id: string | undefined
  readonly host: string
  readonly port: number | undefined
  /** The name in a TLS hello that was refused; then it is this that may be allowed, and not `host`. */
  readonly sni: string | undefined
  readonly reason: string
  readonly count: number
  /** Milliseconds since 1970. */
  readonly firstMs: number
  readonly lastMs: number
}
