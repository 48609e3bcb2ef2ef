import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { fakeClock } from '../../../test/support/clock.ts'
import type { DraftPiece, DraftSignals } from '../../core/turns/drafts.ts'
import { Signals } from '../../lib/commit-signals.ts'
import { FaultBoundary } from '../../lib/fault-boundary.ts'
import { MetricRegistry } from '../../lib/log/metric-registry.ts'
import { DraftTexts } from '../process/draft-texts.ts'
import { DraftStreams } from './draft-streams.ts'

const FIRST: DraftPiece = {
  ...{ turn: 't', fence: 1, part: 0, jid: 'web:main', topic: '', folder: 'main', rounds: ['t', 'u'] },
  ...{ from: 0, text: '', state: 'open' },
}

interface Delta {
  readonly turn_id: string
  readonly n: number
  readonly text: string
  readonly from: number
  readonly done?: boolean
}

/** What a client shows that applies each delta. */
function shown(deltas: readonly Delta[]): string {
  let text: string[] = []
  for (const delta of deltas) text = [...text.slice(0, delta.from), ...delta.text]
  return text.join('')
}

function open(t: TestContext, limit?: number) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const thrown: unknown[] = []
  const faults = new FaultBoundary(new MetricRegistry(), (error) => thrown.push(error))
  const clock = fakeClock()
  const drafts: DraftSignals = new Signals((error) => thrown.push(error))
  const texts = new DraftTexts({ drafts, faults }, { clock, ...(limit === undefined ? {} : { limit }) })
  const streams = new DraftStreams(texts, faults, clock)
  t.after(() => {
    streams.close()
    assert.deepEqual(thrown, [])
  })
  return {
    say: (piece: Partial<DraftPiece>) => drafts.emit({ ...FIRST, ...piece }, false),
    pass: (ms: number) => {
      for (let passed = 0; passed < ms; passed += 10) {
        clock.advance(10)
        t.mock.timers.tick(10)
      }
    },
    read: (feed = 'chat web:main', canWrite = () => true, accepts = () => true) => {
      const deltas: Delta[] = []
      const write = (bytes: Uint8Array): boolean => {
        if (!canWrite()) return false
        const [, data = ''] = /^event: delta\ndata: (.*)\n\n$/.exec(Buffer.from(bytes).toString()) ?? []
        deltas.push(JSON.parse(data))
        return true
      }
      const remove = streams.add({ feed, accepts, write })
      return { deltas, remove }
    },
  }
}

test('a draft grows at its readers, at most 20 times a second', (t) => {
  const { say, pass, read } = open(t)
  const { deltas } = read()
  for (let at = 0; at < 100; at++) {
    say({ from: at, text: `${at % 10}` })
    pass(10)
  }
  pass(60)
  assert.equal(shown(deltas), '0123456789'.repeat(10))
  assert.ok(deltas.length >= 19 && deltas.length <= 21, `${deltas.length} deltas`)
  assert.deepEqual(deltas[0], { turn_id: 't', n: 1, text: '0', from: 0 })
  for (const [at, { n }] of deltas.slice(1).entries()) assert.ok(n > (deltas[at]?.n ?? 0))
})

test('what comes after a pause is sent at once, and then together after 50 ms', (t) => {
  const { say, pass, read } = open(t)
  const { deltas } = read()
  say({ text: 'a' })
  assert.equal(deltas.length, 1)
  for (const [at, text] of ['b', 'c'].entries()) say({ from: at + 1, text })
  pass(40)
  assert.equal(deltas.length, 1)
  pass(10)
  assert.deepEqual(deltas.at(-1), { turn_id: 't', n: 3, text: 'bc', from: 1 })
  pass(50)
  say({ from: 3, text: 'd' })
  assert.equal(shown(deltas), 'abcd')
})

test('a reader who joins gets the text so far in one delta, and then the same as the others', (t) => {
  const { say, pass, read } = open(t)
  const early = read()
  say({ text: 'one 👍 ' })
  pass(60)
  const late = read()
  assert.deepEqual(
    late.deltas.map(({ from, text }) => [from, text]),
    [[0, 'one 👍 ']],
  )
  say({ from: 6, text: 'two' })
  pass(60)
  assert.deepEqual(late.deltas.at(-1), early.deltas.at(-1))
  assert.deepEqual([late.deltas.at(-1)?.from, shown(late.deltas)], [6, 'one 👍 two'])
})

test('a round has the deltas under its own id, a chat under that of the turn', (t) => {
  const { say, pass, read } = open(t)
  const readers = ['round t', 'round u', 'round v', 'chat web:main', 'chat web:other'].map((feed) => read(feed))
  say({ text: 'x' })
  pass(60)
  assert.deepEqual(
    readers.map(({ deltas }) => deltas.map(({ turn_id }) => turn_id)),
    [['t'], ['u'], [], ['t'], []],
  )
  // The turn of a retried message is no round.
  const retried = read('chat web:b')
  say({ turn: 't-1', jid: 'web:b', rounds: ['u'], text: 'y' })
  pass(60)
  assert.deepEqual(
    retried.deltas.map(({ turn_id }) => turn_id),
    ['u'],
  )
})

test('a reader gets only drafts that it accepts', (t) => {
  const { say, pass, read } = open(t)
  const asked: unknown[] = []
  const { deltas } = read('chat web:main', undefined, ((about: unknown) => {
    asked.push(about)
    return false
  }) as () => boolean)
  say({ topic: 'news', text: 'x' })
  pass(60)
  assert.deepEqual([deltas, asked], [[], [{ topic: 'news', folder: 'main' }]])
})

test('a reader who is slow gets larger pieces', (t) => {
  const { say, pass, read } = open(t)
  let isSlow = true
  const { deltas } = read(undefined, () => !isSlow)
  say({ text: 'a' })
  pass(60)
  for (const [at, text] of ['b', 'c', 'd'].entries()) {
    say({ from: at + 1, text })
    pass(60)
  }
  isSlow = false
  say({ from: 4, text: 'e' })
  pass(60)
  assert.deepEqual(
    deltas.map(({ from, text }) => [from, text]),
    [[0, 'abcde']],
  )
})

test('a text that begins again replaces the draft; pieces of the one before are ignored', (t) => {
  const { say, pass, read } = open(t)
  const { deltas } = read()
  say({ text: 'looking' })
  pass(60)
  say({ part: 1 })
  pass(60)
  assert.equal(shown(deltas), '')
  say({ from: 7, text: ' it up' })
  say({ part: 1, text: 'found' })
  pass(60)
  assert.equal(shown(deltas), 'found')
  say({ fence: 2, text: 'retried' })
  say({ part: 2, text: 'late' })
  pass(60)
  assert.equal(shown(deltas), 'retried')
})

test('a draft without a message ends with an empty text that is done', (t) => {
  const { say, pass, read } = open(t)
  const [reader, late] = [read(), read('round u', () => false)]
  say({ text: 'half' })
  pass(60)
  say({ from: 4, state: 'dropped' })
  assert.deepEqual(reader.deltas.at(-1), { turn_id: 't', n: 2, text: '', from: 0, done: true })
  assert.deepEqual(late.deltas, [])
  assert.deepEqual(read().deltas, [])
})

test('readers get the whole draft before its message, and nothing after it', (t) => {
  const { say, pass, read } = open(t)
  const reader = read()
  say({ text: 'an' })
  pass(60)
  say({ from: 2, text: 'swer', state: 'complete' })
  assert.equal(shown(reader.deltas), 'answer')
  const before = reader.deltas.length
  say({ from: 6, state: 'stored' })
  pass(10_000)
  assert.equal(reader.deltas.length, before)
  assert.deepEqual(read().deltas, [])
})

test('a draft without a sign of life for 3 s is done, and continues with a whole text', (t) => {
  const { say, pass, read } = open(t)
  const { deltas } = read()
  say({ text: 'half' })
  pass(2000)
  say({ from: 4 })
  pass(3000)
  assert.equal(deltas.at(-1)?.done, undefined)
  pass(1000)
  assert.equal(deltas.at(-1)?.done, true)
  say({ from: 4, text: ' more' })
  pass(60)
  assert.equal(shown(deltas), '')
  say({ text: 'half more' })
  pass(60)
  assert.equal(shown(deltas), 'half more')
})

test('a long draft is sent in events of at most 65,536 characters, and no event cuts a character', (t) => {
  const { say, pass, read } = open(t)
  const text = `a${'👍'.repeat(100_000)}`
  say({ text })
  const { deltas } = read()
  pass(1000)
  assert.equal(shown(deltas), text)
  for (const delta of deltas) assert.ok(delta.text.length <= 65_536 && delta.text.isWellFormed())
})

test('drafts take no more memory than their limit', (t) => {
  const { say, pass, read } = open(t, 10)
  const { deltas } = read()
  say({ text: '0123456789' })
  pass(60)
  say({ from: 10, text: 'x' })
  pass(60)
  assert.equal(shown(deltas), '0123456789')
  say({ from: 10, state: 'dropped' })
  say({ turn: 'other', text: 'next' })
  pass(60)
  assert.equal(deltas.at(-1)?.text, 'next')
})

test('a reader who left gets nothing', (t) => {
  const { say, pass, read } = open(t)
  const { deltas, remove } = read()
  remove()
  say({ text: 'x' })
  pass(60)
  assert.deepEqual(deltas, [])
})

test('pieces that are lost, repeated and out of order never show a text that was not written', (t) => {
  const { say, pass, read } = open(t)
  const text = 'äb👍cdefg 🎈 hij'
  const points = [...text]
  let turn = 0
  const piece = fc.tuple(fc.nat(points.length), fc.nat(points.length))
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      turn++
      const { deltas, remove } = read(`round r${turn}`)
      const about = { turn: `r${turn}`, rounds: [`r${turn}`] }
      for (const [from, length] of pieces) {
        say({ ...about, from, text: points.slice(from, from + length).join('') })
        pass(20)
        assert.ok(text.startsWith(shown(deltas)))
      }
      say({ ...about, text, state: 'complete' })
      pass(60)
      if (pieces.length > 0) assert.equal(shown(deltas), text)
      remove()
      say({ ...about, state: 'dropped' })
    }),
  )
})
