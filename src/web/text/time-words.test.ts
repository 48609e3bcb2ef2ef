import assert from 'node:assert/strict'
import { test } from 'node:test'
import { timeAgo } from './time-words.ts'

test('a time is told by its age, an old one by its date', () => {
  const now = Date.parse('2026-03-31T12:00:00.000Z')
  const ago = (ms: number) => timeAgo(new Date(now - ms).toISOString(), now)
  const [minute, hour, day] = [60_000, 3_600_000, 86_400_000]
  assert.deepEqual([ago(-5_000), ago(0), ago(minute - 1)], ['just now', 'just now', 'just now'])
  assert.deepEqual([ago(minute), ago(2 * minute), ago(hour - 1)], ['1 minute ago', '2 minutes ago', '59 minutes ago'])
  assert.deepEqual([ago(hour), ago(day - 1), ago(day)], ['1 hour ago', '23 hours ago', '1 day ago'])
  assert.deepEqual([ago(30 * day - 1), ago(30 * day)], ['29 days ago', 'on 2026-03-01'])
})
