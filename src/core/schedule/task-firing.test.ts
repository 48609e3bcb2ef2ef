import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { type EngineName, onEveryEngineQuickly, type TestHost, testHost } from '../../../test/support/host.ts'
import { timestamp } from '../../lib/clock.ts'
import { groups } from '../groups/groups.ts'
import { envelopes } from '../messages/envelopes.ts'
import { decodeContent, messages } from '../messages/messages.ts'
import { nextRun } from './schedule.ts'
import { dueTasks, type FiringContext, fireDueTasks, nextSlotTime, recordTaskTurn, skipSlot } from './task-firing.ts'
import { expireLeases, leaseDueTasks, taskLeases } from './task-leases.ts'
import { type ScheduledTask, scheduledTasks, taskRunLogs } from './tasks.ts'

const START = Date.UTC(2026, 0, 1)

interface FiringTest extends TestHost {
  firing: FiringContext
  add(task?: Partial<ScheduledTask>): Promise<string>
  task(id: string): Promise<ScheduledTask>
  /** Fires all due tasks and returns the number of slots. */
  fire(): Promise<number>
  /** Slot times of the task's messages, oldest first. */
  fired(): Promise<string[]>
}

async function open(t: TestContext, engine: EngineName = 'sqlite', timeZone = 'UTC'): Promise<FiringTest> {
  const fixture = await testHost(t, engine)
  const { host, clock } = fixture
  await host.engine.transaction((tx) =>
    groups.insert(tx, { folder: 'main', name: 'main', product: 'assistant', open: true, added_at: timestamp(START) }),
  )
  let count = 0
  const firing = { dialect: host.engine.dialect, clock: host.clock, random: host.random, timeZone }
  return {
    ...fixture,
    firing,
    add: async (task = {}) => {
      const id = `task-${++count}`
      const now = timestamp(clock.now())
      const row = {
        id,
        owner: 'main',
        chat_jid: 'main',
        prompt: 'look',
        status: 'active',
        context_mode: 'group',
      } as const
      await host.engine.transaction((tx) =>
        scheduledTasks.insert(tx, { ...row, next_run: now, created_at: now, ...task }),
      )
      return id
    },
    task: async (id) =>
      (await host.engine.read((tx) => scheduledTasks.find(tx, { id }))) ?? assert.fail(`no task ${id}`),
    fire: async () => (await host.engine.transaction((tx) => fireDueTasks(tx, firing, 100))).count,
    fired: async () => (await host.engine.read((tx) => messages.list(tx))).map(({ created_at }) => created_at),
  }
}

onEveryEngineQuickly('a due task', (engine) => {
  test('is logged with the time its slot was claimed', async (t) => {
    const { add, firing, host, task } = await open(t, engine)
    const id = await add({ cron: '1000', next_run: timestamp(START) })
    let now = START
    const slow = { now: () => (now += 700) }
    await host.engine.transaction((tx) => fireDueTasks(tx, { ...firing, clock: slow }, 1))
    const [log] = await host.engine.read((tx) => taskRunLogs.list(tx))
    assert.equal((await task(id)).next_run, nextRun('1000', Date.parse(log?.run_at ?? ''), 'UTC', START))
  })

  test('posts to its topic, or to the main one', async (t) => {
    const { add, fire, host } = await open(t, engine)
    await add({ chat_jid: 'web:main', topic: 'bills' })
    await add({ chat_jid: 'web:main', topic: 'bills', context_mode: 'isolated' })
    await add({ chat_jid: 'web:main' })
    assert.equal(await fire(), 3)
    const recorded = await host.engine.read((tx) => messages.list(tx))
    assert.deepEqual(recorded.map(({ topic }) => topic).sort(), ['bills', 'bills', undefined])
  })

  test('posts its prompt once to its chat and folder, with the sender timed', async (t) => {
    const { add, fire, host, task } = await open(t, engine)
    const id = await add({ chat_jid: 'telegram:1', prompt: 'water the plants', cron: '0 * * * *' })
    assert.deepEqual([await fire(), await fire()], [1, 0])
    const [message, ...more] = await host.engine.read((tx) => messages.list(tx))
    assert.ok(message && more.length === 0)
    assert.deepEqual(
      [message.jid, message.target_folder, message.sender, message.direction, decodeContent(message.content)],
      ['telegram:1', 'main', 'timed', 'in', 'water the plants'],
    )
    const envelope = await host.engine.read((tx) => envelopes.find(tx, { message_seq: message.seq }))
    assert.deepEqual(
      [envelope?.verb, envelope?.task_id, envelope?.is_isolated, envelope?.as_folder],
      ['message', id, false, 'main'],
    )
    const { status, next_run } = await task(id)
    assert.deepEqual([status, next_run], ['active', '2026-01-01T01:00:00.000Z'])
    const [log] = await host.engine.read((tx) => taskRunLogs.list(tx, { task_id: id }))
    assert.deepEqual(
      [log?.id, log?.status, log?.result, log?.run_at, log?.duration_ms],
      [message.id, 'success', 'enqueued', timestamp(START), 0],
    )
  })

  test('has its own sender if isolated, and posts within the instance for a bare folder', async (t) => {
    const { add, fire, host } = await open(t, engine)
    const id = await add({ context_mode: 'isolated' })
    await fire()
    const [message] = await host.engine.read((tx) => messages.list(tx))
    const [envelope] = await host.engine.read((tx) => envelopes.list(tx))
    assert.deepEqual([message?.jid, message?.sender, envelope?.is_isolated], ['main', `timed-isolated:${id}`, true])
  })

  test('is completed without a next run if it runs once', async (t) => {
    const { add, fire, task, clock } = await open(t, engine)
    const id = await add({ next_run: '1999-12-31T23:59:59.000Z' })
    assert.equal(await fire(), 1)
    assert.deepEqual([(await task(id)).status, (await task(id)).next_run], ['completed', undefined])
    clock.advance(1e9)
    assert.equal(await fire(), 0)
  })

  test('fires once for all missed slots', async (t) => {
    const { add, fire, task, clock } = await open(t, engine)
    const id = await add({ cron: '60000', next_run: timestamp(START) })
    clock.advance(10 * 60_000 + 5)
    assert.deepEqual([await fire(), await fire()], [1, 0])
    assert.equal((await task(id)).next_run, '2026-01-01T00:11:00.000Z')
  })

  test('is found by nextSlotTime, unlike a paused or completed one', async (t) => {
    const { add, host, clock } = await open(t, engine)
    const nextSlot = () => host.engine.read((tx) => nextSlotTime(tx, clock.now()))
    await add({ next_run: '2026-01-01T00:00:05.000Z', status: 'paused' })
    await add({ next_run: undefined, status: 'completed' })
    assert.equal(await nextSlot(), undefined)
    await add({ next_run: '2026-01-01T00:00:09.000Z' })
    await add({ next_run: '2026-01-01T00:00:07.000Z' })
    assert.equal(await nextSlot(), START + 7000)
  })

  test('does not fire while paused, and is paused with a log entry when its group is removed', async (t) => {
    const { add, fire, fired, task, host } = await open(t, engine)
    await add({ status: 'paused' })
    assert.equal(await fire(), 0)
    const orphan = await add({ owner: 'gone', chat_jid: 'gone', cron: '60000' })
    await fire()
    assert.deepEqual([(await task(orphan)).status, await fired()], ['paused', []])
    const [log] = await host.engine.read((tx) => taskRunLogs.list(tx, { task_id: orphan }))
    assert.deepEqual([log?.status, log?.error], ['error', 'there is no group gone'])
    assert.equal(await fire(), 0)
  })

  test('whose schedule can never fire is paused with the reason and does not block others', async (t) => {
    const { add, fire, fired, task } = await open(t, engine)
    const never = await add({ cron: '0 0 31 2 *' })
    await add({ cron: '60000' })
    assert.equal(await fire(), 2)
    assert.deepEqual([(await task(never)).status, (await fired()).length], ['paused', 1])
  })

  test('continues with its next slot after an unexpected error; a one-time task is paused', async (t) => {
    const { add, host, firing, task } = await open(t, engine)
    const [often, once] = [await add({ cron: '60000' }), await add()]
    for (const due of await host.engine.read((tx) => dueTasks(tx, START, 10)))
      await host.engine.transaction((tx) => skipSlot(tx, firing, due, 'it broke'))
    assert.deepEqual([(await task(often)).status, (await task(often)).next_run], ['active', timestamp(START + 60_000)])
    assert.equal((await task(once)).status, 'paused')
    const logs = await host.engine.read((tx) => taskRunLogs.list(tx))
    assert.deepEqual(
      logs.map(({ status, error }) => [status, error]),
      Array(2).fill(['error', 'it broke']),
    )
  })

  test('logs the outcome of its turn', async (t) => {
    const { add, fire, host } = await open(t, engine)
    const id = await add()
    await fire()
    const logs = () => host.engine.read((tx) => taskRunLogs.list(tx, { task_id: id }))
    const [{ id: message = '' } = {}] = await logs()
    const turn = { id: message, task_id: id, started_at: timestamp(START), ended_at: timestamp(START + 1500) }
    await host.engine.transaction((tx) => recordTaskTurn(tx, turn, { outcome: 'silent' }))
    assert.deepEqual(
      (await logs()).map(({ status, result, error, duration_ms }) => [status, result, error, duration_ms]),
      [['success', 'silent', undefined, 1500]],
    )
    await host.engine.transaction((tx) =>
      recordTaskTurn(tx, turn, { outcome: 'failed', reason: 'the model is asleep' }),
    )
    assert.deepEqual(
      (await logs()).map(({ status, result, error }) => [status, result, error]),
      [['error', undefined, 'the model is asleep']],
    )
  })
})

onEveryEngineQuickly('a slot leased by another scheduler', (engine) => {
  const lease = ({ host, clock }: FiringTest) =>
    host.engine.transaction((tx) => leaseDueTasks(tx, { now: clock.now(), forMs: 60_000, limit: 10 }))

  test('is not fired by others until its lease expires, then at the same slot', async (t) => {
    const fixture = await open(t, engine)
    const { add, fire, clock, task, host } = fixture
    const id = await add({ cron: '3600000' })
    assert.deepEqual(
      (await lease(fixture)).map((taken) => taken.id),
      [id],
    )
    assert.deepEqual([(await task(id)).status, await fire(), (await lease(fixture)).length], ['firing', 0, 0])
    clock.advance(60_000)
    assert.equal(await host.engine.read((tx) => nextSlotTime(tx, clock.now())), clock.now())
    assert.equal(await fire(), 1)
    assert.deepEqual([(await task(id)).status, (await task(id)).next_run], ['active', timestamp(START + 3_600_000)])
    assert.deepEqual(await host.engine.read((tx) => taskLeases.list(tx)), [])
  })

  test('is not posted again if it was already posted', async (t) => {
    const fixture = await open(t, engine)
    const { add, fire, fired, clock, host, firing } = fixture
    await add({ cron: '3600000' })
    // Simulates a crash after posting and before rescheduling.
    await fire()
    await host.engine.transaction((tx) =>
      scheduledTasks.update(tx, { owner: 'main' }, { status: 'active', next_run: timestamp(START) }),
    )
    await lease(fixture)
    clock.advance(60_000)
    assert.deepEqual([await fire(), (await fired()).length], [1, 1])
    await host.engine.transaction((tx) => expireLeases(tx, firing.clock.now()))
  })

  test('expires within one lease time after the clock was set back, and fires once', async (t) => {
    const fixture = await open(t, engine)
    const { add, fire, clock, fired } = fixture
    await add({ cron: '3600000' })
    clock.advance(600_000)
    await lease(fixture)
    clock.advance(-600_000)
    assert.equal(await fire(), 0)
    clock.advance(59_999)
    assert.equal(await fire(), 0)
    clock.advance(1)
    assert.deepEqual([await fire(), (await fired()).length], [1, 1])
  })

  test('is removed with its task', async (t) => {
    const fixture = await open(t, engine)
    const id = await fixture.add()
    await lease(fixture)
    await fixture.host.engine.transaction((tx) => scheduledTasks.remove(tx, { id }))
    assert.deepEqual(await fixture.host.engine.read((tx) => taskLeases.list(tx)), [])
  })
})

interface ClockChange {
  readonly zone: string
  readonly from: string
  readonly at?: number
  readonly half: readonly string[]
}

/** Nights with a clock change: in Berlin at 02:00 or to 02:00, in New York from 02:00 to 01:00. */
const CLOCK_CHANGES: readonly ClockChange[] = [
  { zone: 'Europe/Berlin', from: '2026-03-28T12:00:00Z', half: ['03-29T01:00', '03-30T00:30'] },
  { zone: 'Europe/Berlin', from: '2026-10-24T12:00:00Z', half: ['10-25T00:30', '10-26T01:30'] },
  { zone: 'America/New_York', from: '2026-03-07T12:00:00Z', half: ['03-08T07:00', '03-09T06:30'] },
  { zone: 'America/New_York', from: '2026-10-31T12:00:00Z', half: ['11-01T07:30', '11-02T07:30'] },
  { zone: 'America/New_York', at: 1, from: '2026-10-31T12:00:00Z', half: ['11-01T05:30', '11-02T06:30'] },
]

onEveryEngineQuickly('the night of a clock change', (engine) => {
  for (const { zone, from, half, at = 2 } of CLOCK_CHANGES) {
    test(`around ${from} in ${zone}: 0${at}:30 fires once a day, an hour every hour, an interval by elapsed time`, async (t) => {
      const { add, fire, clock, host } = await open(t, engine, zone)
      clock.advance(Date.parse(from) - clock.now())
      const crons = { half: `30 ${at} * * *`, hourly: '0 * * * *', interval: '5400000' }
      const ids: Record<string, string> = {}
      for (const [name, cron] of Object.entries(crons))
        ids[name] = await add({ cron, next_run: nextRun(cron, clock.now(), zone) })
      const end = clock.now() + 48 * 3_600_000
      for (;;) {
        const next = (await host.engine.read((tx) => nextSlotTime(tx, clock.now()))) ?? end
        if (next >= end) break
        assert.ok(next > clock.now(), 'each slot is fired when it comes')
        clock.advance(next - clock.now())
        await fire()
      }
      const runs = async (name: string): Promise<string[]> =>
        (await host.engine.read((tx) => taskRunLogs.list(tx, { task_id: ids[name] ?? '' }, [['run_at', 'asc']]))).map(
          ({ run_at }) => run_at.slice(5, 16),
        )
      assert.deepEqual(await runs('half'), half)
      // The last of 48 is at the end itself.
      assert.equal((await runs('hourly')).length, 47)
      assert.equal(new Set(await runs('hourly')).size, 47)
      assert.equal((await runs('interval')).length, 31)
    })
  }
})

test('fires each slot at most once and in order, even if the clock jumps', async (t) => {
  const crons = fc.constantFrom(
    '* * * * *',
    '*/7 * * * *',
    '30 2 * * *',
    '0 0 1 * *',
    '1000',
    '60000',
    '86400000',
    '7777',
  )
  const zones = fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe')
  const hour = 3_600_000
  const jumps = fc.array(
    fc.oneof(
      fc.integer({ min: 0, max: 120_000 }),
      fc.integer({ min: -2 * hour, max: 2 * hour }),
      fc.constantFrom(-hour, hour, 24 * hour, 0),
    ),
    { minLength: 1, maxLength: 15 },
  )
  const { add, clock, host, firing, task } = await open(t)
  await fc.assert(
    fc.asyncProperty(crons, zones, jumps, async (cron, timeZone, steps) => {
      clock.advance(Date.UTC(2026, 2, 28, 22) - clock.now())
      const id = await add({ cron, next_run: nextRun(cron, clock.now(), timeZone) })
      const slots: string[] = []
      for (const step of steps) {
        clock.advance(step)
        const { next_run: slot = '' } = await task(id)
        const { count } = await host.engine.transaction((tx) => fireDueTasks(tx, { ...firing, timeZone }, 10))
        assert.equal(count, slot <= timestamp(clock.now()) ? 1 : 0)
        if (count > 0) slots.push(slot)
        assert.ok(((await task(id)).next_run ?? '') > timestamp(clock.now()))
      }
      const logs = await host.engine.read((tx) => taskRunLogs.list(tx, { task_id: id }))
      assert.equal(logs.length, slots.length)
      assert.deepEqual(slots, [...new Set(slots)].sort())
      await host.engine.transaction((tx) => scheduledTasks.remove(tx, { id }))
    }),
    { numRuns: 60 },
  )
})

test('default tasks of a re-added group are not due immediately, and fire again', async (t) => {
  const { fire, clock, host, task, groups: addGroups } = await open(t)
  await addGroups('team')
  await host.engine.transaction((tx) => groups.remove(tx, { folder: 'team' }))
  clock.advance(40 * 86_400_000)
  await fire()
  assert.equal((await task('team-mem-0')).status, 'paused')
  await addGroups('team')
  assert.equal(await fire(), 0)
  assert.equal((await host.engine.read((tx) => scheduledTasks.list(tx, { owner: 'team', status: 'active' }))).length, 5)
})
