// Sends spans to an OpenTelemetry collector in batches. It never delays the work that it describes: the queue is bounded, and
// spans that do not fit, or that the collector does not take, are counted and dropped.
// Not the OpenTelemetry packages: they are 13 packages with 14 MB, and this is one POST.
import { guard } from '../fault-boundary.ts'
import { rootCauseOf } from '../http/error-cause.ts'
import { defineCounter, type MetricRegistry } from '../log/metric-registry.ts'
import { isObject, tryParseJson } from '../text/json.ts'
import { encodeSpans, type TraceSource } from './otlp-json.ts'
import type { Span, SpanSink } from './span.ts'

export const SPANS = defineCounter('svc_trace_spans_total', 'Spans for the OpenTelemetry collector', {
  result: ['exported', 'dropped'],
})

/** Spans that wait, also while the collector does not answer. */
export const QUEUE_MAX = 4096
export const BATCH_MAX = 512
const BATCH_DELAY_MS = 2000
const TIMEOUT_MS = 10_000
const BACKOFF_MS = 1000
const BACKOFF_MAX_MS = 30_000
/** Attempts of one batch; its spans are dropped after the last. */
const ATTEMPTS_MAX = 5
/** As in the specification of OTLP: other statuses do not change when the request is repeated. */
const RETRYABLE: readonly number[] = [429, 502, 503, 504]
const REASON_MAX = 200

export interface OtlpExporterOptions extends TraceSource {
  /** The full URL, with /v1/traces. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly metrics: MetricRegistry
  /** Called once when exports begin to fail, and once when they work again. */
  onChange?(fault: string | undefined): void
  /** Overridden by tests. */
  readonly delayMs?: number
  readonly backoffMs?: number
  readonly timeoutMs?: number
}

type ExportResult = { readonly rejected: number } | { readonly fault: string; readonly isRetryable: boolean }

export class OtlpExporter implements SpanSink {
  readonly #options: OtlpExporterOptions
  readonly #queue: Span[] = []
  readonly #closing = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #sending: Promise<void> | undefined
  /** Failed attempts of the batch at the head of the queue. */
  #attempts = 0
  #isFaulty = false

  constructor(options: OtlpExporterOptions) {
    this.#options = options
    options.metrics.declare([SPANS])
  }

  add(span: Span): void {
    if (this.#queue.length >= QUEUE_MAX || this.#closing.signal.aborted) {
      this.#drop(1)
      return
    }
    this.#queue.push(span)
    if (this.#queue.length === BATCH_MAX && this.#attempts === 0) this.#schedule(0)
    else if (!this.#timer) this.#schedule(this.#options.delayMs ?? BATCH_DELAY_MS)
  }

  /** Sends what waits, for at most this long; the rest is dropped. */
  async close(deadlineMs: number): Promise<void> {
    clearTimeout(this.#timer)
    let timer: NodeJS.Timeout | undefined
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(() => {
        this.#closing.abort()
        resolve()
      }, deadlineMs)
    })
    await Promise.race([this.#flush(), deadline])
    clearTimeout(timer)
    this.#closing.abort()
    clearTimeout(this.#timer)
    this.#drop(this.#queue.splice(0).length)
  }

  /** Does not wait for a collector that fails. */
  async #flush(): Promise<void> {
    await this.#sending
    while (this.#queue.length > 0 && !this.#closing.signal.aborted) {
      await this.#sendBatch()
      if (this.#attempts > 0) return
    }
  }

  #schedule(delayMs: number): void {
    if (this.#closing.signal.aborted || this.#sending) return
    clearTimeout(this.#timer)
    const onFault = (error: unknown): void => this.#report(`internal error: ${error}`)
    const send = (): void => {
      this.#timer = undefined
      const sent = (): void => {
        this.#sending = undefined
        if (this.#queue.length > 0) this.#schedule(this.#pauseMs())
      }
      this.#sending = this.#sendBatch().catch(onFault).finally(sent)
    }
    this.#timer = setTimeout(guard(onFault, send), delayMs).unref()
  }

  #pauseMs(): number {
    const { delayMs = BATCH_DELAY_MS, backoffMs = BACKOFF_MS } = this.#options
    if (this.#attempts === 0) return this.#queue.length >= BATCH_MAX ? 0 : delayMs
    return Math.min(BACKOFF_MAX_MS, backoffMs * 2 ** (this.#attempts - 1))
  }

  async #sendBatch(): Promise<void> {
    const { metrics } = this.#options
    const batch = this.#queue.slice(0, BATCH_MAX)
    const result = await this.#post(batch)
    // `close` has dropped the queue.
    if (this.#closing.signal.aborted) return
    const isFailed = 'fault' in result
    if (isFailed && result.isRetryable && ++this.#attempts < ATTEMPTS_MAX) return this.#report(result.fault)
    this.#attempts = 0
    this.#queue.splice(0, batch.length)
    const dropped = isFailed ? batch.length : Math.min(batch.length, result.rejected)
    this.#drop(dropped)
    metrics.add(SPANS, { result: 'exported' }, batch.length - dropped)
    this.#report(isFailed ? result.fault : undefined)
  }

  async #post(batch: readonly Span[]): Promise<ExportResult> {
    const { url, headers, timeoutMs = TIMEOUT_MS } = this.#options
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: { ...headers, 'Content-Type': 'application/json' },
        body: encodeSpans(this.#options, batch),
        redirect: 'error',
        signal: AbortSignal.any([this.#closing.signal, AbortSignal.timeout(timeoutMs)]),
      })
      const text = await response.text()
      if (response.ok) return { rejected: rejectedSpans(text) }
      return { fault: `status ${response.status}`, isRetryable: RETRYABLE.includes(response.status) }
    } catch (error) {
      return { fault: rootCauseOf(error).message.slice(0, REASON_MAX), isRetryable: true }
    }
  }

  #report(fault: string | undefined): void {
    if (this.#isFaulty === (fault !== undefined)) return
    this.#isFaulty = fault !== undefined
    this.#options.onChange?.(fault)
  }

  #drop(count: number): void {
    this.#options.metrics.add(SPANS, { result: 'dropped' }, count)
  }
}

/** A collector may take a part of a batch. */
function rejectedSpans(text: string): number {
  const body = tryParseJson(text)
  const partial = isObject(body) ? body.partialSuccess : undefined
  const rejected = isObject(partial) ? Number(partial.rejectedSpans) : 0
  return Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0
}
