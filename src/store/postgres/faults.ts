// What PostgreSQL's own errors mean to whoever runs the program.
import { Refusal } from '../../lib/refusal.ts'
import { TAKEN, TORN } from '../running.ts'

/** Serialization failure or deadlock: nothing happened, and trying again is the answer. */
export function isCrossed(error: unknown): boolean {
  const code = codeOf(error)
  return code === '40001' || code === '40P01'
}

export function fault(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof Refusal) return error
  const code = codeOf(error)
  return code === undefined ? lostConnection(error) : (codedFault(code) ?? error)
}

function codedFault(code: string): Refusal | undefined {
  const no = (sentence: string, hint?: string): Refusal => new Refusal('unavailable', sentence, hint)
  if (code === '23505') return new Refusal('conflict', TAKEN)
  if (code === '23503') return new Refusal('conflict', TORN)
  if (code === '40001' || code === '40P01')
    return no('the store is busy: too many writers at once', 'try again in a moment')
  if (code === '53100') return no('the disk of the PostgreSQL server is full; nothing was changed', 'free some space')
  if (code === '53300') return no('the PostgreSQL server has no connection free', 'raise its max_connections')
  if (code === '25006') return no('the PostgreSQL server is read-only', 'check that DATABASE_URL names the primary')
  if (code === '42501') return no('the PostgreSQL user may not do this', 'let it own the database')
  // A number too large for its column, a character that text cannot hold: the value is at fault, and whoever sent it.
  if (/^22(001|003|021|P02|P05)$/.test(code)) return new Refusal('invalid', 'a value does not fit its column')
  if (/^(08|28|3D|53|57)/.test(code) || /^E[A-Z_]+$/.test(code))
    return no(`PostgreSQL cannot be reached (${code})`, 'check DATABASE_URL and the server')
  return undefined
}

/** What the driver says without a code. */
function lostConnection(error: Error): unknown {
  if (/timeout exceeded/.test(error.message))
    return new Refusal('unavailable', 'the PostgreSQL server has no connection free', 'try again in a moment')
  if (
    /^(Connection terminated|Client has encountered a connection error|SASL|The server does not support SSL)/.test(
      error.message,
    )
  )
    return new Refusal('unavailable', 'PostgreSQL cannot be reached', 'check DATABASE_URL and the server')
  return error
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
