// When a task runs (decision T4): a 5-field cron expression, an interval in milliseconds, or once.
import { Cron } from 'croner'
import { timestamp } from '../lib/clock.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { Timestamp } from './values.ts'

export const MIN_INTERVAL_MS = 1000
export const MAX_INTERVAL_MS = 10 * 365.25 * 24 * 3_600_000

/** What a task row keeps. A one-shot has no `cron`. */
export interface Schedule {
  readonly cron?: string
  readonly next_run: string
}

/** Reads what a caller asked for. Nothing asked is once, now; a time that is past stays as it is and is due at once. */
export function parseSchedule(cron: string | undefined, now: number, timeZone: string): Schedule {
  if (cron === undefined) return { next_run: timestamp(now) }
  const text = cron.trim().replace(/\s+/g, ' ')
  if (text === '') refuse('invalid', 'cron must not be empty', 'leave cron out to run the task once, now')
  // An expression that repeats itself for kilobytes is an attack on the parser, not a schedule.
  if (text.length > 256) refuseCron(text, 'it is longer than 256 characters')
  if (/^\d{4}-/.test(text)) return { next_run: momentOf(text) }
  return { cron: text, next_run: nextRun(text, now, timeZone) }
}

/**
 * The next slot strictly after `after`, however many were missed before it.
 * `slot` is the one that has just fired: intervals keep its rhythm, and a clock that was set back does not fire it again.
 */
export function nextRun(cron: string, after: number, timeZone: string, slot: number = after): string {
  const from = Math.max(after, slot)
  if (/^[+-]?\d+$/.test(cron)) {
    const every = intervalOf(cron)
    return timestamp(slot + (Math.floor((from - slot) / every) + 1) * every)
  }
  const next = expressionOf(cron, timeZone).nextRun(new Date(from))
  return next ? timestamp(next.getTime()) : refuseCron(cron, 'it never fires')
}

/** The next runs of a task, soonest first, as far as its times can be read. */
export function nextRuns(
  { cron, next_run }: { readonly cron?: string | undefined; readonly next_run?: string | undefined },
  timeZone: string,
  count: number,
): string[] {
  const runs = next_run === undefined ? [] : [next_run]
  try {
    while (cron !== undefined && runs.length > 0 && runs.length < count)
      runs.push(nextRun(cron, Date.parse(runs.at(-1) ?? ''), timeZone))
  } catch (error) {
    // An expression that was stored by an earlier version may fire never again.
    if (!(error instanceof Refusal)) throw error
  }
  return runs
}

/** Refuses an interval that is shorter than what the instance allows. Cron fields have minutes anyway. */
export function mustBeSpaced({ cron }: Pick<Schedule, 'cron'>, minMs: number): void {
  if (cron !== undefined && /^[+-]?\d+$/.test(cron) && Number(cron) < minMs)
    refuseCron(cron, `an interval must be at least ${minMs} milliseconds`)
}

/** The zone that cron fields are read in. An unset or empty TZ is UTC; a wrong one must not silently become it. */
export function timeZoneOf(tz: string | undefined): string {
  if (!tz) return 'UTC'
  try {
    new Intl.DateTimeFormat('en', { timeZone: tz })
    return tz
  } catch {
    return refuse('invalid', `TZ must be a time zone such as Europe/Berlin or UTC, not ${quoted(tz)}`)
  }
}

function intervalOf(text: string): number {
  const ms = Number(text)
  if (ms < MIN_INTERVAL_MS) refuseCron(text, `an interval must be at least ${MIN_INTERVAL_MS} milliseconds`)
  if (ms > MAX_INTERVAL_MS) refuseCron(text, `an interval must be at most ${MAX_INTERVAL_MS} milliseconds (10 years)`)
  return ms
}

function momentOf(text: string): string {
  const moment = Timestamp.safeParse(text).success ? Date.parse(text) : Number.NaN
  const year = new Date(moment).getUTCFullYear()
  // An offset can push the first and the last hours out of the four-digit years, and out of RFC 3339.
  if (!(year >= 0 && year <= 9999)) refuseCron(text, 'it is not an RFC 3339 time such as 2026-01-31T08:00:00Z')
  return timestamp(moment)
}

const FIELDS = [
  ['minute', '0 to 59'],
  ['hour', '0 to 23'],
  ['day of the month', '1 to 31'],
  ['month', '1 to 12 or JAN to DEC'],
  ['day of the week', '0 to 7 or SUN to SAT'],
] as const

function expressionOf(text: string, timeZone: string): Cron {
  const fields = text.trim().split(/\s+/)
  // Also keeps croner's nicknames (@daily) and dates out, which a task row does not know.
  if (fields.length !== FIELDS.length)
    refuseCron(text, 'it must be five cron fields, a whole number of milliseconds, or an RFC 3339 time')
  return tryExpression(text, timeZone) ?? refuseCron(text, reasonOf(fields))
}

/** Croner names months and days by its own offsets, so the reason is ours: the first field that does not stand alone. */
function reasonOf(fields: readonly string[]): string {
  for (const [index, [name, range]] of FIELDS.entries()) {
    const field = fields[index] ?? ''
    const alone = fields.map((_, at) => (at === index ? field : '*')).join(' ')
    if (tryExpression(alone, 'UTC')) continue
    if (/\/0*(?:,|$)/.test(field)) return `the ${name} ${quoted(field)} has a step of 0: a step is at least 1`
    return `the ${name} ${quoted(field)} must be within ${range}`
  }
  return 'its fields do not go together'
}

function tryExpression(text: string, timezone: string): Cron | undefined {
  try {
    return new Cron(text, { mode: '5-part', timezone })
  } catch {
    return undefined
  }
}

function refuseCron(text: string, reason: string): never {
  refuse('invalid', `invalid cron ${quoted(text)}: ${reason}`)
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
}
