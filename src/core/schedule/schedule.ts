// Parses schedules of tasks (5-field cron, interval in milliseconds, or one time) and computes their next runs. See
// docs/decisions.md#scheduled-tasks.
import { Cron } from 'croner'
import { timestamp } from '../../lib/clock.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { Timestamp } from '../values.ts'
import { wallClock } from './wall-clock.ts'

const MIN_INTERVAL_MS = 1000
const HOUR_MS = 3_600_000
export const MAX_INTERVAL_MS = 10 * 365.25 * 24 * HOUR_MS

/** Columns of a task row. A one-time task has no `cron`. */
export interface Schedule {
  readonly cron?: string
  readonly next_run: string
}

/** Without `cron` the task runs once, now. A time in the past is kept and is due immediately. */
export function parseSchedule(cron: string | undefined, now: number, timeZone: string): Schedule {
  if (cron === undefined) return { next_run: timestamp(now) }
  const text = cron.trim().replace(/\s+/g, ' ')
  if (text === '') refuse('invalid', 'cron must not be empty', 'leave cron out to run the task once, now')
  // Longer expressions would only attack the parser.
  if (text.length > 256) refuseCron(text, 'it is longer than 256 characters')
  if (/^\d{4}-/.test(text)) return { next_run: parseTime(text) }
  return { cron: text, next_run: nextRun(text, now, timeZone) }
}

/**
 * The first slot after `after`; missed slots are skipped. `slot` is the one that just fired: intervals count from it, and it
 * does not fire again if the clock is set back.
 */
export function nextRun(cron: string, after: number, timeZone: string, slot: number = after): string {
  const from = Math.max(after, slot)
  if (isInterval(cron)) {
    const interval = parseInterval(cron)
    return timestamp(slot + (Math.floor((from - slot) / interval) + 1) * interval)
  }
  const next = isHourly(cron) ? nextCronTime(cron, from, timeZone) : nextOnWallClock(cron, from, timeZone)
  return timestamp(next)
}

/** Clocks of machines with the same store may differ by this much. */
const CLOCK_DIFFERENCE_MS = 60_000

/**
 * The next run by the schedule, if the stored one is further ahead than the schedule allows: the clock was ahead when it was
 * computed. Undefined otherwise. Intervals keep their grid. Slots that fired while the clock was ahead are known by their
 * time and do not fire again.
 */
export function correctedRun(cron: string, next_run: string, now: number, timeZone: string): string | undefined {
  const stored = Date.parse(next_run)
  if (isInterval(cron)) {
    const interval = parseInterval(cron)
    if (stored <= now + CLOCK_DIFFERENCE_MS + interval) return undefined
    return timestamp(stored - Math.floor((stored - now - 1) / interval) * interval)
  }
  if (stored <= Date.parse(nextRun(cron, now + CLOCK_DIFFERENCE_MS, timeZone))) return undefined
  return nextRun(cron, now, timeZone)
}

function isInterval(cron: string): boolean {
  return /^[+-]?\d+$/.test(cron)
}

function nextCronTime(cron: string, from: number, timeZone: string): number {
  return mustParseCron(cron, timeZone).nextRun(new Date(from))?.getTime() ?? refuseCron(cron, 'it never fires')
}

/** Tasks that run every hour follow elapsed time across clock changes, like intervals. */
function isHourly(cron: string): boolean {
  const [, hours = ''] = fieldsOf(cron)
  if (hours === '*') return true
  // One hour of the day: by far the most frequent form.
  if (/^\d+$/.test(hours)) return false
  const slots = tryParseCron(`0 ${hours} * * *`, 'UTC')
  const times = Array.from({ length: 24 }, (_, hour) => hour * HOUR_MS)
  return times.every((time) => slots?.nextRun(new Date(time - 1))?.getTime() === time)
}

/** Each wall time fires once: a repeated one at its first occurrence, a skipped one right after the gap. */
function nextOnWallClock(cron: string, from: number, timeZone: string): number {
  const clock = wallClock(timeZone)
  for (let time = nextCronTime(cron, clock.wallTimeAt(from), 'UTC'); ; time = nextCronTime(cron, time, 'UTC')) {
    const instant = clock.firstInstantOf(time)
    if (instant > from) return instant
  }
}

/** The next runs of a task, soonest first; fewer if its cron expression is invalid. */
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
    // An earlier version may have stored an expression that never fires.
    if (!(error instanceof Refusal)) throw error
  }
  return runs
}

/** Cron fields need no check: their resolution is a minute. */
export function mustRespectMinInterval({ cron }: Pick<Schedule, 'cron'>, minMs: number): void {
  if (cron !== undefined && isInterval(cron) && Number(cron) < minMs)
    refuseCron(cron, `an interval must be at least ${minMs} milliseconds`)
}

/** The time zone of cron fields. Unset or empty means UTC; an invalid zone is refused, not replaced by UTC. */
export function timeZoneOf(tz: string | undefined): string {
  if (!tz) return 'UTC'
  try {
    new Intl.DateTimeFormat('en', { timeZone: tz })
    return tz
  } catch {
    return refuse('invalid', `TZ must be a time zone such as Europe/Berlin or UTC, not ${quote(tz)}`)
  }
}

function parseInterval(text: string): number {
  const ms = Number(text)
  if (ms < MIN_INTERVAL_MS) refuseCron(text, `an interval must be at least ${MIN_INTERVAL_MS} milliseconds`)
  if (ms > MAX_INTERVAL_MS) refuseCron(text, `an interval must be at most ${MAX_INTERVAL_MS} milliseconds (10 years)`)
  return ms
}

function parseTime(text: string): string {
  const instant = Timestamp.safeParse(text).success ? Date.parse(text) : Number.NaN
  const year = new Date(instant).getUTCFullYear()
  // A UTC offset can move a time out of the four-digit years of RFC 3339.
  if (!(year >= 0 && year <= 9999)) refuseCron(text, 'it is not an RFC 3339 time such as 2026-01-31T08:00:00Z')
  return timestamp(instant)
}

const FIELDS = [
  ['minute', '0 to 59'],
  ['hour', '0 to 23'],
  ['day of the month', '1 to 31'],
  ['month', '1 to 12 or JAN to DEC'],
  ['day of the week', '0 to 7 or SUN to SAT'],
] as const

function mustParseCron(text: string, timeZone: string): Cron {
  const fields = fieldsOf(text)
  // Also rejects croner's extensions: nicknames (@daily) and dates.
  if (fields.length !== FIELDS.length)
    refuseCron(text, 'it must be five cron fields, a whole number of milliseconds, or an RFC 3339 time')
  return tryParseCron(text, timeZone) ?? refuseCron(text, findCronFault(fields))
}

function fieldsOf(text: string): string[] {
  return text.trim().split(/\s+/)
}

/** Finds the first invalid field. Croner's messages count months and days by its internal offsets. */
function findCronFault(fields: readonly string[]): string {
  for (const [index, [name, range]] of FIELDS.entries()) {
    const field = fields[index] ?? ''
    const alone = fields.map((_, at) => (at === index ? field : '*')).join(' ')
    if (tryParseCron(alone, 'UTC')) continue
    if (/\/0*(?:,|$)/.test(field)) return `the ${name} ${quote(field)} has a step of 0: a step is at least 1`
    return `the ${name} ${quote(field)} must be within ${range}`
  }
  return 'its fields are invalid in combination'
}

function tryParseCron(text: string, timezone: string): Cron | undefined {
  try {
    // With the name of the zone, croner takes twenty times as long.
    return new Cron(text, { mode: '5-part', ...(timezone === 'UTC' ? { utcOffset: 0 } : { timezone }) })
  } catch {
    return undefined
  }
}

function refuseCron(text: string, reason: string): never {
  refuse('invalid', `invalid cron ${quote(text)}: ${reason}`)
}

function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
}
