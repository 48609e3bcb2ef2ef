import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '../refusal.ts'
import { formatDuration, MAX_DURATION_MS, parseDuration } from './duration.ts'

const HOUR = 3_600_000

test('reads durations as milliseconds', () => {
  const cases: Record<string, number> = {
    '0': 0,
    '0s': 0,
    '500ms': 500,
    '30s': 30_000,
    '30m': 1_800_000,
    '24h': 24 * HOUR,
    '72h30m': 72.5 * HOUR,
    '1.5h': 1.5 * HOUR,
    '1.1h': 3_960_000,
    '1h1m1s1ms': 3_661_001,
    '876600h': MAX_DURATION_MS,
  }
  for (const [text, ms] of Object.entries(cases)) assert.equal(parseDuration(text), ms, text)
})

test('refuses anything else with examples', () => {
  const bad = [
    '',
    ' ',
    '24',
    '00',
    '-1h',
    '+1h',
    '1y',
    '1d',
    'NaN',
    'Infinity',
    'h',
    '1',
    '1.h',
    '.5h',
    '1,5h',
    '1e3s',
    '1H',
  ]
  const more = ['1h ', ' 1h', '1h 30m', '876601h', '0.1ms', '1us', '1h1', `${'9'.repeat(400)}h`, '1h\n', '\u0661h']
  for (const text of [...bad, ...more]) {
    assert.throws(
      () => parseDuration(text),
      (error) => error instanceof Refusal && error.code === 'invalid' && error.message.includes('such as 24h, 72h30m'),
      JSON.stringify(text),
    )
  }
})

test('reads back a formatted duration', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: MAX_DURATION_MS }), (ms) => {
      assert.equal(parseDuration(formatDuration(ms)), ms)
    }),
  )
})

test('formats durations in their usual units', () => {
  assert.equal(formatDuration(0), '0')
  assert.equal(formatDuration(1_800_000), '30m')
  assert.equal(formatDuration(72.5 * HOUR), '72h30m')
  assert.equal(formatDuration(1500), '1s500ms')
})

test('returns whole milliseconds or refuses, for any text', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9.hms]{0,12}$/)), (text) => {
      try {
        const ms = parseDuration(text)
        assert.ok(Number.isInteger(ms) && ms >= 0 && ms <= MAX_DURATION_MS)
      } catch (error) {
        assert.ok(error instanceof Refusal)
      }
    }),
  )
})
