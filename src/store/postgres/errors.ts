// Translates errors of PostgreSQL for operators.
import { Refusal, TransientRefusal } from '../../lib/refusal.ts'
import { DUPLICATE_KEY_MESSAGE, FOREIGN_KEY_MESSAGE } from '../running-transaction.ts'

/**
 * The server keeps the predicate locks of finished transactions until the oldest open one ends. An idle transaction, in any
 * database, can fill up their table.
 */
const OUT_OF_LOCKS = '53200'
/**
 * Nothing was committed and a retry may succeed: serialization failure, deadlock, lock timeout, idle-in-transaction timeout,
 * full lock table.
 */
const RETRYABLE: ReadonlySet<string> = new Set(['40001', '40P01', '55P03', '25P03', OUT_OF_LOCKS])

export function isRetryable(error: unknown): boolean {
  return RETRYABLE.has(postgresErrorCode(error) ?? '')
}

export function translatePostgresError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof Refusal) return error
  const code = postgresErrorCode(error)
  return code === undefined ? translateUncoded(error) : (translateCode(code) ?? error)
}

function translateCode(code: string): Refusal | undefined {
  const unavailable = (message: string, hint?: string): Refusal => new Refusal('unavailable', message, hint)
  const transient = (message: string, hint?: string): Refusal => new TransientRefusal(message, hint)
  if (code === '23505') return new Refusal('conflict', DUPLICATE_KEY_MESSAGE)
  if (code === '23503') return new Refusal('conflict', FOREIGN_KEY_MESSAGE)
  if (code === OUT_OF_LOCKS)
    return transient(
      'the PostgreSQL server is out of memory for locks; nothing was changed',
      'end idle transactions (see pg_stat_activity), or raise max_pred_locks_per_transaction',
    )
  if (RETRYABLE.has(code)) return transient('the store is busy: too many writers at once', 'try again in a moment')
  if (code === '53100')
    return transient('the disk of the PostgreSQL server is full; nothing was changed', 'free some space')
  if (code === '53300') return transient('the PostgreSQL server has no free connection', 'raise its max_connections')
  if (code === '25006')
    return unavailable('the PostgreSQL server is read-only', 'check that DATABASE_URL names the primary')
  if (code === '42501')
    return unavailable('the PostgreSQL user lacks a permission', 'make it the owner of the database')
  // For example a number out of range, or a NUL in text: the error of the caller.
  if (/^22(001|003|021|P02|P05)$/.test(code)) return new Refusal('invalid', 'a value does not fit its column')
  if (/^(08|28|3D|53|57)/.test(code) || /^E[A-Z_]+$/.test(code))
    return transient(`PostgreSQL cannot be reached (${code})`, 'check DATABASE_URL and the server')
  return undefined
}

/** Errors of the driver without a code. */
function translateUncoded(error: Error): unknown {
  if (/timeout exceeded/.test(error.message))
    return new TransientRefusal('the PostgreSQL server has no free connection', 'try again in a moment')
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
