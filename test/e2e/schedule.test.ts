// A scheduled task in an instance that is served: it fires on time, its turn runs, and its run log tells how that went.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { scheduledTasks, taskRunLogs } from '../../src/core/tasks.ts'
import { openHost } from '../../src/daemons/host.ts'
import { timestamp } from '../../src/lib/clock.ts'
import { call } from '../../src/registry/call.ts'
import { scheduledTasksResource } from '../../src/resources/scheduled-tasks.ts'
import { instance } from '../support/svc.ts'
import { until } from '../support/until.ts'

test('a task that is scheduled from another process runs once, in its chat, and is completed', async (t) => {
  const demo = await instance(t)
  await demo.serve()
  const store = { path: join(demo.root, 'store', 'svc.db') }
  const host = await openHost({ instance: 'demo', store, webBase: 'http://localhost' })
  t.after(() => host.close())
  const asking = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
  const at = timestamp(Date.now() + 1000)
  const input = { targetJid: 'main', prompt: 'who am I', cron: at }
  const { taskId } = await call(asking, scheduledTasksResource.verbs.schedule, input)
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
