import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { run } from '../../../test/support/sql.ts'
import { until } from '../../../test/support/until.ts'
import { decodeContent, messages } from '../../core/messages/messages.ts'
import { type ScheduledTask, scheduledTasks, taskRunLogs } from '../../core/schedule/tasks.ts'
import { timestamp } from '../../lib/clock.ts'
import { openLog } from '../../lib/log/log.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Engine } from '../../store/engine.ts'
import { Scheduler } from './scheduler.ts'

interface Timing extends TestHost {
  readonly logged: string[]
  add(prompt: string, task?: Partial<ScheduledTask>): Promise<string>
  task(id: string): Promise<ScheduledTask | undefined>
  texts(): Promise<string[]>
  start(): Promise<Scheduler>
}

async function open(t: TestContext, engine: EngineName = 'sqlite'): Promise<Timing> {
  const here = await testHost(t, engine)
  await here.groups('main')
  const { host, clock } = here
  await host.engine.transaction((tx) => run(tx, 'delete from scheduled_tasks'))
  const logged: string[] = []
  return {
    ...here,
    logged,
    add: async (prompt, task = {}) => {
      const now = timestamp(clock.now())
      const row = { id: `task-${prompt}`, owner: 'main', chat_jid: 'main', context_mode: 'group' } as const
      await host.engine.transaction((tx) =>
        scheduledTasks.insert(tx, { ...row, prompt, next_run: now, status: 'active', created_at: now, ...task }),
      )
      return row.id
    },
    task: (id) => host.engine.read((tx) => scheduledTasks.find(tx, { id })),
    texts: async () => (await host.engine.read((tx) => messages.list(tx))).map(({ content }) => decodeContent(content)),
    start: async () => {
      const log = await openLog({ to: { write: (line) => logged.push(line) } })
      const scheduler = new Scheduler({ host, log })
      t.after(() => scheduler.close())
      return scheduler
    },
  }
}

onEveryEngine('the scheduler', (engine) => {
  test('fires due tasks at the start and later, in the order of their slots', async (t) => {
    const { add, texts, start, clock, host } = await open(t, engine)
    await add('late', { next_run: timestamp(clock.now() - 1000) })
    await add('later', { next_run: timestamp(clock.now() - 500) })
    await add('soon', { next_run: timestamp(clock.now() + 60_000), cron: '60000' })
    await start()
    await until(async () => (await texts()).length === 2)
    assert.deepEqual(await texts(), ['late', 'later'])
    clock.advance(60_000)
    host.signals.emit()
    await until(async () => (await texts()).length === 3)
    clock.advance(600_000)
    // No signal is sent: the poll finds it.
    await until(async () => (await texts()).length === 4)
    assert.deepEqual(await texts(), ['late', 'later', 'soon', 'soon'])
  })

  test('continues recurring tasks after the clock was ahead, fires no slot again, and keeps the time of single runs', async (t) => {
    const { add, task, texts, start, clock, host, logged } = await open(t, engine)
    const [began, hour] = [clock.now(), 3_600_000]
    const nextOf = async (id: string) => Date.parse((await task(id))?.next_run ?? '') - began
    const moveClock = (ms: number) => {
      clock.advance(ms)
      host.signals.emit()
    }
    const hourly = await add('hourly', { cron: String(hour), next_run: timestamp(began + hour) })
    const nightly = await add('nightly', { cron: '0 3 * * *', next_run: timestamp(began + 3 * hour) })
    const once = await add('once', { next_run: timestamp(began + 200_000 * hour) })
    await start()
    // A clock that is two hours ahead, and then ten years.
    moveClock(2 * hour)
    await until(async () => (await nextOf(hourly)) === 3 * hour)
    moveClock(-2 * hour)
    await until(async () => (await nextOf(hourly)) === hour)
    moveClock(hour)
    await until(async () => (await nextOf(hourly)) === 2 * hour)
    assert.deepEqual(await texts(), ['hourly'])
    moveClock(87_600 * hour)
    await until(async () => (await texts()).length === 3)
    moveClock(-87_600 * hour)
    await until(async () => (await nextOf(hourly)) === 2 * hour && (await nextOf(nightly)) === 3 * hour)
    assert.equal(await nextOf(once), 200_000 * hour)
    // The slot that fired early is not fired again; the next one is.
    moveClock(hour)
    await until(async () => (await nextOf(hourly)) === 3 * hour)
    assert.equal((await texts()).length, 3)
    moveClock(hour)
    await until(async () => (await texts()).length === 4)
    assert.equal(logged.filter((line) => line.includes('while the clock was ahead')).length, 2)
  })

  test('corrects at its start what a clock that was ahead has scheduled', async (t) => {
    const { add, task, start, clock } = await open(t, engine)
    const far = timestamp(clock.now() + 10 * 365 * 86_400_000)
    const [daily, paused] = [
      await add('daily', { cron: '30 4 * * *', next_run: far }),
      await add('paused', { cron: '30 4 * * *', next_run: far, status: 'paused' }),
    ]
    await start()
    await until(async () => (await task(daily))?.next_run === '2026-01-01T04:30:00.000Z')
    assert.equal((await task(paused))?.next_run, far)
  })

  test('removes one-time tasks that completed 30 days ago, and nothing else', async (t) => {
    const { add, task, start, clock, host } = await open(t, engine)
    const day = (days: number) => timestamp(clock.now() - days * 24 * 3_600_000)
    const over = { status: 'completed', next_run: undefined } as const
    const ran = (task_id: string, run_at: string) =>
      host.engine.transaction((tx) =>
        taskRunLogs.insert(tx, { id: `run-${task_id}`, task_id, run_at, duration_ms: 1, status: 'success' }),
      )
    await ran(await add('old', { ...over, created_at: day(40) }), day(31))
    await ran(await add('late', { ...over, created_at: day(40) }), day(29))
    await add('never-logged', { ...over, created_at: day(31) })
    await add('new', { ...over, created_at: day(29) })
    await add('paused', { status: 'paused', created_at: day(400) })
    await start()
    await until(async () => (await task('task-old')) === undefined)
    assert.equal(await task('task-never-logged'), undefined)
    for (const kept of ['late', 'new', 'paused']) assert.ok(await task(`task-${kept}`), kept)
    assert.deepEqual(
      (await host.engine.read((tx) => taskRunLogs.list(tx))).map(({ task_id }) => task_id),
      ['task-late'],
    )
  })

  test('signals the router at once', async (t) => {
    const { add, start, host } = await open(t, engine)
    const signalled: string[] = []
    host.signals.on((keys = []) => signalled.push(...keys))
    await add('now', { chat_jid: 'telegram:1' })
    await start()
    await until(() => signalled.includes('telegram:1'))
  })

  test('fires many tasks that are due at the same time', async (t) => {
    const { add, texts, start } = await open(t, engine)
    for (let at = 0; at < 50; at++) await add(`p${at}`)
    await start()
    await until(async () => (await texts()).length === 50)
    assert.equal(new Set(await texts()).size, 50)
  })
})

test('a short outage of the store loses and repeats no task', async (t) => {
  const { add, texts, start, host } = await open(t)
  const { transaction } = host.engine
  let left = 2
  const flaky: Engine['transaction'] = async (work) => {
    if (left-- > 0) refuse('unavailable', 'the store is busy')
    return transaction.call(host.engine, work) as ReturnType<typeof work>
  }
  t.after(() => Object.assign(host.engine, { transaction }))
  await add('patience')
  Object.assign(host.engine, { transaction: flaky })
  await start()
  await until(async () => (await texts()).length === 1)
  assert.deepEqual(await texts(), ['patience'])
})

test('a task that cannot be fired does not block others, and is logged', async (t) => {
  const { add, texts, start, host, logged, task } = await open(t)
  await host.engine.transaction((tx) =>
    run(
      tx,
      `create trigger broken before insert on messages when new.sender = 'timed-isolated:task-broken'
       begin select raise(abort, 'a bug of the code'); end`,
    ),
  )
  const next_run = timestamp(host.clock.now() - 60_000)
  const id = await add('broken', { next_run, context_mode: 'isolated', cron: '3600000' })
  await add('one')
  await add('two')
  await start()
  await until(async () => (await texts()).length === 2)
  await until(async () => ((await task(id))?.next_run ?? '') > timestamp(host.clock.now()))
  const [log] = await host.engine.read((tx) => taskRunLogs.list(tx, { task_id: id }))
  assert.deepEqual([log?.status, log?.error], ['error', 'internal error; see the log'])
  assert.ok(logged.join('').includes('a bug of the code'))
})

test('fires nothing after close', async (t) => {
  const { add, texts, start, host } = await open(t)
  const scheduler = await start()
  await scheduler.close()
  await add('never')
  host.signals.emit()
  await scheduler.close()
  assert.deepEqual(await texts(), [])
})

test('the daemon timed fires due tasks', async (t) => {
  const here = await open(t)
  await here.add('served')
  await serveHost(t, { on: here, daemons: ['timed'] })
  await until(async () => (await here.texts()).length === 1)
})
