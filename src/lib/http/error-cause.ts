// The root cause of a failed fetch: Node wraps one or several socket errors in errors of its own.

export interface ErrorCause {
  readonly code?: string | undefined
  readonly message: string
}

export function rootCauseOf(error: unknown): ErrorCause {
  if (!(error instanceof Error)) return { message: String(error) }
  // An AggregateError has one error per address of the name.
  const inner = error instanceof AggregateError ? error.errors[0] : error.cause
  if (inner instanceof Error) return rootCauseOf(inner)
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return { message: error.message, ...(code === undefined ? {} : { code }) }
}
