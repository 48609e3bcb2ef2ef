// Limits on the number and frequency of tasks.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { agent, type EngineName, isRefusal, onEveryEngine, person, testHost } from '../../test/support/host.ts'
import { run } from '../../test/support/sql.ts'
import { AGENT_LIMITS, type AgentLimits } from '../core/access/agent-limits.ts'
import { countTasks, scheduledTasks } from '../core/schedule/tasks.ts'
import { scheduledTasksResource } from './scheduled-tasks.ts'

const { schedule, update, pause, resume, delete: cancel } = scheduledTasksResource.verbs

async function open(t: TestContext, engine: EngineName, limits: Partial<AgentLimits> = {}) {
  const at = await testHost(t, engine)
  await at.groups('main', 'team', 'other')
  await at.grant('github:1', 'admin', 'team/**')
  Object.assign(at.host, { limits: { ...AGENT_LIMITS, ...limits } })
  // Removes the default tasks, so that the counts are simple.
  await at.host.engine.transaction((tx) => run(tx, 'delete from scheduled_tasks'))
  let number = 0
  const addTask = async (caller: { call: typeof at.cli.call }, cron?: string, targetJid = 'team') =>
    (await caller.call(schedule, { targetJid, prompt: `Look ${number++}.`, ...(cron ? { cron } : {}) })).taskId
  return {
    ...at,
    team: at.as(agent('team')),
    addTask,
    count: () => at.host.engine.read((tx) => countTasks(tx, 'team')),
    complete: (id: string) =>
      at.host.engine.transaction((tx) => scheduledTasks.update(tx, { id }, { status: 'completed' })),
    ids: async () =>
      (await at.host.engine.read((tx) => scheduledTasks.list(tx, { owner: 'team' }))).map(({ id }) => id),
  }
}

onEveryEngine('task limits', (engine) => {
  test('apply to active tasks until one is paused or cancelled', async (t) => {
    const { team, addTask, cli, as, count, ...at } = await open(t, engine, { activeTasksPerFolder: 2 })
    const full = isRefusal('conflict', 'team has 2 active tasks, and 2 are allowed')
    const [first, second] = [await addTask(team), await addTask(team, '0 9 * * *')]
    await assert.rejects(addTask(team), full)
    await assert.rejects(addTask(as(agent('main'))), full)
    assert.equal(await count(), 2)
    // Each folder has its own limit, and the command line has none.
    await addTask(as(agent('main')), undefined, 'other')
    await team.call(pause, { id: second })
    const third = await addTask(team)
    await assert.rejects(team.call(resume, { id: second }), full)
    const admin = as(person('github:1'))
    await assert.rejects(admin.call(update, { id: second, status: 'active' }), full)
    await team.call(cancel, { id: first })
    await team.call(resume, { id: second })
    await at.complete(third)
    await addTask(team)
    await assert.rejects(admin.call(update, { id: third, cron: '0 9 * * *' }), full)
    await addTask(cli)
  })

  test('count firing tasks as active', async (t) => {
    const { team, addTask, host } = await open(t, engine, { activeTasksPerFolder: 1 })
    const id = await addTask(team, '0 9 * * *')
    await host.engine.transaction((tx) => scheduledTasks.update(tx, { id }, { status: 'firing' }))
    await assert.rejects(addTask(team), isRefusal('conflict'))
  })

  test('apply to all tasks, and the oldest completed ones are removed first', async (t) => {
    const { team, addTask, count, clock, complete, ids } = await open(t, engine, { tasksPerFolder: 3 })
    const made = []
    for (let each = 0; each < 3; each++) {
      made.push(await addTask(team))
      clock.advance(1000)
    }
    const [first = '', second = '', third = ''] = made
    await assert.rejects(addTask(team), isRefusal('conflict', 'team has 3 tasks, which is the maximum'))
    assert.equal(await count(), 3)
    await complete(second)
    await complete(first)
    const next = await addTask(team)
    assert.deepEqual((await ids()).toSorted(), [second, third, next].toSorted())
    // Scheduling an existing task again is not limited.
    await addTask(team, '0 9 * * *')
    const again = { targetJid: 'team', prompt: 'Again.', cron: '0 9 * * *' }
    await complete(next)
    const { taskId } = await team.call(schedule, again)
    assert.equal((await team.call(schedule, again)).taskId, taskId)
  })

  test('are disabled by 0', async (t) => {
    const { team, addTask, count } = await open(t, engine, {
      tasksPerFolder: 0,
      activeTasksPerFolder: 0,
      taskIntervalMs: 0,
    })
    for (let each = 0; each < 5; each++) await addTask(team, '1000')
    assert.equal(await count(), 5)
  })

  test('include a minimum interval, except for the command line', async (t) => {
    const { team, addTask, cli, as, count } = await open(t, engine)
    const tooOften = (ms: number) =>
      isRefusal('invalid', `invalid cron "${ms}": an interval must be at least 60000 milliseconds`)
    const id = await addTask(team, '60000')
    for (const ms of [59_999, 1000]) await assert.rejects(addTask(team, String(ms)), tooOften(ms))
    await assert.rejects(as(person('github:1')).call(update, { id, cron: '59999' }), tooOften(59_999))
    assert.equal(await count(), 1)
    await addTask(team, '* * * * *')
    await addTask(cli, '1000')
    await cli.call(update, { id, cron: '1000' })
    await assert.rejects(addTask(cli, '999'), isRefusal('invalid', /at least 1000 milliseconds/))
  })
})

test('the schema of schedule_task names the minimum interval and its default', () => {
  for (const { input } of [schedule, update])
    assert.match(
      input.shape.cron.description ?? '',
      /milliseconds between runs \(at least TASK_MIN_INTERVAL, 60000 by default\)/,
    )
})
