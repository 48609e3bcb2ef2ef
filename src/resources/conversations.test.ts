import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, type TestHost, testHost } from '../../test/support/host.ts'
import { conversations, sessionLog } from '../core/turns/conversations.ts'
import { costLog } from '../core/turns/costs.ts'
import { conversationsResource } from './conversations.ts'

const { list, history, reset, fork } = conversationsResource.verbs
const AT = '2026-01-01T00:00:00.000Z'

async function open(t: Parameters<typeof testHost>[0], engine: Parameters<typeof testHost>[1]) {
  const at = await testHost(t, engine)
  await at.groups('team', 'other')
  await at.grant('github:admin', 'admin', 'team')
  const row = { folder: 'team', waiting: 0, observed_seq: 0, updated_at: AT }
  await at.host.engine.transaction(async (tx) => {
    await conversations.insert(tx, { ...row, topic: '', session_id: 's-1', turn_id: 'turn-2' })
    await conversations.insert(tx, { ...row, topic: 'plans', waiting: 2 })
    await conversations.insert(tx, { ...row, folder: 'other', topic: 'secret' })
    const event = { folder: 'team', topic: '', event: 'turn', message_count: 1, started_at: AT, ended_at: AT } as const
    await sessionLog.append(tx, { ...event, turn_id: 'turn-1', result: 'an answer' })
    await sessionLog.append(tx, { ...event, turn_id: 'turn-2', error: 'failed' })
    const cost = { folder: 'team', turn_id: 'turn-1', input_tokens: 10, output_tokens: 2, recorded_at: AT }
    await costLog.insert(tx, { ...cost, model: 'a', cost_cents: 3 })
    await costLog.insert(tx, { ...cost, model: 'b', cost_cents: 4 })
  })
  return { at, admin: at.as({ kind: 'person', sub: 'github:admin', session: 'a-session' }, 'dash') }
}

const sessionOf = ({ host }: TestHost, topic: string) =>
  host.engine.read((tx) => conversations.find(tx, { folder: 'team', topic }))

onEveryEngine('topics of a folder', (engine) => {
  test('lists topics by page, with their state', async (t) => {
    const { admin } = await open(t, engine)
    const first = await admin.call(list, { folder: 'team', limit: 1 })
    assert.deepEqual(first.topics, [
      { topic: '', label: '', is_visitor: false, waiting: 0, has_session: true, updated_at: AT, turn_id: 'turn-2' },
    ])
    const { topics, next } = await admin.call(list, { folder: 'team', limit: 5, after: first.next })
    assert.deepEqual([topics.map(({ topic, waiting }) => [topic, waiting]), next], [[['plans', 2]], undefined])
    await assert.rejects(admin.call(list, { folder: 'other' }), isRefusal('forbidden'))
  })

  test('shows the turns of a topic with tokens and cost, without their texts', async (t) => {
    const { admin } = await open(t, engine)
    const { events, next } = await admin.call(history, { folder: 'team', topic: '', limit: 1 })
    assert.deepEqual([events[0]?.turn_id, events[0]?.error, events[0]?.cost_cents], ['turn-2', 'failed', undefined])
    const older = await admin.call(history, { folder: 'team', topic: '', after: next })
    const [event] = older.events
    assert.deepEqual([event?.turn_id, event?.input_tokens, event?.cost_cents], ['turn-1', 20, 7])
    assert.ok(!JSON.stringify(older).includes('an answer'))
    await assert.rejects(admin.call(history, { folder: 'other', topic: 'secret' }), isRefusal('forbidden'))
  })

  test('resets the session of one topic, also of its running turn, or of all topics', async (t) => {
    const { at, admin } = await open(t, engine)
    assert.deepEqual(await admin.call(reset, { folder: 'team', topic: '' }), { reset: 1 })
    const { session_id, reset_turn } = (await sessionOf(at, '')) ?? {}
    assert.deepEqual([session_id, reset_turn], [undefined, 'turn-2'])
    assert.deepEqual(await admin.call(reset, { folder: 'team' }), { reset: 2 })
    await assert.rejects(admin.call(reset, { folder: 'team', topic: 'none' }), isRefusal('not_found', '"none"'))
    await assert.rejects(admin.call(reset, { folder: 'other' }), isRefusal('forbidden'))
  })

  test('forks a topic into a new one', async (t) => {
    const { at, admin } = await open(t, engine)
    await admin.call(fork, { folder: 'team', parent: '', child: 'copy' })
    assert.equal((await sessionOf(at, 'copy'))?.parent_session, 's-1')
    await assert.rejects(
      admin.call(fork, { folder: 'team', parent: '', child: 'plans' }),
      isRefusal('conflict', 'plans'),
    )
    await assert.rejects(admin.call(fork, { folder: 'other', parent: '', child: 'x' }), isRefusal('forbidden'))
  })
})
