import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ReadableLogStream, readableLogLine } from './readable-lines.ts'

const line = (members: object): string => JSON.stringify(members)
/** The local time of day of an instant, as the log prints it. */
const LOCAL = new Date('2026-01-02T03:04:05.006Z').toTimeString().slice(0, 8)

test('prints time, level, message and then the other members', () => {
  const text = line({ level: 'info', time: '2026-01-02T03:04:05.006Z', daemon: 'webd', ms: 1.5, msg: 'agents' })
  assert.equal(readableLogLine(text), `[${LOCAL}.006] INFO: agents {"daemon":"webd","ms":1.5}`)
})

test('colours the level and the message', () => {
  const text = line({ level: 'error', time: '2026-01-02T03:04:05.006Z', msg: 'failed' })
  const expected = `[${LOCAL}.006] \u001b[31mERROR\u001b[39m: \u001b[36mfailed\u001b[39m`
  assert.equal(readableLogLine(text, true), expected)
})

test('prints a line without a time, a level or a message', () => {
  assert.equal(readableLogLine(line({ status: 200 })), '[--:--:--.---] LOG: {"status":200}')
  assert.equal(readableLogLine('not JSON'), 'not JSON')
})

test('never prints a control character', () => {
  const members = fc.record({
    level: fc.string({ unit: 'binary' }),
    msg: fc.string({ unit: 'binary' }),
    x: fc.string({ unit: 'binary' }),
  })
  fc.assert(
    fc.property(members, (entry) => {
      assert.doesNotMatch(readableLogLine(line(entry)), /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/)
    }),
  )
})

test('formats each line of a batch', () => {
  const written: string[] = []
  const stream = new ReadableLogStream({ write: (lines) => written.push(lines), dropped: 3 }, false)
  stream.write(`${line({ msg: 'a' })}\n${line({ msg: 'b' })}\n`)
  assert.deepEqual(written, ['[--:--:--.---] LOG: a\n[--:--:--.---] LOG: b\n'])
  assert.equal(stream.dropped, 3)
})
