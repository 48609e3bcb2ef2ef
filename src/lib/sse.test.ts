import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { EventReader, type ServerEvent } from './sse.ts'

function read(...pieces: (string | Uint8Array)[]): ServerEvent[] {
  const reader = new EventReader()
  return pieces.flatMap((piece) => reader.push(typeof piece === 'string' ? Buffer.from(piece) : piece))
}

test('an event has a kind, its data, and the id that the stream has come to', () => {
  assert.deepEqual(read('id: 7\nevent: status\ndata: {"a":1}\n\ndata: b\n\n'), [
    { event: 'status', data: '{"a":1}', id: '7' },
    { event: 'message', data: 'b', id: '7' },
  ])
})

test('several lines of data are one text; one blank after the colon is not part of it', () => {
  assert.deepEqual(read('data:a\ndata:  b\ndata\n\n'), [{ event: 'message', data: 'a\n b\n', id: '' }])
})

test('comments, unknown fields, a retry and an event without data give nothing', () => {
  assert.deepEqual(read(': hello\n\nretry: 2000\n\nevent: x\n\nother: y\ndata: z\n\n'), [
    { event: 'message', data: 'z', id: '' },
  ])
})

test('an id with NUL is not taken, and an empty one is', () => {
  assert.deepEqual(
    read('id: 1\ndata: a\n\nid: 2\u0000\ndata: b\n\nid\ndata: c\n\n').map(({ id }) => id),
    ['1', '1', ''],
  )
})

test('an event that the stream does not end is none, and a byte order mark is skipped', () => {
  assert.deepEqual(read('\ufeffdata: a\n\ndata: b\n'), [{ event: 'message', data: 'a', id: '' }])
})

test('CR, LF and CRLF end a line alike, wherever a piece ends', () => {
  const expected = read('id: 1\nevent: e\ndata: a\ndata: b\n\ndata: c\n\n')
  assert.equal(expected.length, 2)
  for (const end of ['\r', '\r\n']) {
    const text = 'id: 1\nevent: e\ndata: a\ndata: b\n\ndata: c\n\n'.replaceAll('\n', end)
    assert.deepEqual(read(text), expected)
    assert.deepEqual(read(...text), expected)
  }
  assert.deepEqual(read('data: a\r', '\n\r', '\n'), [{ event: 'message', data: 'a', id: '' }])
  assert.deepEqual(read('data: a\r', '', '\n\r', '\n'), [{ event: 'message', data: 'a', id: '' }])
  assert.deepEqual(read('data: a\r', '\n', '\n'), [{ event: 'message', data: 'a', id: '' }])
})

test('a stream cut at any bytes gives the same events', () => {
  const line = fc.oneof(
    fc.constantFrom('', 'data', 'data:', 'id: 1', ': ping', 'event: round_done', 'retry: 5'),
    fc.string({ unit: 'grapheme' }).map((text) => `data: ${text}`),
    fc.string({ unit: 'binary' }),
  )
  const stream = fc
    .array(fc.tuple(line, fc.constantFrom('\n', '\r', '\r\n')))
    .map((lines) => Buffer.from(lines.flat().join('')))
  fc.assert(
    fc.property(stream, fc.array(fc.nat()), (bytes, cuts) => {
      const places = cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b)
      const pieces = [...places, bytes.length].map((to, index) => bytes.subarray(places[index - 1] ?? 0, to))
      assert.deepEqual(read(...pieces), read(bytes))
      assert.deepEqual(read(...[...bytes].map((byte) => Buffer.of(byte))), read(bytes))
    }),
  )
})

test('what is written as the standard says is read back', () => {
  const event = fc.record(
    {
      event: fc.constantFrom('message', 'status', 'round_done'),
      data: fc.string({ unit: 'grapheme' }).filter((text) => !/\r/.test(text)),
      id: fc.nat().map(String),
    },
    { noNullPrototype: true },
  )
  fc.assert(
    fc.property(fc.array(event), (events) => {
      const written = events.map(({ event, data, id }) => {
        const lines = data.split('\n').map((text) => `data: ${text}\n`)
        return `id: ${id}\nevent: ${event}\n${lines.join('')}\n`
      })
      assert.deepEqual(read(written.join('')), events)
    }),
  )
})
