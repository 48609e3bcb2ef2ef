import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { fakeClock } from '../../../test/support/clock.ts'
import { runs } from '../../../test/support/part.ts'
import type { ActivityPiece, CallNote } from '../../core/turns/drafts.ts'
import { Signals } from '../../lib/commit-signals.ts'
import { FaultBoundary } from '../../lib/fault-boundary.ts'
import { MetricRegistry } from '../../lib/log/metric-registry.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { TurnActivities } from '../process/turn-activities.ts'
import { ActivityStreams } from './activity-streams.ts'

const FIRST: ActivityPiece = {
  ...{ turn: 't', fence: 1, jid: 'web:main', topic: '', folder: 'main', rounds: ['t', 'u'] },
  ...{ n: 1, doing: '', calls: [], running: [], isOver: false },
}

const call = (n: number, state: CallNote['state'] = 'running'): CallNote => ({
  ...{ n, tool: 'find_messages', args: '{"query":"x"}', at: 0, state },
  ...(state === 'running' ? {} : { ms: 5 }),
})

interface Activity {
  readonly turn_id: string
  readonly text: string
  readonly detail?: readonly { readonly n: number; readonly state: string }[]
}

function open(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const thrown: unknown[] = []
  const faults = new FaultBoundary(new MetricRegistry(), (error) => thrown.push(error))
  const clock = fakeClock()
  const drafts: InstanceHost['drafts'] = new Signals((error) => thrown.push(error))
  const activities = new TurnActivities({ drafts, faults }, clock)
  const streams = new ActivityStreams(activities, faults, clock)
  let n = 0
  t.after(() => {
    streams.close()
    assert.deepEqual(thrown, [])
  })
  return {
    activities,
    say: (piece: Partial<ActivityPiece>) => drafts.emit({ ...FIRST, n: ++n, ...piece }, false),
    pass: (ms: number) => {
      for (let passed = 0; passed < ms; passed += 10) {
        clock.advance(10)
        t.mock.timers.tick(10)
      }
    },
    read: (
      feed = 'chat web:main',
      { canWrite = (): boolean => true, accepts = (): boolean => true, detailsOf = '' } = {},
    ) => {
      const events: Activity[] = []
      const write = (bytes: Uint8Array): boolean => {
        if (!canWrite()) return false
        const [, data = ''] = /^event: activity\ndata: (.*)\n\n$/.exec(Buffer.from(bytes).toString()) ?? []
        events.push(JSON.parse(data))
        return true
      }
      const remove = streams.add({ feed, accepts, write, detailsOf })
      return { events, remove, texts: () => events.map(({ text }) => text) }
    },
  }
}

test('readers see what is done, at most 20 times a second, and when nothing is', (t) => {
  const { say, pass, read } = open(t)
  const { events, texts } = read()
  for (let at = 0; at < 100; at++) {
    say({ doing: `step ${at}` })
    pass(10)
  }
  say({})
  pass(60)
  assert.ok(events.length >= 19 && events.length <= 22, `${events.length}`)
  assert.deepEqual(events[0], { turn_id: 't', text: 'step 0' })
  assert.equal(texts().at(-1), '')
  const before = events.length
  say({})
  say({ isOver: true })
  pass(60)
  assert.equal(events.length, before)
})

test('a reader who joins gets what is done now, and a round has its own id', (t) => {
  const { say, pass, read } = open(t)
  say({ doing: 'Reading a file' })
  pass(60)
  const readers = ['chat web:main', 'round u', 'round v', 'chat web:other'].map((feed) => read(feed))
  assert.deepEqual(
    readers.map(({ events }) => events),
    [[{ turn_id: 't', text: 'Reading a file' }], [{ turn_id: 'u', text: 'Reading a file' }], [], []],
  )
  say({ isOver: true })
  pass(60)
  assert.deepEqual(readers[1]?.texts(), ['Reading a file', ''])
  assert.deepEqual(read().events, [])
})

test('only a reader of the calls of this folder gets details, and none of a turn elsewhere', (t) => {
  const { say, pass, read } = open(t)
  const [visitor, admin] = [read(), read(undefined, { detailsOf: 'main' })]
  say({ doing: 'Searching messages', calls: [call(1)], running: [1] })
  pass(60)
  say({ calls: [call(1, 'ok')] })
  pass(60)
  say({ turn: 'other', folder: 'main/child', doing: 'Working', calls: [call(1)], running: [1] })
  pass(60)
  assert.deepEqual(
    visitor.events.map(({ detail }) => detail),
    [undefined, undefined, undefined],
  )
  assert.doesNotMatch(JSON.stringify(visitor.events), /find_messages|query/)
  const detail = { n: 1, tool: 'find_messages', arguments: '{"query":"x"}' }
  assert.deepEqual(admin.events, [
    { turn_id: 't', text: 'Searching messages', detail: [{ ...detail, state: 'running' }] },
    { turn_id: 't', text: '', detail: [{ ...detail, state: 'ok', ms: 5 }] },
    { turn_id: 't', text: 'Working' },
  ])
})

test('a reader gets nothing of turns that it does not accept, nor of turns that answer no round', (t) => {
  const { say, pass, read } = open(t)
  const none = read(undefined, { accepts: () => false })
  const { events } = read()
  say({ turn: 'task', rounds: [], doing: 'Working' })
  pass(60)
  assert.deepEqual(events, [])
  say({ doing: 'Working' })
  pass(60)
  assert.deepEqual([events.length, none.events.length], [1, 0])
})

test('a slow reader gets only the latest', (t) => {
  const { say, pass, read } = open(t)
  let isSlow = true
  const { texts } = read(undefined, { canWrite: () => !isSlow })
  for (const doing of ['one', 'two']) {
    say({ doing })
    pass(100)
  }
  isSlow = false
  pass(60)
  assert.deepEqual(texts(), ['two'])
  isSlow = true
  say({ isOver: true })
  pass(100)
  isSlow = false
  pass(60)
  assert.deepEqual(texts(), ['two', ''])
})

test('a turn without a sign of life for 3 s does nothing, and a call whose end was lost has ended', (t) => {
  const { activities, say, pass, read } = open(t)
  const { texts } = read()
  say({ doing: 'Working', calls: [call(1), call(2)], running: [1, 2] })
  say({ doing: 'Working', calls: [call(2, 'failed')], running: [] })
  assert.deepEqual(
    activities.get('t')?.calls.map(({ state }) => state),
    ['ended', 'failed'],
  )
  pass(3000)
  assert.equal(texts().at(-1), 'Working')
  pass(1100)
  assert.equal(texts().at(-1), '')
  assert.equal(activities.get('t'), undefined)
})

test('the next try of a turn replaces the one before, and late pieces are ignored', (t) => {
  const { activities, say, pass, read } = open(t)
  const { texts } = read()
  say({ doing: 'Working', calls: [call(1)], running: [1] })
  say({ fence: 2, n: 1, doing: 'Reading a file' })
  say({ doing: 'late', n: 99 })
  pass(60)
  assert.deepEqual([texts(), activities.get('t')?.calls], [['Reading a file'], []])
})

test('pieces that are lost, repeated and out of order never leave a phrase behind', (t) => {
  const { say, pass, read } = open(t)
  const piece = fc.record({
    n: fc.nat(20),
    fence: fc.nat(2),
    doing: fc.constantFrom('', 'a', 'b'),
    isOver: fc.boolean(),
  })
  let turn = 0
  fc.assert(
    fc.property(fc.array(fc.tuple(piece, fc.constantFrom(0, 20, 1000)), { maxLength: 20 }), (pieces) => {
      const id = `r${++turn}`
      const { events, remove } = read(`round ${id}`)
      for (const [each, ms] of pieces) {
        say({ ...each, turn: id, rounds: [id], calls: [call(1)], running: [1] })
        pass(ms)
      }
      pass(4200)
      assert.equal(events.at(-1)?.text ?? '', '')
      remove()
    }),
    { numRuns: runs(50, 500) },
  )
})
