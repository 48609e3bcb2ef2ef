import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { fakeClock } from '../../../test/support/clock.ts'
import { type ActivityPiece, CALL_ARGS_MAX, isActivity, LivePiece, RUNNING_CALLS_MAX } from '../../core/turns/drafts.ts'
import type { ClaimedTurn } from '../../core/turns/turn-claim.ts'
import { Signals } from '../../lib/commit-signals.ts'
import { FaultBoundary } from '../../lib/fault-boundary.ts'
import { MetricRegistry } from '../../lib/log/metric-registry.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { ActivityWriter } from './activity-writer.ts'

/** A notification of PostgreSQL has less than 8000 bytes. */
const NOTIFICATION_MAX = 7500

function open(t: TestContext, { rounds = ['t'], is_isolated = false } = {}) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const clock = fakeClock(0)
  const faults = new FaultBoundary(new MetricRegistry(), (error) => assert.fail(String(error)))
  const drafts: InstanceHost['drafts'] = new Signals((error) => assert.fail(String(error)))
  const pieces: ActivityPiece[] = []
  drafts.on((piece) => isActivity(piece) && pieces.push(piece))
  const turn = { id: 't', fence: 3, jid: 'web:main', chat_topic: 'news', folder: 'main', is_isolated }
  const messages = rounds.map((id) => ({ message: { id, turn_id: id } }))
  const writer = new ActivityWriter({ drafts, faults, clock }, { turn, messages } as unknown as ClaimedTurn, clock)
  t.after(() => writer.end())
  const pass = (ms: number): void => {
    for (let passed = 0; passed < ms; passed += 10) {
      clock.advance(10)
      t.mock.timers.tick(10)
    }
  }
  const start = (tool: string, phrase?: string) => writer.start({ tool, phrase, args: { a: 1, password: 'p' } })
  return { writer, pieces, pass, start, doing: () => pieces.map(({ doing }) => doing) }
}

test('a call is published with its phrase when it starts, and again when it has ended', (t) => {
  const { pieces, pass, start } = open(t)
  const end = start('find_messages', 'Searching messages')
  pass(100)
  end(true)
  pass(100)
  const [first, second] = pieces
  assert.deepEqual(first, {
    ...{ turn: 't', fence: 3, jid: 'web:main', topic: 'news', folder: 'main', rounds: ['t'] },
    ...{ n: 1, doing: 'Searching messages', running: [1], isOver: false },
    calls: [
      {
        n: 1,
        tool: 'find_messages',
        args: '{"a":1,"password":"<redacted:1 chars>"}',
        at: first?.calls[0]?.at,
        state: 'running',
      },
    ],
  })
  assert.deepEqual([second?.running, second?.calls[0]?.state, second?.calls[0]?.ms], [[], 'failed', 100])
})

test('a phrase stays for a second, or until the agent writes', (t) => {
  const { writer, pass, start, doing } = open(t)
  start('reply', 'Sending a message')(false)
  pass(900)
  assert.equal(doing().at(-1), 'Sending a message')
  pass(200)
  assert.equal(doing().at(-1), '')
  start('reply', 'Sending a message')(false)
  pass(100)
  const written: string[] = []
  const draft = writer.watch({ add: (text) => written.push(text), restart: () => undefined })
  draft.add('Hello')
  pass(60)
  assert.deepEqual([doing().at(-1), written], ['', ['Hello']])
  // A call that runs on stays below the text.
  start('Bash', 'Running a command')
  draft.add(' again')
  pass(60)
  assert.equal(doing().at(-1), 'Running a command')
})

test('the phrase is that of the latest call that runs, and a tool without one is Working', (t) => {
  const { pass, start, doing } = open(t)
  const endFirst = start('Read', 'Reading a file')
  const endSecond = start('unknown')
  pass(60)
  assert.equal(doing().at(-1), 'Working')
  endSecond(false)
  pass(60)
  assert.equal(doing().at(-1), 'Reading a file')
  endFirst(false)
  endFirst(false)
  pass(1100)
  assert.equal(doing().at(-1), '')
})

test('at most 20 pieces a second are published, however many calls there are', (t) => {
  const { pieces, pass, start } = open(t)
  for (let at = 0; at < 100; at++) {
    for (let calls = 0; calls < 20; calls++) start('send')(false)
    pass(10)
  }
  assert.ok(pieces.length >= 19 && pieces.length <= 22, `${pieces.length}`)
})

test('a sign of life has the whole state, every second until the end', (t) => {
  const { writer, pieces, pass, start } = open(t)
  start('Bash', 'Running a command')
  pass(60)
  const before = pieces.length
  pass(3000)
  assert.equal(pieces.length - before, 3)
  for (const { doing, running, calls } of pieces)
    assert.deepEqual([doing, running, calls.length], ['Running a command', [1], 1])
  writer.end()
  writer.end()
  start('Bash')(false)
  pass(3000)
  assert.deepEqual(
    pieces.slice(before + 3).map(({ doing, running, isOver }) => [doing, running, isOver]),
    [['', [], true]],
  )
})

test('a run without calls publishes nothing', (t) => {
  const { writer, pieces, pass } = open(t)
  writer.watch({ add: () => {}, restart: () => {} }).add('Hello')
  pass(2000)
  writer.end()
  assert.deepEqual(pieces, [])
})

test('a turn that is isolated shows its calls to no reader of a chat', (t) => {
  const { pieces, pass, start } = open(t, { is_isolated: true })
  start('send')
  pass(60)
  assert.deepEqual(
    pieces.map(({ rounds }) => rounds),
    [[]],
  )
})

test('the largest piece fits into a notification, and calls beyond the limit are not shown', (t) => {
  const { writer, pieces, pass } = open(t, { rounds: Array.from({ length: 60 }, () => 'x'.repeat(36)) })
  for (let at = 0; at <= RUNNING_CALLS_MAX; at++)
    writer.start({ tool: 'x'.repeat(200), phrase: 'y'.repeat(80), args: { a: '界'.repeat(190), b: '界'.repeat(190) } })
  pass(60)
  const piece = pieces[0] ?? assert.fail('nothing was published')
  assert.equal(piece.running.length, RUNNING_CALLS_MAX)
  for (const { args } of piece.calls) assert.equal(args.length, CALL_ARGS_MAX)
  assert.deepEqual(LivePiece.parse(JSON.parse(JSON.stringify(piece))), piece)
  assert.ok(Buffer.byteLength(JSON.stringify(piece)) < NOTIFICATION_MAX, `${Buffer.byteLength(JSON.stringify(piece))}`)
})
