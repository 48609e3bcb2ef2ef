// Times as page cursors. Rows have milliseconds; the digits after them encode the number of a row, so that the next page
// can start between rows of the same millisecond.
import { timestamp } from '../../lib/clock.ts'
import { Timestamp } from '../values.ts'

/** `before` and `since` of the tools. */
export const CursorTime = Timestamp.refine((value) => !value.startsWith('0000'), {
  error: 'must be an RFC 3339 time of the year 0001 or later',
})

export interface TimeCursor {
  /** In UTC with milliseconds, as in rows. */
  readonly at: string
  /** Nanoseconds within the millisecond, which identify a row; 0: before all rows of it. */
  readonly fine: number
}

const LATEST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999)
/** Row numbers are taken modulo this, because nanoseconds have no room for more. */
const MODULUS = 999_999

/** Parses a valid `CursorTime`. */
export function parseTimeCursor(text: string): TimeCursor {
  const fraction = (/\.(\d+)/.exec(text)?.[1] ?? '').padEnd(9, '0')
  // Date may misread a fraction that is longer than milliseconds.
  const ms = Date.parse(text.replace(/\.\d+/, `.${fraction.slice(0, 3)}`))
  return { at: timestamp(Math.min(ms, LATEST_MS)), fine: Number(fraction.slice(3, 9)) }
}

/** The time of a row with its number. */
export function formatTimeCursor(at: string, seq: number): string {
  return at.replace('Z', `${String((seq % MODULUS) + 1).padStart(6, '0')}Z`)
}

/** SQL: whether a row of the same millisecond is before the cursor. Numbers of such rows are close, so modulo is enough. */
export function isEarlierSql(seq: string, fine: string): string {
  return `(${fine} > 0 and (${fine} - (${seq} % ${MODULUS} + 1) + ${MODULUS}) % ${MODULUS} between 1 and ${MODULUS >> 1})`
}

/** The first whole millisecond at or after this time. */
export function ceilToMillisecond(text: string): string {
  const { at, fine } = parseTimeCursor(text)
  return fine === 0 ? at : timestamp(Math.min(Date.parse(at) + 1, LATEST_MS))
}
