// A snapshot of the proxy's counters as plain values, which can be posted between threads.
import type { ProxyMode } from './access-record.ts'

export interface MetricsSnapshot {
  readonly decisions: readonly DecisionCount[]
  readonly errors: readonly ErrorCount[]
  /** Open client connections, and how many of them are tunnels. */
  readonly connections: number
  readonly tunnels: number
  /** From clients, and to clients. */
  readonly bytesUp: number
  readonly bytesDown: number
  readonly dial: DurationHistogram
  readonly dns: DurationHistogram
  /** Log lines dropped. */
  readonly droppedLines: number
  /** Newest first. */
  readonly denied: readonly DeniedHost[]
}

export interface DecisionCount {
  readonly mode: ProxyMode
  readonly verdict: 'allow' | 'deny'
  readonly reason: string
  readonly count: number
}

export interface ErrorCount {
  readonly code: string
  readonly count: number
}

/** The upper bounds of all durations. */
export const BUCKET_BOUNDS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30] as const

export interface DurationHistogram {
  /** One per bound, and one for longer durations; not cumulative. */
  readonly counts: readonly number[]
  readonly sumS: number
}

/** A host that a source was denied, for an operator to allow. */
export interface DeniedHost {
  readonly ip: string
  readonly id: string | undefined
  readonly host: string
  readonly port: number | undefined
  /** The name in a refused TLS hello; to allow it, allow this name and not `host`. */
  readonly sni: string | undefined
  readonly reason: string
  readonly count: number
  /** Milliseconds since 1970. */
  readonly firstMs: number
  readonly lastMs: number
}
