// Encodes spans as OTLP/JSON, the body of POST /v1/traces. See https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding:
// ids are hexadecimal, 64-bit integers are strings, enums are numbers.
import { hash } from 'node:crypto'
import type { Span, SpanKey, SpanKind } from './span.ts'

export type AttributeValue = string | number | boolean

const KINDS: Readonly<Record<SpanKind, number>> = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 }
const STATUS_ERROR = 2
/** Hexadecimal digits. */
const [TRACE_ID_LENGTH, SPAN_ID_LENGTH] = [32, 16]

/** All spans of a message have this trace, in whichever process. */
export function traceIdOf(instance: string, message: string): string {
  return hash('sha256', `${instance}/${message}`, 'hex').slice(0, TRACE_ID_LENGTH)
}

export function spanIdOf(instance: string, { message, step }: SpanKey): string {
  return hash('sha256', `${instance}/${message}/${step}`, 'hex').slice(0, SPAN_ID_LENGTH)
}

export interface TraceSource {
  /** Part of the ids. */
  readonly instance: string
  readonly version: string
  /** Attributes of the process. */
  readonly resource: Readonly<Record<string, AttributeValue>>
}

export function encodeSpans({ instance, version, resource }: TraceSource, spans: readonly Span[]): string {
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: encodeAttributes(resource) },
        scopeSpans: [{ scope: { name: 'svc', version }, spans: spans.map((span) => encodeSpan(instance, span)) }],
      },
    ],
  })
}

function encodeSpan(instance: string, span: Span): object {
  const { key, parent, links = [], name, kind = 'internal', startMs, endMs, attributes, error } = span
  return {
    traceId: traceIdOf(instance, key.message),
    spanId: spanIdOf(instance, key),
    ...(parent === undefined ? {} : { parentSpanId: spanIdOf(instance, { message: key.message, step: parent }) }),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanoseconds(startMs),
    // A clock may be set back in between.
    endTimeUnixNano: nanoseconds(Math.max(startMs, endMs)),
    attributes: encodeAttributes(attributes),
    ...(links.length === 0
      ? {}
      : {
          links: links.map((each) => ({
            traceId: traceIdOf(instance, each.message),
            spanId: spanIdOf(instance, each),
          })),
        }),
    status: error === undefined ? {} : { code: STATUS_ERROR, message: error },
  }
}

function nanoseconds(ms: number): string {
  return String(BigInt(Math.round(ms * 1000)) * 1000n)
}

function encodeAttributes(attributes: Readonly<Record<string, AttributeValue | undefined>>): object[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: encodeValue(value) }],
  )
}

function encodeValue(value: AttributeValue): object {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value }
}
