// What a scraper reads: Prometheus text. Labels come from fixed sets, so that no client can make series.
import { monitorEventLoopDelay } from 'node:perf_hooks'

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
/** Statuses have one of ten first digits. */
const CLASSES = 10
const BOUNDS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const
/** Delays are told over about this time, so that yesterday's stall does not hide today's. */
const WINDOW_MS = 60_000

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** The requests of one daemon. */
export class RequestMetrics {
  readonly #daemon: string
  /** By method, then by the first digit of the status. */
  readonly #counts = new Map<string, Float64Array>()
  readonly #buckets = new Float64Array(BOUNDS_S.length + 1)
  #sumS = 0

  constructor(daemon: string) {
    this.#daemon = daemon
  }

  add(method: string, status: number, ms: number): void {
    const known = METHODS.has(method) ? method : 'other'
    const counts = this.#counts.get(known) ?? new Float64Array(CLASSES)
    const kind = Math.trunc(status / 100)
    counts[kind] = (counts[kind] ?? 0) + 1
    this.#counts.set(known, counts)
    const seconds = ms / 1000
    const index = BOUNDS_S.findIndex((bound) => seconds <= bound)
    const bucket = index < 0 ? BOUNDS_S.length : index
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1
    this.#sumS += seconds
  }

  text(): string {
    const daemon = `daemon="${this.#daemon}"`
    let below = 0
    const buckets = [...this.#buckets].map((count, index) => {
      below += count
      return `http_request_seconds_bucket{${daemon},le="${BOUNDS_S[index] ?? '+Inf'}"} ${below}`
    })
    return lines(
      ...head('http_requests_total', 'counter', 'Requests that were answered'),
      ...[...this.#counts]
        .sort()
        .flatMap(([method, counts]) =>
          [...counts].flatMap((count, kind) =>
            count > 0 ? [`http_requests_total{${daemon},method="${method}",status="${kind}xx"} ${count}`] : [],
          ),
        ),
      ...head('http_request_seconds', 'histogram', 'Time from the head of a request to the head of its answer'),
      ...buckets,
      `http_request_seconds_sum{${daemon}} ${this.#sumS}`,
      `http_request_seconds_count{${daemon}} ${below}`,
    )
  }
}

export interface ProcessMetrics {
  text(): string
  close(): void
}

/** The process that the daemons share: memory, processor and how late the event loop is. */
export function openProcessMetrics(): ProcessMetrics {
  const delay = monitorEventLoopDelay({ resolution: 10 })
  delay.enable()
  let since = performance.now()
  return {
    text: () => {
      // In nanoseconds; before the first sample there is no number at all.
      const seconds = (ns: number): number => (Number.isFinite(ns) ? ns / 1e9 : 0)
      const late = [0.5, 0.99].map(
        (quantile) =>
          `nodejs_eventloop_delay_seconds{quantile="${quantile}"} ${seconds(delay.percentile(quantile * 100))}`,
      )
      const text = lines(
        ...usage(),
        ...head('nodejs_eventloop_delay_seconds', 'gauge', 'How late the event loop was in the last minute or so'),
        ...late,
        `nodejs_eventloop_delay_seconds{quantile="1"} ${seconds(delay.max)}`,
      )
      if (performance.now() - since > WINDOW_MS) {
        delay.reset()
        since = performance.now()
      }
      return text
    },
    close: () => void delay.disable(),
  }
}

function usage(): string[] {
  const { rss, heapUsed } = process.memoryUsage()
  const { user, system } = process.cpuUsage()
  return [
    ...gauge('process_resident_memory_bytes', 'Memory that the process holds', rss),
    ...gauge('nodejs_heap_used_bytes', 'Memory that JavaScript objects hold', heapUsed),
    ...head('process_cpu_seconds_total', 'counter', 'Processor time'),
    `process_cpu_seconds_total ${(user + system) / 1e6}`,
    ...gauge('process_uptime_seconds', 'Time since the start', Math.round(process.uptime())),
  ]
}

function gauge(name: string, help: string, value: number): string[] {
  return [...head(name, 'gauge', help), `${name} ${value}`]
}

function head(name: string, type: 'counter' | 'gauge' | 'histogram', help: string): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]
}

function lines(...all: string[]): string {
  return `${all.join('\n')}\n`
}
