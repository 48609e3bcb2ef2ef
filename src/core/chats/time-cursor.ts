// Times as a caller names them, held against rows that have milliseconds and an order of arrival. Behind the milliseconds
// of a time there is room for the number of a row: with it, a page that ends among rows of one moment goes on there.
import { timestamp } from '../../lib/clock.ts'
import { Timestamp } from '../values.ts'

/** `before` and `since` of the tools. */
export const CursorTime = Timestamp.refine((value) => !value.startsWith('0000'), {
  error: 'must be an RFC 3339 time of the year 0001 or later',
})

export interface TimeCursor {
  /** With milliseconds, in UTC, as rows have it. */
  readonly at: string
  /** What is finer than a millisecond, in nanoseconds: the row among those of one moment. */
  readonly fine: number
}

const LATEST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999)
/** There are as many numbers of a row before they begin anew; nanoseconds have room for no more. */
const NUMBERS = 999_999

/** What `Moment` has accepted, as a place among rows. */
export function parseTimeCursor(text: string): TimeCursor {
  const fraction = (/\.(\d+)/.exec(text)?.[1] ?? '').padEnd(9, '0')
  // Date may misread a fraction that is longer than milliseconds.
  const ms = Date.parse(text.replace(/\.\d+/, `.${fraction.slice(0, 3)}`))
  return { at: timestamp(Math.min(ms, LATEST_MS)), fine: Number(fraction.slice(3, 9)) }
}

/** The time of a row, exact down to its number. */
export function formatTimeCursor(at: string, seq: number): string {
  return at.replace('Z', `${String((seq % NUMBERS) + 1).padStart(6, '0')}Z`)
}

/** Whether a row of that very millisecond comes before it: SQL over the row's number. Rows of one moment lie close. */
export function isEarlierSql(seq: string, fine: string): string {
  return `(${fine} > 0 and (${fine} - (${seq} % ${NUMBERS} + 1) + ${NUMBERS}) % ${NUMBERS} between 1 and ${NUMBERS >> 1})`
}

/** The first millisecond that is not before it. */
export function ceilToMillisecond(text: string): string {
  const { at, fine } = parseTimeCursor(text)
  return fine === 0 ? at : timestamp(Math.min(Date.parse(at) + 1, LATEST_MS))
}
