import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Hono } from 'hono'
import { type EngineName, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { run } from '../../../test/support/sql.ts'
import { issueBearer } from '../../core/access/bearers.ts'
import { messages } from '../../core/messages/messages.ts'
import { fireDueTasks } from '../../core/schedule/task-firing.ts'
import { type ScheduledTask, scheduledTasks, taskRunLogs } from '../../core/schedule/tasks.ts'
import { timestamp } from '../../lib/clock.ts'
import { createErrorHandler } from '../../lib/http/http.ts'
import { scheduledTasksResource } from '../../resources/scheduled-tasks.ts'
import { mountTaskRoutes } from './task-routes.ts'

const { pause, resume, delete: cancel } = scheduledTasksResource.verbs

interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
}

interface Remote extends TestHost {
  add(id: string, task?: Partial<ScheduledTask>): Promise<void>
  task(id: string): Promise<ScheduledTask | undefined>
  /** As service:timed by default. */
  ask(request: string, body?: unknown, bearer?: string): Promise<Answer>
  due(): Promise<string[]>
}

async function open(t: TestContext, engine: EngineName): Promise<Remote> {
  const here = await testHost(t, engine)
  await here.groups('main')
  const { host, clock } = here
  await host.engine.transaction((tx) => run(tx, 'delete from scheduled_tasks'))
  const app = new Hono()
  app.onError(
    createErrorHandler((_, error) => {
      throw error
    }),
  )
  mountTaskRoutes({ app, host })
  const service = await issueBearer(host, { sub: 'service:timed', kind: 'service', ttlMs: 86_400_000 })
  const ask: Remote['ask'] = async (request, body, bearer = service) => {
    const [method = '', path = ''] = request.split(' ')
    const answer = await app.request(path, {
      method,
      headers: { Authorization: `Bearer ${bearer}`, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: answer.status, body: JSON.parse(await answer.text()) }
  }
  return {
    ...here,
    ask,
    add: async (id, task = {}) => {
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
    },
    task: (id) => host.engine.read((tx) => scheduledTasks.find(tx, { id })),
    due: async () => {
      const { status, body } = await ask('GET /v1/tasks/due')
      assert.equal(status, 200)
      return Array.isArray(body.tasks) ? body.tasks.map(({ id }) => String(id)) : assert.fail('no list')
    },
  }
}

onEveryEngine('the task routes for remote schedulers', (engine) => {
  test('lease each slot to one scheduler', async (t) => {
    const { add, ask, due, task } = await open(t, engine)
    await add('a', { cron: '60000' })
    await add('b', { context_mode: 'isolated' })
    await add('paused', { status: 'paused' })
    const { body } = await ask('GET /v1/tasks/due?limit=1')
    assert.deepEqual(body, { tasks: [{ ...(await task('a')), status: 'firing' }], lease_ms: 60_000 })
    assert.deepEqual([await due(), await due()], [['b'], []])
  })

  test('post the prompt on request and set the next run; a one-time task is completed', async (t) => {
    const { add, ask, due, task, host, clock } = await open(t, engine)
    await add('a', { cron: '60000' })
    await add('b')
    await add('team/x-mem-0')
    await due()
    const signalled: string[] = []
    host.signals.on((keys = []) => signalled.push(...keys))
    const logged = await ask('POST /v1/tasks/runlog', { task_id: 'a', status: 'success' })
    assert.equal(logged.status, 201)
    const [message] = await host.engine.read((tx) => messages.list(tx))
    assert.deepEqual(
      [message?.id, message?.sender, message?.jid, signalled],
      [logged.body.id, 'timed', 'main', ['main']],
    )
    await ask('POST /v1/tasks/runlog', { task_id: 'b', status: 'error', error: 'no', duration_ms: 12 })
    const logs = await host.engine.read((tx) => taskRunLogs.list(tx, {}, [['task_id', 'asc']]))
    assert.deepEqual(
      logs.map(({ task_id, status, error, duration_ms }) => [task_id, status, error, duration_ms]),
      [
        ['a', 'success', undefined, 0],
        ['b', 'error', 'no', 12],
      ],
    )
    clock.advance(150_000)
    assert.equal((await ask('POST /v1/tasks/a/reschedule', {})).body.next_run, '2026-01-01T00:03:00.000Z')
    for (const id of ['b', 'team%2Fx-mem-0'])
      assert.equal((await ask(`POST /v1/tasks/${id}/reschedule`, {})).body.status, 'completed')
    assert.deepEqual([(await task('a'))?.status, await due()], ['active', []])
    clock.advance(60_000)
    assert.deepEqual(await due(), ['a'])
    const at = '2026-01-02T01:00:00+01:00'
    assert.equal((await ask('POST /v1/tasks/a/reschedule', { next_run: at })).body.next_run, '2026-01-02T00:00:00.000Z')
  })

  test('correct the next run of a recurring task after a clock that was ahead', async (t) => {
    const { add, due, clock, task } = await open(t, engine)
    const far = timestamp(clock.now() + 10 * 365 * 86_400_000)
    await add('a', { cron: '60000', next_run: far })
    await add('once', { next_run: far })
    assert.deepEqual(await due(), [])
    const { next_run = '' } = (await task('a')) ?? {}
    assert.ok(Date.parse(next_run) - clock.now() <= 60_000, next_run)
    assert.equal((await task('once'))?.next_run, far)
    clock.advance(60_000)
    assert.deepEqual(await due(), ['a'])
  })

  test('lease a slot again when its scheduler disappears, whose calls then conflict', async (t) => {
    const { add, ask, due, clock, task } = await open(t, engine)
    await add('a', { cron: '3600000' })
    assert.deepEqual(await due(), ['a'])
    clock.advance(60_000)
    assert.deepEqual(await due(), ['a'])
    assert.equal((await ask('POST /v1/tasks/a/reschedule', {})).status, 200)
    assert.equal((await ask('POST /v1/tasks/a/reschedule', {})).status, 409)
    assert.equal((await task('a'))?.next_run, '2026-01-01T01:00:00.000Z')
  })

  test('and the scheduler with the store never fire a slot twice', async (t) => {
    const { add, ask, due, clock, host } = await open(t, engine)
    await add('a', { cron: '3600000', chat_jid: 'telegram:1' })
    await due()
    for (let time = 0; time < 2; time++)
      assert.equal((await ask('POST /v1/tasks/runlog', { task_id: 'a', status: 'success' })).status, 201)
    // The scheduler dies here, and its slot becomes due again.
    clock.advance(60_000)
    const firing = { dialect: host.engine.dialect, clock: host.clock, random: host.random, timeZone: 'UTC' }
    assert.equal((await host.engine.transaction((tx) => fireDueTasks(tx, firing, 10))).count, 1)
    assert.equal((await ask('POST /v1/tasks/runlog', { task_id: 'a', status: 'success' })).status, 409)
    const [posted, logs] = await host.engine.read(async (tx) => [await messages.list(tx), await taskRunLogs.list(tx)])
    assert.deepEqual([posted.length, logs.length], [1, 1])
  })

  test('keep a task paused that was paused while firing, and drop a cancelled one', async (t) => {
    const { add, ask, due, cli, task, clock } = await open(t, engine)
    await add('a', { cron: '3600000' })
    await add('b', { cron: '3600000' })
    await due()
    await cli.call(pause, { id: 'a' })
    await cli.call(cancel, { id: 'b' })
    assert.equal((await ask('POST /v1/tasks/a/reschedule', {})).body.status, 'paused')
    assert.equal((await ask('POST /v1/tasks/b/reschedule', {})).status, 404)
    assert.equal((await ask('POST /v1/tasks/runlog', { task_id: 'b', status: 'error' })).status, 404)
    clock.advance(7_200_000)
    assert.deepEqual(await due(), [])
    await cli.call(resume, { id: 'a' })
    assert.deepEqual([(await task('a'))?.status, (await task('a'))?.next_run], ['active', '2026-01-01T03:00:00.000Z'])
  })

  test('a task that is paused and resumed while firing continues with its next slot, and the old lease conflicts', async (t) => {
    const { add, ask, due, cli, task, clock } = await open(t, engine)
    await add('a', { cron: '3600000' })
    await due()
    await cli.call(pause, { id: 'a' })
    await cli.call(resume, { id: 'a' })
    assert.equal((await task('a'))?.next_run, '2026-01-01T01:00:00.000Z')
    assert.equal((await ask('POST /v1/tasks/a/reschedule', {})).status, 409)
    assert.equal((await task('a'))?.next_run, '2026-01-01T01:00:00.000Z')
    clock.advance(60_000)
    assert.deepEqual([await due(), (await task('a'))?.status], [[], 'active'])
  })

  test('are only for services, and refuse unknown tasks and fields', async (t) => {
    const { ask, host, operator } = await open(t, engine)
    await operator('github:1')
    const person = await issueBearer(host, { sub: 'github:1' })
    const routes = ['GET /v1/tasks/due', 'POST /v1/tasks/runlog', 'POST /v1/tasks/a/reschedule']
    for (const route of routes) {
      assert.equal((await ask(route, undefined, person)).status, 403)
      assert.equal((await ask(route, undefined, 'a.b.c')).status, 401)
    }
    const bad: [string, unknown, RegExp][] = [
      ['GET /v1/tasks/due?limit=many', undefined, /limit must be a number/],
      ['GET /v1/tasks/due?owner=main', undefined, /unknown field "owner"/],
      ['POST /v1/tasks/runlog', { status: 'success' }, /task_id is required/],
      ['POST /v1/tasks/runlog', { task_id: 'a', status: 'maybe' }, /status must be one of success, error/],
      ['POST /v1/tasks/runlog', { task_id: 'a', status: 'error', duration_ms: -1 }, /duration_ms/],
      ['POST /v1/tasks/a/reschedule', { next_run: 'soon' }, /RFC 3339/],
    ]
    for (const [route, body, sentence] of bad) {
      const answer = await ask(route, body)
      assert.deepEqual([route, answer.status], [route, 400])
      assert.match(String(answer.body.detail), sentence)
    }
  })
})
