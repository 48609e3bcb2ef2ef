import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { decodeSpans } from '../../../test/support/collector.ts'
import { encodeSpans, spanIdOf, traceIdOf } from './otlp-json.ts'
import type { Span, SpanKey } from './span.ts'

const SOURCE = { instance: 'demo', version: '1.2.3', resource: { 'service.name': 'svc', 'process.pid': 42 } }

test('derives the trace from instance and message, so that every process computes the same', () => {
  const digest = createHash('sha256').update('demo/m1').digest('hex')
  assert.equal(traceIdOf('demo', 'm1'), digest.slice(0, 32))
  assert.notEqual(traceIdOf('other', 'm1'), traceIdOf('demo', 'm1'))
  const step = createHash('sha256').update('demo/m1/turn').digest('hex')
  assert.equal(spanIdOf('demo', { message: 'm1', step: 'turn' }), step.slice(0, 16))
})

const text = fc.string({ unit: 'binary' })
const key: fc.Arbitrary<SpanKey> = fc.record({ message: text, step: text })
const attribute = fc.oneof(text, fc.boolean(), fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }))
// In the years that have 19 digits of nanoseconds.
const time = fc.integer({ min: 1_600_000_000_000, max: 4_000_000_000_000 })
const span: fc.Arbitrary<Span> = fc.record(
  {
    key,
    parent: fc.option(text, { nil: undefined }),
    links: fc.array(key, { maxLength: 3 }),
    name: text,
    kind: fc.constantFrom('internal', 'server', 'client', 'producer', 'consumer'),
    startMs: time,
    endMs: time,
    attributes: fc.dictionary(text, fc.option(attribute, { nil: undefined })),
    error: fc.option(text, { nil: undefined }),
  },
  { requiredKeys: ['key', 'name', 'startMs', 'endMs', 'attributes'] },
)

test('every span is decoded to its values, and ends after it starts', () => {
  fc.assert(
    fc.property(fc.array(span, { maxLength: 5 }), (spans) => {
      const decoded = decodeSpans(encodeSpans(SOURCE, spans))
      assert.equal(decoded.length, spans.length)
      for (const [at, each] of decoded.entries()) {
        const given = spans[at] ?? assert.fail()
        assert.deepEqual(each.resource, SOURCE.resource)
        assert.equal(each.traceId, traceIdOf('demo', given.key.message))
        assert.equal(each.spanId, spanIdOf('demo', given.key))
        const parent = given.parent === undefined ? undefined : { message: given.key.message, step: given.parent }
        assert.equal(each.parentSpanId, parent && spanIdOf('demo', parent))
        assert.equal(each.name, given.name)
        assert.equal(each.startMs, given.startMs)
        assert.equal(each.endMs, Math.max(given.startMs, given.endMs))
        assert.equal(each.error, given.error)
        assert.equal(each.links.length, given.links?.length ?? 0)
        const shown = Object.entries(given.attributes).filter(([, value]) => value !== undefined)
        assert.deepEqual(
          Object.entries(each.attributes).map(([name, value]) => [name, Object.is(value, -0) ? 0 : value]),
          shown.map(([name, value]) => [name, Object.is(value, -0) ? 0 : value]),
        )
      }
    }),
  )
})

test('keeps microseconds of a fractional time', () => {
  const key = { message: 'm', step: 's' }
  const [decoded] = decodeSpans(
    encodeSpans(SOURCE, [
      { key, name: 'n', startMs: 1_700_000_000_000.25, endMs: 1_700_000_000_001.5, attributes: {} },
    ]),
  )
  assert.equal(decoded?.startMs, 1_700_000_000_000.25)
  assert.equal(decoded?.endMs, 1_700_000_000_001.5)
})
