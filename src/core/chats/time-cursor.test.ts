import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { CursorTime, ceilToMillisecond, formatTimeCursor, parseTimeCursor } from './time-cursor.ts'

test('parses a time to the millisecond in any time zone', () => {
  for (const [text, at, fine] of [
    ['2026-01-31T08:00:00Z', '2026-01-31T08:00:00.000Z', 0],
    ['2026-01-31T08:00:00.5+01:00', '2026-01-31T07:00:00.500Z', 0],
    ['2026-01-31T08:00:00.1234Z', '2026-01-31T08:00:00.123Z', 400_000],
    ['2026-01-31T08:00:00.123000001999Z', '2026-01-31T08:00:00.123Z', 1],
    ['9999-12-31T23:59:59-10:00', '9999-12-31T23:59:59.999Z', 0],
    ['0001-01-01T00:00:00+10:00', '0000-12-31T14:00:00.000Z', 0],
  ] as const)
    assert.deepEqual(parseTimeCursor(text), { at, fine }, text)
  assert.equal(ceilToMillisecond('2026-01-31T08:00:00.123Z'), '2026-01-31T08:00:00.123Z')
  assert.equal(ceilToMillisecond('2026-01-31T08:00:00.1231Z'), '2026-01-31T08:00:00.124Z')
})

test('rejects texts that are not RFC 3339 times', () => {
  for (const text of ['', 'now', '2026-01-31', '2026-01-31T08:00:00', '2026-01-31 08:00:00Z', '0000-01-01T00:00:00Z'])
    assert.ok(!CursorTime.safeParse(text).success, text)
  for (const text of [
    '2016-12-31T23:59:60Z',
    '2026-02-29T00:00:00Z',
    '2026-01-31T24:00:00Z',
    '2026-01-31T08:00:00+24:00',
  ])
    assert.ok(!CursorTime.safeParse(text).success, text)
})

test('formats the time of a row with digits of its own after the milliseconds', () => {
  fc.assert(
    fc.property(fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true }), fc.nat(), (date, seq) => {
      const at = date.toISOString()
      const text = formatTimeCursor(at, seq)
      assert.ok(CursorTime.safeParse(text).success)
      assert.equal(Date.parse(text), date.getTime())
      const cursor = parseTimeCursor(text)
      assert.equal(cursor.at, at)
      assert.ok(cursor.fine >= 1 && cursor.fine <= 999_999)
      assert.notEqual(parseTimeCursor(formatTimeCursor(at, seq + 1)).fine, cursor.fine)
    }),
  )
})
