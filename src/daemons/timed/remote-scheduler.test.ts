import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { serveHost } from '../../../test/support/served-host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { decodeContent, messages } from '../../core/messages/messages.ts'
import { scheduledTasks, taskRunLogs } from '../../core/schedule/tasks.ts'
import { timestamp } from '../../lib/clock.ts'
import { RemoteScheduler } from './remote-scheduler.ts'
import { RoutdClient } from './routd-client.ts'

async function open(t: TestContext) {
  const at = await serveHost(t, { daemons: ['routd'] })
  await at.groups('main')
  const { host, clock } = at
  const bearerFile = join(tempDir(t), 'bearer')
  const bearer = await at.bearer({ sub: 'service:timed', kind: 'service' })
  const logged: string[] = []
  const note = (_: unknown, sentence?: string): void => void logged.push(sentence ?? '')
  return {
    ...at,
    logged,
    allow: () => writeFileSync(bearerFile, `${bearer}\n`),
    start: (url = at.url('routd')) => {
      const routd = new RoutdClient({ url, bearerFile })
      const scheduler = new RemoteScheduler({ routd, log: { debug: () => {}, warn: note, error: note }, tickMs: 20 })
      t.after(() => scheduler.close())
      return scheduler
    },
    add: (id: string, cron?: string) =>
      host.engine.transaction((tx) =>
        scheduledTasks.insert(tx, {
          ...{ id, owner: 'main', chat_jid: 'main', prompt: `prompt of ${id}`, cron, next_run: timestamp(clock.now()) },
          ...{ status: 'active', context_mode: 'group', created_at: timestamp(clock.now()) },
        }),
      ),
    task: (id: string) => host.engine.read((tx) => scheduledTasks.find(tx, { id })),
    texts: async () =>
      (await host.engine.read((tx) => messages.list(tx)))
        .map(({ content }) => decodeContent(content))
        .filter((text) => text.startsWith('prompt of t')),
  }
}

test('several schedulers without a store fire each slot once and set the next run', async (t) => {
  const s = await open(t)
  s.allow()
  for (let at = 0; at < 30; at++) await s.add(`t${at}`, at % 2 ? '60000' : undefined)
  for (let count = 0; count < 3; count++) s.start()
  await until(async () => (await s.texts()).length >= 30)
  await until(async () => (await s.task('t29'))?.status === 'active' && (await s.task('t28'))?.status === 'completed')
  assert.equal(new Set(await s.texts()).size, 30)
  assert.equal((await s.texts()).length, 30)
  assert.equal((await s.task('t1'))?.next_run, timestamp(s.clock.now() + 60_000))
  const runs = await s.host.engine.read((tx) => taskRunLogs.list(tx))
  assert.equal(runs.filter(({ task_id }) => /^t\d/.test(task_id)).length, 30)
  s.clock.advance(60_000)
  await until(async () => (await s.texts()).length === 45)
  assert.deepEqual(s.logged, [])
})

test('a missing bearer or an unavailable routd is logged once, and no task is lost', async (t) => {
  const s = await open(t)
  await s.add('t1')
  const scheduler = s.start()
  await until(() => scheduler.fault !== undefined)
  assert.match(scheduler.fault ?? '', /^cannot read .*bearer$/)
  assert.deepEqual(s.logged, ['cannot fire tasks'])
  await scheduler.close()
  s.allow()
  const lost = s.start('http://127.0.0.1:9')
  await until(() => lost.fault !== undefined)
  assert.equal(lost.fault, 'cannot reach routd at http://127.0.0.1:9')
  await lost.close()
  s.start()
  await until(async () => (await s.task('t1'))?.status === 'completed')
  assert.deepEqual(await s.texts(), ['prompt of t1'])
})
