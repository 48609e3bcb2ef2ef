// Spans for OpenTelemetry. Ids are derived from a message and the name of a step, so that processes share a trace without
// passing a context.

/** Names a span: the message whose trace it is in, and what happened to it, such as `turn` or `attempt 2`. */
export interface SpanKey {
  readonly message: string
  readonly step: string
}

export interface Span {
  readonly key: SpanKey
  /** A step of the same message; absent for the first span of a trace. */
  readonly parent?: string | undefined
  /** Spans of other traces, such as those of the other messages of a turn. */
  readonly links?: readonly SpanKey[] | undefined
  /** Shown in lists, so it comes from a small set. */
  readonly name: string
  readonly kind?: SpanKind | undefined
  /** Milliseconds since 1970. */
  readonly startMs: number
  readonly endMs: number
  /** Undefined values are left out. */
  readonly attributes: Readonly<Record<string, string | number | boolean | undefined>>
  /** Set if it failed: one of a few fixed texts, because reasons may contain output of programs. */
  readonly error?: string | undefined
}

export type SpanKind = 'internal' | 'server' | 'client' | 'producer' | 'consumer'

export interface SpanSink {
  /** Never throws and never waits. */
  add(span: Span): void
}
