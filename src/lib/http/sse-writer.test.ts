import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { EventParser } from '../../../test/support/event-reader.ts'
import { formatSseEvent, SSE_COMMENT } from './sse-writer.ts'

test('writes an event that reads back with equal data, whatever it contains', () => {
  const hostile = fc.constantFrom(
    '\n',
    '\r',
    '\r\n',
    '\n\n',
    'id: 9',
    'event: x',
    'data: y',
    '\0',
    '\u2028',
    ': ',
    '\ufeff',
  )
  const text = fc.array(fc.oneof(hostile, fc.string({ unit: 'binary' }))).map((parts) => parts.join(''))
  fc.assert(
    fc.property(fc.nat(), text, (id, content) => {
      const events = new EventParser().push(
        Buffer.from(SSE_COMMENT + formatSseEvent(id, 'message', { content }) + SSE_COMMENT),
      )
      assert.deepEqual(events.length, 1)
      const [event] = events
      assert.deepEqual([event?.id, event?.event], [String(id), 'message'])
      assert.deepEqual(JSON.parse(event?.data ?? ''), { content: content.toWellFormed() })
      assert.ok(!/[\r\n]/.test(event?.data ?? '\n'))
    }),
  )
})

test('writes a comment that is not an event', () => {
  assert.deepEqual(new EventParser().push(Buffer.from(SSE_COMMENT)), [])
  assert.match(SSE_COMMENT, /^:/)
})
