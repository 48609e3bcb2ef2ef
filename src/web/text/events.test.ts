import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { EventReader, type ServerEvent } from './events.ts'

const STREAM = [
  'retry: 2000',
  '',
  ': a comment',
  '',
  'id: 7',
  'event: status',
  'data: {"a":1}',
  '',
  'id: 8',
  'data: two',
  'data:lines',
  '',
  'event: round_done',
  'data: x: y',
  '',
  'id: 9',
  'data: not over',
]
const EVENTS: ServerEvent[] = [
  { id: '7', event: 'status', data: '{"a":1}' },
  { id: '8', event: 'message', data: 'two\nlines' },
  { id: '8', event: 'round_done', data: 'x: y' },
]

test('a stream in any pieces gives the events that are complete, whatever ends its lines', () => {
  const ends = fc.constantFrom('\n', '\r\n', '\r')
  fc.assert(
    fc.property(ends, fc.array(fc.integer({ min: 1, max: 9 })), (end, sizes) => {
      const reader = new EventReader()
      let rest = STREAM.join(end)
      const found = sizes.flatMap((size) => {
        const piece = rest.slice(0, size)
        rest = rest.slice(size)
        return reader.read(piece)
      })
      assert.deepEqual([...found, ...reader.read(rest)], EVENTS)
    }),
  )
})

test('any text is read without a fault', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: fc.constantFrom('d', 'data', ':', '\n', '\r', ' ', 'id', '\0') })),
      (pieces) => {
        const reader = new EventReader()
        for (const piece of pieces) reader.read(piece)
      },
    ),
  )
})
