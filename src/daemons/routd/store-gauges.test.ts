import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { recordOutbound } from '../../core/delivery/outbox.ts'
import { recordInbound } from '../../core/messages/inbound.ts'
import { sessions } from '../../core/people/sessions.ts'
import { scheduledTasks } from '../../core/schedule/tasks.ts'
import { folderTurns } from '../../core/turns/conversations.ts'
import { writeContextOf } from '../../core/turns/rounds.ts'
import { timestamp } from '../../lib/clock.ts'
import { BACKUP_AGE, COUNT_MAX, storeGauges } from './store-gauges.ts'

onEveryEngine('gauges of the store', (engine) => {
  test('are 0 in an empty store, but for its size', async (t) => {
    const { host } = await openConversationHost(t, engine)
    const readings = await storeGauges(host)()
    for (const { gauge, value } of readings) if (!gauge.name.startsWith('svc_store')) assert.equal(value, 0, gauge.name)
  })

  test('count what waits in each queue, and the age of the oldest', async (t) => {
    const here = await openConversationHost(t, engine)
    const { host, clock } = here
    await here.groups('main', 'team')
    const context = writeContextOf(host)
    const unrouted = { jid: 'telegram:group/1', sender: 'telegram:user/1', content: 'hm', reach: 'all' as const }
    const read = async () => {
      const readings = await storeGauges(host)()
      return new Map(
        readings.map(({ gauge, labels, value }) => [[gauge.name, ...Object.values(labels)].join(' '), value]),
      )
    }
    await here.ask('one', { folder: 'main' })
    const { turn } = await here.mustClaim()
    clock.advance(60_000)
    await here.ask('waits for the end of the turn', { folder: 'main' })
    clock.advance(10_000)
    await here.ask('waits', { folder: 'team' })
    await here.write((tx) =>
      recordOutbound(tx, context, host.rules, { jid: 'telegram:group/1', topic: '', content: 'out', engages: false }),
    )
    clock.advance(5000)
    await here.write((tx) => recordInbound(tx, context, unrouted))
    await here.write((tx) => recordInbound(tx, context, unrouted))
    clock.advance(1000)
    const now = clock.now()
    await here.write(async (tx) => {
      const task = { owner: 'main', chat_jid: 'web:main', prompt: 'go', context_mode: 'group' as const }
      const created_at = timestamp(now)
      const tasks = [
        { id: 'task-1', next_run: timestamp(now - 60_001), status: 'active' as const },
        { id: 'task-2', next_run: timestamp(now - 60_000), status: 'active' as const },
        { id: 'task-3', next_run: timestamp(now - 600_000), status: 'paused' as const },
      ]
      for (const each of tasks) await scheduledTasks.insert(tx, { ...task, ...each, created_at })
      await folderTurns.update(tx, { folder: 'main' }, { failures: 3, open_until: now + 1000 })
      const session = { sub: 'github:1', scope: '', rotations: 0, kind: 'browser' as const, method: 'link', idle_ms: 1 }
      const times = { started_at: created_at, renewed_at: created_at, ends_at: timestamp(now + 9) }
      for (const [family_id, expires, status] of [
        ['a', now + 1, 'active'],
        ['b', now, 'active'],
        ['c', now + 1, 'revoked'],
      ] as const)
        await sessions.insert(tx, { ...session, ...times, family_id, expires_at: timestamp(expires), status })
    })
    const found = await read()
    const expected = {
      'svc_queue_messages routing': 2,
      'svc_queue_oldest_seconds routing': 1,
      'svc_queue_messages turns': 2,
      'svc_queue_oldest_seconds turns': 16,
      'svc_queue_messages outbox': 1,
      'svc_queue_oldest_seconds outbox': 6,
      svc_conversations_waiting: 1,
      'svc_turns_open running': 1,
      'svc_turns_open retrying': 0,
      svc_folders_paused: 1,
      svc_tasks_overdue: 1,
      svc_sessions_active: 1,
    }
    for (const [name, value] of Object.entries(expected)) assert.equal(found.get(name), value, name)
    await here.end(turn)
    assert.equal((await read()).get('svc_turns_open running'), 0)
  })
})

test('the age of the last backup appears with the first, and a damaged mark is none', async (t) => {
  const { host, clock } = await openConversationHost(t, 'sqlite')
  const mark = host.layout?.lastBackup ?? assert.fail()
  mkdirSync(dirname(mark), { recursive: true })
  const age = async () => (await storeGauges(host)()).find(({ gauge }) => gauge === BACKUP_AGE)?.value
  assert.equal(await age(), undefined)
  writeFileSync(mark, `${timestamp(clock.now() - 90_000)}\n`)
  assert.equal(await age(), 90)
  writeFileSync(mark, 'x'.repeat(1000))
  assert.equal(await age(), undefined)
})

test('scrapes within five seconds share a reading', async (t) => {
  const { host } = await openConversationHost(t, 'sqlite')
  const source = storeGauges(host)
  assert.equal(source(), source())
})

test('gauges of the store stop counting a long queue', async (t) => {
  const here = await openConversationHost(t, 'sqlite')
  await here.groups('main')
  const inbound = { jid: 'telegram:group/1', sender: 'telegram:user/1', content: 'hm', reach: 'all' as const }
  await here.write(async (tx) => {
    for (let n = 0; n <= COUNT_MAX; n++) await recordInbound(tx, writeContextOf(here.host), inbound)
  })
  const readings = await storeGauges(here.host)()
  const routing = readings.find(
    ({ gauge, labels }) => gauge.name === 'svc_queue_messages' && labels.queue === 'routing',
  )
  assert.equal(routing?.value, COUNT_MAX)
})
