import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openConversationHost } from '../../test/support/conversation-host.ts'
import { isRefusal, onEveryEngine } from '../../test/support/host.ts'
import type { Caller } from '../core/access/caller.ts'
import { costLog } from '../core/turns/costs.ts'
import { audit } from '../registry/audit.ts'
import { turnsResource } from './turns.ts'

const { list, show, running, stop, ids } = turnsResource.verbs
const withSession = (sub: string): Caller => ({ kind: 'person', sub, session: 'a-session' })

onEveryEngine('turns', (engine) => {
  test('are listed newest first, by folder, state and outcome, page by page', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main', 'team', 'team/sub')
    const made: string[] = []
    for (const [folder, outcome] of [
      ['main', 'answered'],
      ['team', 'failed'],
      ['team/sub', 'silent'],
      ['team', 'answered'],
    ] as const) {
      on.clock.advance(10)
      made.push(await on.ask(`for ${folder}`, { folder }))
      await on.end((await on.mustClaim()).turn, { outcome })
    }
    on.clock.advance(10)
    made.push(await on.ask('now', { folder: 'main' }))
    await on.mustClaim()
    const newest = made.toReversed()
    const idsOf = async (input: object, caller = on.cli) => (await caller.call(list, input)).turns.map(({ id }) => id)
    assert.deepEqual(await idsOf({}), newest)
    assert.deepEqual(await idsOf({ state: 'running' }), [made[4]])
    assert.deepEqual(await idsOf({ state: 'done' }), newest.slice(1))
    assert.deepEqual(await idsOf({ folder: 'team' }), [made[3], made[1]])
    assert.deepEqual(await idsOf({ outcome: 'failed' }), [made[1]])
    assert.deepEqual(await idsOf({ folder: 'team', outcome: 'failed' }), [made[1]])
    assert.deepEqual(await idsOf({ outcome: 'answered' }), [made[3], made[0]])
    const first = await on.cli.call(list, { limit: 3 })
    assert.deepEqual(await idsOf({ limit: 3, after: first.next }), newest.slice(3))
    await on.grant('github:admin', 'admin', 'team/**')
    const admin = on.as(withSession('github:admin'), 'dash')
    assert.deepEqual(await idsOf({}, admin), [made[3], made[2], made[1]])
    assert.deepEqual(await idsOf({ limit: 1 }, admin), [made[3]])
    await assert.rejects(idsOf({ folder: 'main' }, admin), isRefusal('forbidden'))
    assert.deepEqual(await idsOf({}, on.as(withSession('github:x'), 'dash')), [])
    assert.deepEqual((await on.cli.call(ids, { prefix: String(made[0]).slice(0, 13) })).ids[0], made[0])
  })

  test('show their messages, calls, answers and costs', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const id = await on.ask('why <b>?')
    const { turn } = await on.mustClaim()
    await on.say(turn, 'because')
    const call = {
      created_at: turn.started_at,
      category: 'mutation',
      action: 'tools.send',
      actor: 'folder:main',
    } as const
    await on.write(async (tx) => {
      await audit.append(tx, {
        ...{ ...call, resource: 'tools', key: '', surface: 'tool', params_summary: '{"n":1}', outcome: 'ok' },
        ...{ duration_ms: 3, instance: 'test', turn_id: id },
      })
      await costLog.insert(tx, {
        ...{ folder: 'main', turn_id: id, model: 'm', input_tokens: 1, output_tokens: 2, cost_cents: 7 },
        recorded_at: turn.started_at,
      })
    })
    await on.end(turn)
    const found = await on.cli.call(show, { id })
    assert.deepEqual(
      found.messages.map(({ id, text, state }) => [id, text, state]),
      [[id, 'why <b>?', 'answered']],
    )
    assert.deepEqual(
      found.calls.map(({ action, params_summary }) => [action, params_summary]),
      [['tools.send', '{"n":1}']],
    )
    assert.deepEqual(
      found.answers.map(({ text, state }) => [text, state]),
      [['because', 'sent']],
    )
    assert.equal(found.costs[0]?.cost_cents, 7)
    const [summary] = (await on.cli.call(list, {})).turns
    assert.deepEqual([summary?.text, summary?.cost_cents, summary?.replies], ['why <b>?', 7, 1])
    const stopped = await on.ask('and?')
    await on.end((await on.mustClaim()).turn, { outcome: 'failed', failure: 'stopped', partial: 'Becau' })
    assert.deepEqual(
      (await on.cli.call(show, { id: stopped })).answers.map(({ kind, text }) => [kind, text]),
      [['partial', 'Becau']],
    )
    await assert.rejects(on.cli.call(show, { id: 'none' }), isRefusal('not_found', 'there is no turn with id none'))
  })

  test('show their current step, and stop', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main', 'team')
    const id = await on.ask('why?')
    assert.deepEqual((await on.cli.call(running, {})).turns, [])
    const { turn } = await on.mustClaim()
    const step = async () => (await on.cli.call(running, {})).turns[0]?.step
    assert.deepEqual(await step(), { kind: 'started', text: '', since: turn.started_at })
    on.clock.advance(1000)
    await on.say(turn, 'reading', { kind: 'status' })
    assert.deepEqual(await step(), { kind: 'status', text: 'reading', since: '2026-01-01T00:00:01.000Z' })
    on.clock.advance(1000)
    const call = { created_at: '2026-01-01T00:00:02.000Z', category: 'mutation', action: 'routes.create' } as const
    await on.write((tx) =>
      audit.append(tx, {
        ...{ ...call, actor: 'folder:main', resource: 'routes', key: '', surface: 'tool', params_summary: '{}' },
        ...{ outcome: 'ok', duration_ms: 3, instance: 'test', turn_id: id },
      }),
    )
    assert.deepEqual(await step(), { kind: 'call', text: 'routes.create', since: '2026-01-01T00:00:02.000Z' })
    await on.grant('github:other', 'admin', 'team')
    const other = on.as(withSession('github:other'), 'dash')
    assert.deepEqual((await other.call(running, {})).turns, [])
    await assert.rejects(other.call(stop, { id }), isRefusal('forbidden'))
    await assert.rejects(other.call(stop, { id: 'none' }), isRefusal('forbidden'))
    const signals: (readonly string[])[] = []
    on.host.signals.on((_keys, work) => void signals.push(work))
    await on.cli.call(stop, { id })
    assert.deepEqual([(await on.turn(id)).is_stopping, signals], [true, [['turns']]])
    await on.end(turn, { outcome: 'failed' })
    await assert.rejects(on.cli.call(stop, { id }), isRefusal('conflict', `turn ${id} has ended: failed`))
    await assert.rejects(on.cli.call(stop, { id: 'none' }), isRefusal('not_found'))
  })
})
