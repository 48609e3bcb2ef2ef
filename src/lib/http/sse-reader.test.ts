import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SseDecoder, type SseEvent } from './sse-reader.ts'

function read(...pieces: (string | Uint8Array)[]): SseEvent[] {
  const reader = new SseDecoder()
  return pieces.flatMap((piece) => reader.push(typeof piece === 'string' ? Buffer.from(piece) : piece))
}

test('gives each event its type, its data and the last id of the stream', () => {
  assert.deepEqual(read('id: 7\nevent: status\ndata: {"a":1}\n\ndata: b\n\n'), [
    { event: 'status', data: '{"a":1}', id: '7' },
    { event: 'message', data: 'b', id: '7' },
  ])
})

test('joins data lines and drops one space after the colon', () => {
  assert.deepEqual(read('data:a\ndata:  b\ndata\n\n'), [{ event: 'message', data: 'a\n b\n', id: '' }])
})

test('ignores comments, unknown fields, retry and events without data', () => {
  assert.deepEqual(read(': hello\n\nretry: 2000\n\nevent: x\n\nother: y\ndata: z\n\n'), [
    { event: 'message', data: 'z', id: '' },
  ])
})

test('ignores an id with NUL and accepts an empty one', () => {
  assert.deepEqual(
    read('id: 1\ndata: a\n\nid: 2\u0000\ndata: b\n\nid\ndata: c\n\n').map(({ id }) => id),
    ['1', '1', ''],
  )
})

test('skips a byte order mark and drops an event that the stream does not complete', () => {
  assert.deepEqual(read('\ufeffdata: a\n\ndata: b\n'), [{ event: 'message', data: 'a', id: '' }])
})

test('ends lines at CR, LF and CRLF, wherever a piece ends', () => {
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

test('gives the same events for any division into pieces', () => {
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

test('reads back events written as the HTML standard says', () => {
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

test('reads a line of 4 MB in small pieces in linear time', () => {
  const bytes = Buffer.from(`data: ${'x'.repeat(4_000_000)}\n\n`)
  const pieces = Array.from({ length: Math.ceil(bytes.length / 1024) }, (_, at) =>
    bytes.subarray(at * 1024, (at + 1) * 1024),
  )
  const before = process.cpuUsage()
  assert.equal(read(...pieces)[0]?.data.length, 4_000_000)
  // A reader that splits the whole line again at each piece takes several seconds.
  assert.ok(process.cpuUsage(before).user < 1_000_000)
})
