// HTTP and process metrics as Prometheus text. Labels come from fixed sets, so clients cannot create series.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { metricHead } from './metric-registry.ts'

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
/** By first digit. */
const CLASSES = 10
const BOUNDS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const
/** Event-loop delays cover about this time, so an old stall does not hide a new one. */
const WINDOW_MS = 60_000

/** Statuses of refusals that an operator may have to act on. */
const REFUSALS: Readonly<Record<number, string>> = {
  401: 'unauthenticated',
  403: 'forbidden',
  413: 'too_large',
  429: 'rate_limited',
  503: 'unavailable',
  507: 'storage_full',
}

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export class RequestMetrics {
  readonly #daemon: string
  /** By method, then by the first digit of the status. */
  readonly #counts = new Map<string, Float64Array>()
  readonly #buckets = new Float64Array(BOUNDS_S.length + 1)
  /** By status. */
  readonly #refused = new Map(Object.keys(REFUSALS).map((status) => [Number(status), 0]))
  #sumS = 0

  constructor(daemon: string) {
    this.#daemon = daemon
  }

  add(method: string, status: number, ms: number): void {
    const known = METHODS.has(method) ? method : 'other'
    const counts = this.#countsOf(known)
    const kind = Math.trunc(status / 100)
    counts[kind] = (counts[kind] ?? 0) + 1
    if (status >= 400) {
      const refused = this.#refused.get(status)
      if (refused !== undefined) this.#refused.set(status, refused + 1)
    }
    const seconds = ms / 1000
    let bucket = 0
    while (bucket < BOUNDS_S.length && seconds > (BOUNDS_S[bucket] ?? 0)) bucket++
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1
    this.#sumS += seconds
  }

  #countsOf(method: string): Float64Array {
    const known = this.#counts.get(method)
    if (known) return known
    const counts = new Float64Array(CLASSES)
    this.#counts.set(method, counts)
    return counts
  }

  text(): string {
    const daemon = `daemon="${this.#daemon}"`
    let below = 0
    const buckets = [...this.#buckets].map((count, index) => {
      below += count
      return `http_request_seconds_bucket{${daemon},le="${BOUNDS_S[index] ?? '+Inf'}"} ${below}`
    })
    return lines(
      ...head('http_requests_total', 'counter', 'HTTP requests answered'),
      ...[...this.#counts]
        .sort()
        .flatMap(([method, counts]) =>
          [...counts].flatMap((count, kind) =>
            count > 0 ? [`http_requests_total{${daemon},method="${method}",status="${kind}xx"} ${count}`] : [],
          ),
        ),
      ...head('svc_http_refusals_total', 'counter', 'Requests that were refused, by reason'),
      ...[...this.#refused].map(
        ([status, count]) => `svc_http_refusals_total{${daemon},reason="${REFUSALS[status]}"} ${count}`,
      ),
      ...head('http_request_seconds', 'histogram', 'Time from request head to response head'),
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

/** Sampling interval of the event-loop delay: each sample wakes an idle process. */
const SAMPLE_MS = 100

export function openProcessMetrics(): ProcessMetrics {
  const delay = monitorEventLoopDelay({ resolution: SAMPLE_MS })
  delay.enable()
  let since = performance.now()
  return {
    text: () => {
      // In nanoseconds; NaN before the first sample.
      const seconds = (ns: number): number => (Number.isFinite(ns) ? ns / 1e9 : 0)
      const late = [0.5, 0.99].map(
        (quantile) =>
          `nodejs_eventloop_delay_seconds{quantile="${quantile}"} ${seconds(delay.percentile(quantile * 100))}`,
      )
      const text = lines(
        ...usage(),
        ...head('nodejs_eventloop_delay_seconds', 'summary', 'Event loop delay in about the last minute'),
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
    ...gauge('process_resident_memory_bytes', 'Resident memory', rss),
    ...gauge('nodejs_heap_used_bytes', 'Heap used by JavaScript objects', heapUsed),
    ...head('process_cpu_seconds_total', 'counter', 'CPU time'),
    `process_cpu_seconds_total ${(user + system) / 1e6}`,
    ...gauge('process_uptime_seconds', 'Time since start', Math.round(process.uptime())),
  ]
}

function gauge(name: string, help: string, value: number): string[] {
  return [...head(name, 'gauge', help), `${name} ${value}`]
}

function head(name: string, type: 'counter' | 'gauge' | 'histogram' | 'summary', help: string): string[] {
  return metricHead({ name, type, help })
}

function lines(...all: string[]): string {
  return `${all.join('\n')}\n`
}
