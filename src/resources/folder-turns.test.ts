import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openConversationHost } from '../../test/support/conversation-host.ts'
import { onEveryEngine, testHost } from '../../test/support/host.ts'
import { holdForApproval } from '../core/access/approvals.ts'
import type { Caller } from '../core/access/caller.ts'
import { recordDenials } from '../core/access/network-denials.ts'
import { channelRegistrations } from '../core/delivery/channel-registrations.ts'
import { outbox } from '../core/delivery/outbox.ts'
import { lockMessageOrder } from '../core/messages/messages.ts'
import { onboarding } from '../core/people/onboarding.ts'
import { scheduledTasks, taskRunLogs } from '../core/schedule/tasks.ts'
import { folderTurns } from '../core/turns/conversations.ts'
import { costLog } from '../core/turns/costs.ts'
import { percentile } from '../core/turns/day-activity.ts'
import { findRound, writeContextOf } from '../core/turns/rounds.ts'
import { stopRound } from '../core/turns/stop-round.ts'
import { STOPPED_REASON } from '../core/turns/turn-failures.ts'
import { timestamp } from '../lib/clock.ts'
import { folderTurnsResource } from './folder-turns.ts'
import { groupsResource } from './groups.ts'
import { networkRulesResource } from './network-rules.ts'

const { attention, day } = folderTurnsResource.verbs
const withSession = (sub: string): Caller => ({ kind: 'person', sub, session: 'a-session' })
function nameOf(row: { folder?: string | undefined; name?: string; id?: string }): string | undefined {
  return row.name ?? row.folder ?? row.id
}
const HOUR_MS = 3_600_000

test('a percentile is the nearest rank', () => {
  const values = Array.from({ length: 20 }, (_, at) => at + 1)
  assert.deepEqual([percentile(values, 50), percentile(values, 95), percentile([7], 95)], [10, 19, 7])
  assert.equal(percentile([], 50), undefined)
})

onEveryEngine('what needs attention', (engine) => {
  test('is nothing at first', async (t) => {
    const on = await testHost(t, engine)
    const found = await on.cli.call(attention, {})
    assert.deepEqual(Object.values(found).flat(), [])
  })

  test('is not an answer that a person has stopped', async (t) => {
    const on = await openConversationHost(t, engine)
    const { dialect } = on.host.engine
    const waiting = await on.ask('stopped while it waits')
    await on.write(async (tx) => {
      await lockMessageOrder(tx, dialect)
      await stopRound(tx, writeContextOf(on.host), (await findRound(tx, waiting)) ?? assert.fail('no round'))
    })
    for (const reason of [STOPPED_REASON, 'the model is gone']) {
      await on.ask(reason)
      const { turn } = await on.mustClaim()
      await on.end(turn, { outcome: 'failed', reason, publicReason: 'no', failure: 'stopped' })
    }
    const { failed_messages } = await on.cli.call(attention, {})
    assert.deepEqual(
      failed_messages.map(({ text }) => text),
      ['the model is gone'],
    )
  })

  test('is listed for operators, and for administrators only of their folders', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main', 'team', 'team/sub')
    await on.grant('github:admin', 'admin', 'team/**')
    const now = '2026-01-01T00:00:00.000Z'
    for (const folder of ['main', 'team', 'team/sub']) {
      const id = await on.ask(`to ${folder}`, { folder })
      const { turn } = await on.mustClaim()
      const { seq } = await on.say(turn, `reply of ${folder}`)
      await on.end(turn, { outcome: 'failed', reason: `broken ${folder}` })
      await on.cli.call(groupsResource.verbs.set_budget, { folder, daily: 10 })
      await on.write(async (tx) => {
        await outbox.update(tx, { message_seq: seq }, { state: 'failed', error: 'no room' })
        const call = { folder, tool: 'send', args_hash: folder, summary: '{}' }
        await holdForApproval(tx, on.host, call)
        await recordDenials(tx, [
          { folder, host: 'api.example', port: 443, reason: 'blocked-by-allowlist', count: 2, at: now },
          { folder, host: 'api.example', port: 80, reason: 'blocked-by-allowlist', count: 1, at: now },
          { folder, host: '10.0.0.1', port: 80, reason: 'ip-literal', count: 1, at: now },
        ])
        await costLog.insert(tx, {
          ...{ folder, turn_id: id, model: 'm', input_tokens: 0, output_tokens: 0, cost_cents: 9, recorded_at: now },
        })
        const task = {
          owner: folder,
          chat_jid: folder,
          prompt: 'check',
          status: 'active',
          context_mode: 'group',
        } as const
        const next_run = '2025-12-31T00:00:00.000Z'
        await scheduledTasks.insert(tx, { ...task, id: `task of ${folder}`, next_run, created_at: now })
        const due = timestamp(on.clock.now() - 59_000)
        await scheduledTasks.insert(tx, { ...task, id: `due task of ${folder}`, next_run: due, created_at: now })
        const run = { task_id: `task of ${folder}`, run_at: now, duration_ms: 1, error: 'no' }
        await taskRunLogs.insert(tx, { ...run, id: `run of ${folder}`, status: 'error' })
        await taskRunLogs.insert(tx, { ...run, id: `good run of ${folder}`, status: 'success' })
        await folderTurns.update(tx, { folder }, { failures: 3, open_until: on.clock.now() + 60_000 })
      })
    }
    await on.write(async (tx) => {
      const request = { status: 'queued', created: now, attempts: 0, queued_at: now } as const
      await onboarding.insert(tx, { ...request, jid: 'telegram:1', user_sub: 'telegram:7', folder: 'new', position: 1 })
      await onboarding.insert(tx, { ...request, jid: 'telegram:2', gate: 'x/**', position: 2 })
      await channelRegistrations.insert(tx, {
        ...{ name: 'teled', url: 'http://127.0.0.1:1', jid_prefixes: ['telegram:'], capabilities: {}, checked_at: 0 },
        ...{ token_hash: Buffer.from('x'), health_fails: 2, registered_at: now, seen_at: now },
      })
    })
    await on.cli.call(networkRulesResource.verbs.allow, { folder: 'team/sub', target: 'api.example' })
    const summary = async (caller = on.cli) => {
      const found = await caller.call(attention, {})
      return Object.fromEntries(Object.entries(found).map(([name, rows]) => [name, rows.map(nameOf).toSorted()]))
    }
    const ofFolders = (folders: readonly string[]) => ({
      failed_messages: folders,
      failed_deliveries: folders,
      failed_tasks: folders,
      late_tasks: folders,
      held_calls: folders,
      budgets: folders,
      paused_folders: folders,
      postponed_turns: [],
    })
    assert.deepEqual(await summary(), {
      ...ofFolders(['main', 'team', 'team/sub']),
      denied_hosts: ['main', 'main', 'team', 'team', 'team/sub'],
      admissions: ['new'],
      adapters: ['teled'],
    })
    assert.deepEqual(await summary(on.as(withSession('github:admin'), 'dash')), {
      ...ofFolders(['team', 'team/sub']),
      denied_hosts: ['team', 'team', 'team/sub'],
      admissions: [],
      adapters: [],
    })
    assert.deepEqual(Object.values(await summary(on.as(withSession('github:x'), 'dash'))).flat(), [])
    const { failed_messages, denied_hosts } = await on.cli.call(attention, {})
    const { text, reason } = failed_messages.find(({ folder }) => folder === 'team') ?? {}
    assert.deepEqual([text, reason], ['to team', 'broken team'])
    const { count, unallowable } = denied_hosts.find(({ host }) => host === 'api.example') ?? {}
    assert.deepEqual([count, unallowable], [3, undefined])
    // A day later, only what still waits is listed.
    on.clock.advance(24 * HOUR_MS + 1)
    const later = await on.cli.call(attention, {})
    assert.deepEqual(
      Object.entries(later)
        .filter(([, rows]) => rows.length > 0)
        .map(([name]) => name)
        .toSorted(),
      ['adapters', 'admissions', 'late_tasks'],
    )
  })
})

onEveryEngine('the numbers of a day', (engine) => {
  test('count messages, turns, costs and durations by hour', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main', 'team')
    await on.grant('github:admin', 'admin', 'team')
    const handle = async (folder: string, durationMs: number): Promise<void> => {
      const turn_id = await on.ask('why?', { folder })
      const { turn } = await on.mustClaim()
      on.clock.advance(durationMs)
      await on.submit(folder, {
        turn_id,
        models: [{ model: 'm', input_tokens: 1, output_tokens: 1, cost_cents: 5 }],
      })
      await on.end(turn)
    }
    await handle('main', 100)
    on.clock.advance(HOUR_MS)
    for (const ms of [100, 200, 900]) await handle('team', ms)
    on.clock.advance(HOUR_MS)
    await on.ask('still waiting')
    const { hours } = await on.cli.call(day, {})
    assert.equal(hours.length, 24)
    assert.deepEqual(hours.slice(-3), [
      { hour: '2026-01-01T00:00:00.000Z', messages: 1, turns: 1, cost_cents: 5, p50_ms: 100, p95_ms: 100 },
      { hour: '2026-01-01T01:00:00.000Z', messages: 3, turns: 3, cost_cents: 15, p50_ms: 200, p95_ms: 900 },
      { hour: '2026-01-01T02:00:00.000Z', messages: 1, turns: 0, cost_cents: 0 },
    ])
    assert.ok(hours.slice(0, -3).every(({ messages, turns }) => messages === 0 && turns === 0))
    const own = (await on.as(withSession('github:admin'), 'dash').call(day, {})).hours
    assert.deepEqual(
      own.slice(-3).map(({ messages, turns, cost_cents, p95_ms }) => [messages, turns, cost_cents, p95_ms]),
      [
        [0, 0, 0, undefined],
        [3, 3, 15, 900],
        [0, 0, 0, undefined],
      ],
    )
    const strange = (await on.as(withSession('github:x'), 'dash').call(day, {})).hours
    assert.ok(strange.every(({ messages, turns, cost_cents }) => messages + turns + cost_cents === 0))
  })
})
