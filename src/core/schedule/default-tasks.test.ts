import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultTasks } from './default-tasks.ts'
import { parseSchedule } from './schedule.ts'

test('a new group has five isolated tasks that compact its memory', () => {
  const tasks = defaultTasks('team/support')
  assert.deepEqual(
    tasks.map(({ id, prompt, cron }) => [id, prompt, cron]),
    [
      ['team/support-mem-0', '/compact-memories episodes day', '0 2 * * *'],
      ['team/support-mem-1', '/compact-memories episodes week', '0 3 * * 1'],
      ['team/support-mem-2', '/compact-memories episodes month', '0 4 1 * *'],
      ['team/support-mem-3', '/compact-memories diary week', '0 3 * * 1'],
      ['team/support-mem-4', '/compact-memories diary month', '0 4 1 * *'],
    ],
  )
  for (const task of tasks) {
    assert.equal(task.owner, 'team/support')
    assert.equal(task.chat_jid, 'team/support')
    assert.equal(task.context_mode, 'isolated')
  }
})

test('no default task fires immediately', () => {
  const now = Date.parse('2026-01-15T10:00:00Z')
  for (const { cron } of defaultTasks('main')) {
    assert.ok(Date.parse(parseSchedule(cron, now, 'UTC').next_run) > now)
  }
})
