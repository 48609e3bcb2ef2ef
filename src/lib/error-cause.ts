// What lies behind a failed fetch: Node wraps the error of the socket, or several of them, in errors of its own.

export interface Cause {
  readonly code?: string | undefined
  readonly message: string
}

export function causeOf(error: unknown): Cause {
  if (!(error instanceof Error)) return { message: String(error) }
  // One for each address that a name has.
  const inner = error instanceof AggregateError ? error.errors[0] : error.cause
  if (inner instanceof Error) return causeOf(inner)
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return { message: error.message, ...(code === undefined ? {} : { code }) }
}
