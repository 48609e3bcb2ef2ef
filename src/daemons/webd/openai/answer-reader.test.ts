import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatSseActivity, formatSseDelta, formatSseEvent, SSE_COMMENT } from '../../../lib/http/sse-writer.ts'
import { openAnswerReader } from './answer-reader.ts'
import { AnswerText } from './answer-text.ts'

const open = (send?: (added: string | undefined) => Promise<void> | undefined) =>
  openAnswerReader(new AnswerText((id) => id), send)

test('the events of a round become text, and comments keep the connection open', async () => {
  const sent: (string | undefined)[] = []
  const { sink, outcome } = open((added) => void sent.push(added))
  sink.write(SSE_COMMENT)
  sink.write(Buffer.from(formatSseDelta({ turn_id: 't', n: 1, text: 'Hel', from: 0 })))
  sink.write(Buffer.from(formatSseActivity({ turn_id: 't', text: 'Searching messages' })))
  sink.write(formatSseEvent(1, 'status', { seq: 1, kind: 'status', content: 'reading' }))
  sink.write(formatSseEvent(2, 'message', { seq: 2, kind: 'message', content: 'Hello' }))
  sink.write(formatSseEvent(3, 'round_done', { turn_id: 't', status: 'failed', error: 'stopped' }))
  sink.end()
  assert.deepEqual(await outcome, { status: 'failed', error: 'stopped' })
  assert.deepEqual(sent, [undefined, 'Hel', 'lo'])
})

test('events wait while the client does not read', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { sink, outcome } = open(() => promise)
  const event = formatSseEvent(1, 'message', { seq: 1, kind: 'message', content: 'x'.repeat(1000) })
  for (let at = 0; at < 3; at++) sink.write(event)
  sink.end()
  await new Promise(setImmediate)
  assert.equal(sink.writableLength, 3 * event.length)
  resolve()
  assert.equal(await outcome, undefined)
  assert.equal(sink.writableLength, 0)
})

test('a stream that ends or breaks before its round has no outcome', async () => {
  const faulty = open()
  faulty.sink.write('event: message\ndata: {"content":7}\n\n')
  assert.equal(await faulty.outcome, undefined)
  const cut = open()
  cut.sink.destroy()
  assert.equal(await cut.outcome, undefined)
})
