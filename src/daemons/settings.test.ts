import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal } from '../../test/support/host.ts'
import { readSettings, sourceOf } from '../lib/settings.ts'
import { mustBeServable, SEARCH_SETTINGS } from './settings.ts'

test('the timeout of a search is from 100ms to 60s', () => {
  const read = (text?: string) =>
    readSettings(SEARCH_SETTINGS, [sourceOf('.env', new Map(text === undefined ? [] : [['SEARCH_DEADLINE', text]]))])
  assert.deepEqual(
    [undefined, '100ms', '60s'].map((text) => read(text).SEARCH_DEADLINE),
    [5000, 100, 60_000],
  )
  for (const text of ['99ms', '60001ms', '0'])
    assert.throws(
      () => read(text),
      isRefusal('invalid', `SEARCH_DEADLINE in .env must be from 100ms to 60s, not ${JSON.stringify(text)}`),
    )
  assert.throws(() => read('soon'), isRefusal('invalid', /^SEARCH_DEADLINE in \.env must be a duration such as/))
})

test('variables of OpenTelemetry count only with an endpoint', () => {
  const check = (entries: Record<string, string>) =>
    mustBeServable([sourceOf('the test', new Map(Object.entries(entries)))])
  check({ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })
  check({ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_ENDPOINT: '' })
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318' }
  check(endpoint)
  assert.throws(() => check({ ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }), isRefusal('invalid', 'http/json'))
  assert.throws(() => check({ LOG_LEVEL: 'loud' }), isRefusal('invalid', 'LOG_LEVEL'))
})
