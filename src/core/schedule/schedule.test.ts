import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '../../lib/refusal.ts'
import { correctedRun, MAX_INTERVAL_MS, nextRun, parseSchedule, timeZoneOf } from './schedule.ts'

const NOW = Date.parse('2026-01-15T10:20:30.400Z')
const BERLIN = 'Europe/Berlin'

test('a task without a schedule runs once, now', () => {
  assert.deepEqual(parseSchedule(undefined, NOW, 'UTC'), { next_run: '2026-01-15T10:20:30.400Z' })
})

test('a time runs once, is stored in UTC and may be in the past', () => {
  const cases: Record<string, string> = {
    '2026-01-31T08:00:00Z': '2026-01-31T08:00:00.000Z',
    '2026-01-31T08:00:00.123456+02:00': '2026-01-31T06:00:00.123Z',
    '1999-12-31T23:59:59Z': '1999-12-31T23:59:59.000Z',
    ' 2028-02-29T00:00:00-01:00 ': '2028-02-29T01:00:00.000Z',
  }
  for (const [text, next_run] of Object.entries(cases)) assert.deepEqual(parseSchedule(text, NOW, BERLIN), { next_run })
})

test('a whole number is an interval, first run one interval from now', () => {
  assert.deepEqual(parseSchedule('60000', NOW, 'UTC'), { cron: '60000', next_run: '2026-01-15T10:21:30.400Z' })
  assert.deepEqual(parseSchedule('1000', NOW, 'UTC').next_run, '2026-01-15T10:20:31.400Z')
  assert.ok(parseSchedule(String(MAX_INTERVAL_MS), NOW, 'UTC').next_run.startsWith('2036-01-1'))
})

test('five fields are a cron expression, first run at its next slot', () => {
  const cases: Record<string, string> = {
    '0 2 * * *': '2026-01-16T02:00:00.000Z',
    '0 3 * * 1': '2026-01-19T03:00:00.000Z',
    '0 3 * * MON': '2026-01-19T03:00:00.000Z',
    '0 4 1 * *': '2026-02-01T04:00:00.000Z',
    '*/5 * * * *': '2026-01-15T10:25:00.000Z',
    '0 0 29 2 *': '2028-02-29T00:00:00.000Z',
    '20 10 * * *': '2026-01-16T10:20:00.000Z',
  }
  for (const [cron, next_run] of Object.entries(cases))
    assert.deepEqual(parseSchedule(cron, NOW, 'UTC'), { cron, next_run })
  assert.equal(parseSchedule(' 0  2\t* * * ', NOW, 'UTC').cron, '0 2 * * *')
})

test('refuses an invalid schedule with the reason', () => {
  const cases: Record<string, RegExp> = {
    '* * * *': /^invalid cron "\* \* \* \*": it must be five cron fields, /,
    '* * * * * *': /five cron fields/,
    '0 0 1 1 * 2030': /five cron fields/,
    '@reboot': /five cron fields/,
    '@daily': /five cron fields/,
    tomorrow: /five cron fields/,
    '1.5': /five cron fields/,
    NaN: /five cron fields/,
    '60 * * * *': /^invalid cron "60 \* \* \* \*": the minute "60" must be within 0 to 59$/,
    '*/0 * * * *': /the minute "\*\/0" has a step of 0: a step is at least 1$/,
    '0 1-5/00 * * *': /the hour "1-5\/00" has a step of 0/,
    '0 24 * * *': /the hour "24" must be within 0 to 23/,
    '0 0 0 * *': /the day of the month "0" must be within 1 to 31/,
    '0 0 32 * *': /day of the month "32"/,
    '0 0 1 13 *': /the month "13" must be within 1 to 12/,
    '0 0 * * 8': /the day of the week "8" must be within 0 to 7/,
    '5-1 * * * *': /minute/,
    'a b c d e': /minute "a"/,
    '0 0 31 2 *': /^invalid cron "0 0 31 2 \*": it never fires$/,
    '0 0 30 2 *': /never fires/,
    '0 0 31 4,6,9,11 *': /never fires/,
    '0': /at least 1000 milliseconds/,
    '1': /at least 1000 milliseconds/,
    '999': /at least 1000 milliseconds/,
    '-5000': /at least 1000 milliseconds/,
    [String(2 ** 53)]: /at most \d+ milliseconds \(10 years\)/,
    ['9'.repeat(200)]: /at most/,
    '2026-02-30T00:00:00Z': /^invalid cron "2026-02-30T00:00:00Z": it is not an RFC 3339 time/,
    '2026-13-01T00:00:00Z': /RFC 3339/,
    '2026-01-31T08:00:00': /RFC 3339/,
    '2026-01-31': /RFC 3339/,
    '2026-01-31T24:00:00Z': /RFC 3339/,
    '9999-12-31T23:59:59-01:00': /RFC 3339/,
    '0000-01-01T00:00:00+01:00': /RFC 3339/,
    ['*/5,'.repeat(20_000)]: /longer than 256 characters/,
  }
  for (const [cron, reason] of Object.entries(cases)) {
    assert.throws(
      () => parseSchedule(cron, NOW, 'UTC'),
      (error) => error instanceof Refusal && error.code === 'invalid' && reason.test(error.message),
      cron.slice(0, 80),
    )
  }
})

test('refuses an empty schedule, which is not the same as none', () => {
  for (const cron of ['', '   ', '\n'])
    assert.throws(
      () => parseSchedule(cron, NOW, 'UTC'),
      (error) => error instanceof Refusal && error.message === 'cron must not be empty',
    )
})

test('skips missed slots: the next is after now, on the grid of the slot that fired', () => {
  const slot = Date.parse('2026-01-15T00:00:00Z')
  const late = Date.parse('2026-01-15T00:05:30Z')
  assert.equal(nextRun('60000', late, 'UTC', slot), '2026-01-15T00:06:00.000Z')
  assert.equal(nextRun('* * * * *', late, 'UTC', slot), '2026-01-15T00:06:00.000Z')
  assert.equal(nextRun('60000', slot, 'UTC', slot), '2026-01-15T00:01:00.000Z')
  assert.equal(nextRun('60000', slot + 60_000, 'UTC', slot), '2026-01-15T00:02:00.000Z')
})

test('does not fire a slot again after the clock was set back', () => {
  const slot = Date.parse('2026-01-15T12:00:00Z')
  const earlier = slot - 3_600_000
  assert.equal(nextRun('0 * * * *', earlier, 'UTC', slot), '2026-01-15T13:00:00.000Z')
  assert.equal(nextRun('60000', earlier, 'UTC', slot), '2026-01-15T12:01:00.000Z')
})

test('a slot is too far ahead only if the schedule has an earlier one more than a minute from now', () => {
  const now = Date.parse('2026-01-15T12:00:30Z')
  const correct = (cron: string, next: string, zone = 'UTC') => correctedRun(cron, next, now, zone)
  assert.equal(correct('60000', '2036-01-15T12:01:10.500Z'), '2026-01-15T12:01:10.500Z')
  assert.equal(correct('60000', '2026-01-15T12:02:30.000Z'), undefined)
  assert.equal(correct('60000', '2026-01-15T12:02:30.001Z'), '2026-01-15T12:00:30.001Z')
  assert.equal(correct('0 * * * *', '2026-01-15T15:00:00.000Z'), '2026-01-15T13:00:00.000Z')
  assert.equal(correct('0 * * * *', '2026-01-15T13:00:00.000Z'), undefined)
  assert.equal(correct('* * * * *', '2026-01-15T12:02:00.000Z'), undefined)
  assert.equal(correct('30 2 * * *', '2026-03-30T00:30:00.000Z', BERLIN), '2026-01-16T01:30:00.000Z')
})

test('no slot that was computed by a correct clock is ever too far ahead', () => {
  const crons = ['* * * * *', '*/7 2 * * *', '30 2 * * *', '0 0 1 * *', '0 3 29 2 *', '0 * * * 1', '1000', '86400000']
  const zones = ['UTC', BERLIN, 'America/New_York', 'Australia/Lord_Howe']
  fc.assert(
    fc.property(
      fc.constantFrom(...crons),
      fc.constantFrom(...zones),
      fc.integer({ min: Date.UTC(2026, 0), max: Date.UTC(2027, 0) }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (cron, zone, from, part) => {
        const next = nextRun(cron, from, zone)
        const now = from + Math.floor((Date.parse(next) - from) * part)
        assert.equal(correctedRun(cron, next, now, zone), undefined)
      },
    ),
    { numRuns: 200 },
  )
})

const SPRING = 'the night when Berlin skips 02:00 to 03:00'
const AUTUMN = 'the night when Berlin has 02:00 to 03:00 twice'

/** The slots after `from`, each computed from the previous one. */
function slots(cron: string, from: string, count: number): string[] {
  const found: string[] = []
  for (let at = Date.parse(from); found.length < count; at = Date.parse(found.at(-1) ?? from)) {
    found.push(nextRun(cron, at, BERLIN))
  }
  return found.map((text) => text.slice(5, 16))
}

test(`${SPRING}: a daily task at 02:30 runs once, after the skipped hour`, () => {
  assert.deepEqual(slots('30 2 * * *', '2026-03-27T12:00:00Z', 3), ['03-28T01:30', '03-29T01:00', '03-30T00:30'])
})

test(`${SPRING}: an hourly task keeps its hour`, () => {
  assert.deepEqual(slots('0 * * * *', '2026-03-28T23:30:00Z', 3), ['03-29T00:00', '03-29T01:00', '03-29T02:00'])
})

test(`${AUTUMN}: a daily task at 02:30 runs once`, () => {
  assert.deepEqual(slots('30 2 * * *', '2026-10-24T12:00:00Z', 2), ['10-25T00:30', '10-26T01:30'])
})

test(`${AUTUMN}: an hourly task runs in both repeated hours`, () => {
  assert.deepEqual(slots('0 * * * *', '2026-10-24T23:30:00Z', 3), ['10-25T00:00', '10-25T01:00', '10-25T02:00'])
})

test(`${SPRING}: times in the skipped hour run after it, in any notation`, () => {
  for (const cron of ['0,30 2 * * *', '*/30 2 * * *', '* 2 * * *', '5-55/10 2 * * *', '30 1-2 * * 0-6'])
    assert.ok(slots(cron, '2026-03-28T22:00:00Z', 3).includes('03-29T01:00'), cron)
  assert.deepEqual(slots('0,30 2 * * *', '2026-03-28T12:00:00Z', 3), ['03-29T01:00', '03-30T00:00', '03-30T00:30'])
  assert.deepEqual(slots('30 */2 * * *', '2026-03-28T22:00:00Z', 3), ['03-28T23:30', '03-29T01:00', '03-29T02:30'])
})

test(`${AUTUMN}: times in the repeated hour run once, in any notation`, () => {
  assert.deepEqual(slots('0,30 2 * * *', '2026-10-24T12:00:00Z', 3), ['10-25T00:00', '10-25T00:30', '10-26T01:00'])
  assert.deepEqual(slots('30 */2 * * *', '2026-10-24T22:00:00Z', 3), ['10-24T22:30', '10-25T00:30', '10-25T03:30'])
  assert.deepEqual(slots('30 1-3 * * *', '2026-10-24T22:00:00Z', 3), ['10-24T23:30', '10-25T00:30', '10-25T02:30'])
})

test('recognizes hourly expressions in any notation', () => {
  for (const hours of ['*', '0-23', '*/1', '0-11,12-23', '?'])
    assert.deepEqual(slots(`30 ${hours} * * *`, '2026-10-24T23:45:00Z', 2), ['10-25T00:30', '10-25T01:30'], hours)
})

const MINUTE_MS = 60_000

/** Clock changes of these zones, with the wall times before and after, found by checking every minute. */
const CHANGES = [
  { zone: BERLIN, near: ['2026-03-29', '2026-10-25'] },
  { zone: 'America/New_York', near: ['2026-03-08', '2026-11-01'] },
  { zone: 'America/Santiago', near: ['2026-04-05', '2026-09-06'] },
  { zone: 'Africa/Casablanca', near: ['2026-02-15', '2026-03-22'] },
  { zone: 'Australia/Lord_Howe', near: ['2026-04-04', '2026-10-03'] },
].flatMap(({ zone, near }) => near.map((day) => ({ zone, ...watchClock(zone, day) })))

/** The first instant of each wall-clock minute of two days; a skipped minute maps to the end of the gap. */
function watchClock(zone: string, day: string) {
  const start = Date.parse(`${day}T00:00:00Z`) - 12 * 60 * MINUTE_MS
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'short' })
  const shown = new Map<number, number>()
  let last: number | undefined
  let changes = 0
  for (let moment = start; moment < start + 2880 * MINUTE_MS; moment += MINUTE_MS) {
    const time = Date.parse(`${format.format(moment).replace(' ', 'T')}Z`)
    if (last !== undefined && time !== last + MINUTE_MS) changes++
    for (let each = (last ?? time) + MINUTE_MS; each < time; each += MINUTE_MS) shown.set(each, moment)
    if (!shown.has(time)) shown.set(time, moment)
    last = time
  }
  assert.equal(changes, 1, `${zone} changes its clocks around ${day}`)
  return { start, end: start + 2880 * MINUTE_MS, shown }
}

test('fires each time of day once across clock changes: the first of two, and a skipped one after the gap', () => {
  const some = (max: number, most: number) =>
    fc.uniqueArray(fc.integer({ min: 0, max }), { minLength: 1, maxLength: most })
  fc.assert(
    fc.property(
      fc.constantFrom(...CHANGES),
      some(59, 6),
      fc.oneof(some(3, 4), some(23, 23)),
      ({ zone, start, end, shown }, minutes, hours) => {
        const fires = (time: number): boolean => {
          const at = new Date(time)
          return minutes.includes(at.getUTCMinutes()) && hours.includes(at.getUTCHours())
        }
        const expected = [...shown]
          .filter(([time, moment]) => moment > start && fires(time))
          .map(([, moment]) => moment)
        const found: number[] = []
        const cron = `${minutes} ${hours} * * *`
        for (let at = start; ; found.push(at)) {
          at = Date.parse(nextRun(cron, at, zone))
          if (at >= end) break
        }
        assert.deepEqual(found, [...new Set(expected)], `${cron} in ${zone}`)
      },
    ),
    { numRuns: 60 },
  )
})

test(`${AUTUMN}: an interval continues by elapsed time`, () => {
  const start = Date.parse('2026-10-25T00:30:00Z')
  assert.equal(nextRun('3600000', start, BERLIN), '2026-10-25T01:30:00.000Z')
})

test('the next slot is after the given time, with no slot in between', () => {
  const zones = fc.constantFrom('UTC', BERLIN, 'America/New_York', 'Asia/Kathmandu', 'Australia/Lord_Howe')
  const crons = fc.constantFrom('* * * * *', '*/7 * * * *', '30 2 * * *', '0 0 1 * *', '15 3 * * 1', '0 0 29 2 *')
  const moments = fc.integer({ min: Date.parse('2020-01-01T00:00:00Z'), max: Date.parse('2040-01-01T00:00:00Z') })
  fc.assert(
    fc.property(crons, moments, zones, (cron, after, zone) => {
      const next = Date.parse(nextRun(cron, after, zone))
      assert.ok(next > after)
      assert.equal(Date.parse(nextRun(cron, next - 1, zone)), next)
    }),
    { numRuns: 200 },
  )
})

test('parses or refuses any text', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9*,/@LW#? -]{0,30}$/)), (cron) => {
      try {
        assert.match(parseSchedule(cron, NOW, 'UTC').next_run, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      } catch (error) {
        assert.ok(error instanceof Refusal, String(error))
      }
    }),
    { numRuns: 300 },
  )
})

test('uses UTC for an unset time zone and refuses an invalid one', () => {
  assert.equal(timeZoneOf(undefined), 'UTC')
  assert.equal(timeZoneOf(''), 'UTC')
  assert.equal(timeZoneOf('Europe/Berlin'), 'Europe/Berlin')
  for (const tz of ['Europe/Atlantis', 'CET-1CEST', ':UTC', ' '])
    assert.throws(
      () => timeZoneOf(tz),
      (error) => error instanceof Refusal && error.message.startsWith('TZ must be a time zone'),
    )
})
