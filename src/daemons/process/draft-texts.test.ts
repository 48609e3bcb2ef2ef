import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { fakeClock } from '../../../test/support/clock.ts'
import type { DraftPiece, DraftSignals } from '../../core/turns/drafts.ts'
import { Signals } from '../../lib/commit-signals.ts'
import { FaultBoundary } from '../../lib/fault-boundary.ts'
import { MetricRegistry } from '../../lib/log/metric-registry.ts'
import { SIGN_OF_LIFE_MS } from './draft-relay.ts'
import { DraftTexts, draftTextsOf } from './draft-texts.ts'

const FIRST: DraftPiece = {
  ...{ turn: 't', fence: 1, part: 0, jid: 'web:main', topic: '', folder: 'main', rounds: ['t'] },
  ...{ from: 0, text: '', state: 'open' },
}

function open(t: TestContext, limit = 100) {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const faults = new FaultBoundary(new MetricRegistry(), (error) => assert.fail(String(error)))
  const [drafts, clock]: [DraftSignals, ReturnType<typeof fakeClock>] = [new Signals(), fakeClock()]
  const texts = new DraftTexts({ drafts, faults }, { limit, clock })
  const changes: (readonly [string, string])[] = []
  texts.changes.on(({ text }, state) => changes.push([text, state]))
  return {
    texts,
    changes,
    say: (piece: Partial<DraftPiece>) => drafts.emit({ ...FIRST, ...piece }, false),
    pass: (ms: number) => {
      clock.advance(ms)
      t.mock.timers.tick(ms)
    },
  }
}

test('a draft is the text of its pieces, whatever comes twice, and a sign of life is no change', (t) => {
  const { texts, changes, say } = open(t)
  say({ text: 'a👍' })
  say({ from: 1, text: '👍b' })
  say({ from: 3 })
  say({ from: 5, text: 'after a gap' })
  const { text, points, n } = texts.get('t') ?? {}
  assert.deepEqual([text, points, n], ['a👍b', 3, 4])
  assert.deepEqual(changes, [
    ['a👍', 'open'],
    ['a👍b', 'open'],
  ])
})

test('a draft begins again with the next part, and the next try is another draft', (t) => {
  const { texts, changes, say } = open(t)
  say({ text: 'I look it up' })
  say({ part: 1 })
  say({ text: ' late', from: 12 })
  say({ part: 1, text: 'It is' })
  say({ fence: 2, text: 'It was' })
  say({ part: 2, text: 'late' })
  assert.deepEqual(changes, [
    ['I look it up', 'open'],
    ['', 'open'],
    ['It is', 'open'],
    ['It is', 'dropped'],
    ['It was', 'open'],
  ])
  assert.equal(texts.get('t')?.text, 'It was')
})

test('a draft is gone when it ends, and when its run shows no sign of life for more than three seconds', (t) => {
  const { texts, changes, say, pass } = open(t)
  for (const state of ['stored', 'dropped'] as const) {
    say({ text: 'x' })
    say({ from: 1, state })
    assert.equal(texts.get('t'), undefined)
  }
  say({ text: 'alive' })
  pass(3 * SIGN_OF_LIFE_MS)
  assert.equal(texts.get('t')?.text, 'alive')
  say({ from: 5 })
  pass(3 * SIGN_OF_LIFE_MS)
  assert.equal(texts.get('t')?.text, 'alive')
  pass(SIGN_OF_LIFE_MS)
  assert.equal(texts.get('t'), undefined)
  assert.deepEqual(
    changes.map(([, state]) => state),
    ['open', 'stored', 'open', 'dropped', 'open', 'dropped'],
  )
  // The end of a draft that is not known, as of one before this process started.
  say({ state: 'dropped' })
  assert.equal(changes.length, 6)
})

test('drafts have at most as many characters as allowed, and an end makes room', (t) => {
  const { texts, say } = open(t, 10)
  say({ text: '0123456789' })
  say({ turn: 'u', text: 'x' })
  assert.deepEqual([texts.get('t')?.text, texts.get('u')?.text], ['0123456789', ''])
  say({ from: 10, state: 'stored' })
  say({ turn: 'u', text: 'x' })
  assert.equal(texts.get('u')?.text, 'x')
})

test('all readers of a process share the drafts', () => {
  const faults = new FaultBoundary(new MetricRegistry(), () => undefined)
  const [one, other] = [
    { drafts: new Signals() as DraftSignals, faults },
    { drafts: new Signals() as DraftSignals, faults },
  ]
  assert.equal(draftTextsOf(one), draftTextsOf({ ...one }))
  assert.notEqual(draftTextsOf(one), draftTextsOf(other))
})
