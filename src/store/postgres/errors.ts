// What PostgreSQL's own errors mean to whoever runs the program.
import { Refusal, TransientRefusal } from '../../lib/refusal.ts'
import { DUPLICATE_KEY_MESSAGE, FOREIGN_KEY_MESSAGE } from '../running-transaction.ts'

/**
 * The server keeps the predicate locks of finished transactions until the oldest open one ends. When one stands still, in
 * this database or another, their table fills up.
 */
const OUT_OF_LOCKS = '53200'
/**
 * Nothing was committed, and the same transaction may succeed when it is tried again: a serialization failure, a deadlock,
 * a lock that was not free in time, a connection that the server ended because its transaction stood still, a full table
 * of locks.
 */
const CROSSED: ReadonlySet<string> = new Set(['40001', '40P01', '55P03', '25P03', OUT_OF_LOCKS])

export function isRetryable(error: unknown): boolean {
  return CROSSED.has(postgresErrorCode(error) ?? '')
}

export function translatePostgresError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof Refusal) return error
  const code = postgresErrorCode(error)
  return code === undefined ? lostConnection(error) : (codedFault(code) ?? error)
}

function codedFault(code: string): Refusal | undefined {
  const no = (sentence: string, hint?: string): Refusal => new Refusal('unavailable', sentence, hint)
  const later = (sentence: string, hint?: string): Refusal => new TransientRefusal(sentence, hint)
  if (code === '23505') return new Refusal('conflict', DUPLICATE_KEY_MESSAGE)
  if (code === '23503') return new Refusal('conflict', FOREIGN_KEY_MESSAGE)
  if (code === OUT_OF_LOCKS)
    return later(
      'the PostgreSQL server has no memory free for locks; nothing was changed',
      'end transactions that stay open (pg_stat_activity), or raise its max_pred_locks_per_transaction',
    )
  if (CROSSED.has(code)) return later('the store is busy: too many writers at once', 'try again in a moment')
  if (code === '53100')
    return later('the disk of the PostgreSQL server is full; nothing was changed', 'free some space')
  if (code === '53300') return later('the PostgreSQL server has no connection free', 'raise its max_connections')
  if (code === '25006') return no('the PostgreSQL server is read-only', 'check that DATABASE_URL names the primary')
  if (code === '42501') return no('the PostgreSQL user may not do this', 'let it own the database')
  // A number too large for its column, a character that text cannot hold: the value is at fault, and whoever sent it.
  if (/^22(001|003|021|P02|P05)$/.test(code)) return new Refusal('invalid', 'a value does not fit its column')
  if (/^(08|28|3D|53|57)/.test(code) || /^E[A-Z_]+$/.test(code))
    return later(`PostgreSQL cannot be reached (${code})`, 'check DATABASE_URL and the server')
  return undefined
}

/** What the driver says without a code. */
function lostConnection(error: Error): unknown {
  if (/timeout exceeded/.test(error.message))
    return new TransientRefusal('the PostgreSQL server has no connection free', 'try again in a moment')
  if (
    /^(Connection terminated|Client has encountered a connection error|SASL|The server does not support SSL)/.test(
      error.message,
    )
  )
    return new TransientRefusal('PostgreSQL cannot be reached', 'check DATABASE_URL and the server')
  return error
}

export function postgresErrorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
