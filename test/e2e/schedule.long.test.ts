// Scheduled tasks in a served instance: a task fires on time, its turn runs, and its run log contains the result.
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { scheduledTasks, taskRunLogs } from '../../src/core/schedule/tasks.ts'
import { openHost } from '../../src/daemons/process/host.ts'
import { timestamp } from '../../src/lib/clock.ts'
import { callVerb } from '../../src/registry/call.ts'
import { scheduledTasksResource } from '../../src/resources/scheduled-tasks.ts'
import { instance } from '../support/svc.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

test('a task scheduled by another process runs once in its chat and is completed', async (t) => {
  const demo = await instance(t)
  await demo.serve()
  const store = { path: join(demo.root, 'store', 'svc.db') }
  const host = await openHost({ instance: 'demo', store, webBase: 'http://localhost' })
  t.after(() => host.close())
  const context = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
  const at = timestamp(Date.now() + 1000)
  const input = { targetJid: 'main', prompt: 'who am I', cron: at }
  const { taskId } = await callVerb(context, scheduledTasksResource.verbs.schedule, input)
  const runs = () => host.engine.read((tx) => taskRunLogs.list(tx, { task_id: taskId }))
  await until(async () => (await runs()).some(({ result, status }) => result !== 'enqueued' || status === 'error'))
  const [run, ...more] = await runs()
  assert.deepEqual([run?.status, run?.error, more], ['success', undefined, []])
  assert.ok(run && run.run_at >= at)
  const task = await host.engine.read((tx) => scheduledTasks.find(tx, { id: taskId }))
  assert.deepEqual([task?.status, task?.next_run], ['completed', undefined])
  const { stdout } = await demo.run('messages', 'demo', 'show', run?.id ?? '')
  assert.match(stdout, /^sender: timed$/m)
  assert.match(stdout, new RegExp(`^task: ${taskId}$`, 'm'))
  assert.match(stdout, /^turn state: (answered|silent)$/m)
})

test('timed on a machine without the store fires through routd, once per slot', async (t) => {
  const demo = await instance(t)
  const routd = await demo.serve(['routd', 'runed', 'gated'])
  const elsewhere = tempDir(t)
  mkdirSync(join(elsewhere, 'svc_demo'))
  const bearerFile = join(elsewhere, 'bearer')
  const { stdout: bearer } = await demo.run('bearer', 'demo', 'service:timed')
  writeFileSync(bearerFile, bearer, { mode: 0o600 })
  const timed = await demo.serve(['timed'], {
    SVC_DATA_DIR: elsewhere,
    ROUTD_URL: routd.urls.get('routd') ?? '',
    ROUTD_BEARER_FILE: bearerFile,
    TIMED_LISTEN: '127.0.0.1:0',
  })
  const store = { path: join(demo.root, 'store', 'svc.db') }
  const host = await openHost({ instance: 'demo', store, webBase: 'http://localhost' })
  t.after(() => host.close())
  const context = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
  const schedule = (prompt: string, cron?: string) =>
    callVerb(context, scheduledTasksResource.verbs.schedule, { targetJid: 'main', prompt, ...(cron ? { cron } : {}) })
  const [once, often] = [await schedule('who am I'), await schedule('what time is it', '1000')]
  const runs = (task_id: string) => host.engine.read((tx) => taskRunLogs.list(tx, { task_id }))
  const task = (id: string) => host.engine.read((tx) => scheduledTasks.find(tx, { id }))
  await until(async () => (await runs(often.taskId)).length >= 2)
  await until(async () => (await task(once.taskId))?.status === 'completed')
  assert.equal((await runs(once.taskId)).length, 1)
  assert.equal((await fetch(`${timed.urls.get('timed')}/health`)).status, 200)
  assert.equal((await timed.stop()).code, 0)
  assert.deepEqual(readdirSync(join(elsewhere, 'svc_demo')), [])
})

test('timed without a store reports the missing bearer', async (t) => {
  const demo = await instance(t)
  const elsewhere = tempDir(t)
  mkdirSync(join(elsewhere, 'svc_demo'))
  const env = { SVC_DATA_DIR: elsewhere, ROUTD_URL: 'http://127.0.0.1:9' }
  await assert.rejects(
    demo.serve(['timed'], env),
    /ROUTD_BEARER_FILE is not set[\s\S]*svc bearer <instance> service:timed/,
  )
})
