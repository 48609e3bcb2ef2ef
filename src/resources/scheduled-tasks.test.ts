// Creating, changing, pausing, resuming and cancelling tasks. See docs/decisions.md#scheduled-tasks.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { auditedCalls, breakAudit } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import { finishTurn, startTurn } from '../../test/support/turns.ts'
import { routes } from '../core/routing/routes.ts'
import { scheduledTasks, taskRunLogs } from '../core/schedule/tasks.ts'
import { groupsResource } from './groups.ts'
import { routeTokensResource } from './route-tokens.ts'
import { routesResource } from './routes.ts'
import { scheduledTasksResource } from './scheduled-tasks.ts'

const { list, schedule, update, pause, resume, delete: cancel } = scheduledTasksResource.verbs
type Task = Parameters<typeof scheduledTasks.insert>[1]

const JAN_1 = '2026-01-01T00:00:00.000Z'
const HOUR = 3_600_000
const admin = person('github:1')

async function openHost(...[t, engine]: Parameters<typeof testHost>): Promise<TestHost> {
  const at = await testHost(t, engine)
  await at.groups('main', 'team', 'team/a', 'other')
  await at.grant('github:1', 'admin', 'team/**')
  return at
}

async function find({ host }: TestHost, id: string) {
  return host.engine.read((tx) => scheduledTasks.find(tx, { id }))
}

/** Adds a task in any state, such as firing. */
async function addTask({ host }: TestHost, task: Partial<Task>): Promise<void> {
  const row = { owner: 'team', chat_jid: 'team', prompt: 'Look.', context_mode: 'group' as const, created_at: JAN_1 }
  await host.engine.transaction((tx) =>
    scheduledTasks.insert(tx, { id: 't', status: 'active', next_run: JAN_1, ...row, ...task }),
  )
}

async function stateOf(at: TestHost, id = 't'): Promise<string> {
  const task = await find(at, id)
  return `${task?.status} ${task?.cron ?? '(once)'} ${task?.next_run ?? '(never)'}`
}

onEveryEngine('scheduling', (engine) => {
  test('assigns the task to the folder of its chat', async (t) => {
    const at = await openHost(t, engine)
    const { issue_chat, issue_hook } = routeTokensResource.verbs
    await at.as(agent('main')).call(issue_chat, { target_folder: 'team', jid_suffix: 'forms' })
    await at.as(agent('main')).call(issue_hook, { target_folder: 'team/a', source_label: 'ci', jid_suffix: 'x' })
    await at.host.engine.transaction(async (tx) => {
      await routes.insertReturning(tx, { seq: 1, match: 'platform=telegram', target: 'other' })
      await routes.insertReturning(tx, { seq: 0, match: 'room=42 verb=mention', target: 'team#observe' })
      await routes.insertReturning(tx, { seq: 2, match: 'room=ghost', target: 'gone' })
    })
    const chats = {
      team: 'team',
      'web:team': 'team',
      'web:team/forms': 'team',
      'hook:team/a/ci/x': 'team/a',
      'hook:team/a': 'team',
      'telegram:42': 'team',
      'telegram:7': 'other',
    }
    for (const [targetJid, owner] of Object.entries(chats)) {
      const { taskId } = await at.as(agent('main')).call(schedule, { targetJid, prompt: 'Look.' })
      const task = await find(at, taskId)
      assert.deepEqual([task?.owner, task?.chat_jid], [owner, targetJid])
    }
    for (const targetJid of ['discord:1/2', 'web:none', 'gone', 'discord:ghost', 'nonsense'])
      await assert.rejects(
        at.as(agent('main')).call(schedule, { targetJid, prompt: 'Look.' }),
        isRefusal('not_found', `no group is registered for ${targetJid}`),
      )
  })

  test('is allowed to an agent in its subtree and to a person in the folders they administer', async (t) => {
    const at = await openHost(t, engine)
    for (const caller of [agent('team'), admin]) {
      await at.as(caller).call(schedule, { targetJid: 'team/a', prompt: 'Look.' })
      await assert.rejects(
        at.as(caller).call(schedule, { targetJid: 'other', prompt: 'Look.' }),
        isRefusal('forbidden', 'on other'),
      )
    }
    // The error does not reveal the folder of a chat.
    await at.cli.call(routesResource.verbs.create, { match: 'room=77', target: 'other' })
    await assert.rejects(
      at.as(agent('team')).call(schedule, { targetJid: 'telegram:77', prompt: 'Look.' }),
      isRefusal('forbidden', /not permitted on telegram:77$/),
    )
    await assert.rejects(
      at.as(agent('team/a/b')).call(schedule, { targetJid: 'team', prompt: 'Look.' }),
      isRefusal('forbidden', 'tiers 0 to 1'),
    )
  })

  test('returns the same task for the same prompt, schedule and chat, even concurrently', async (t) => {
    const at = await openHost(t, engine)
    const ask = (input: object) =>
      at.as(agent('team')).call(schedule, { targetJid: 'team', prompt: 'Look.', cron: '0 9 * * *', ...input })
    const ids = await Promise.all(Array.from({ length: 10 }, () => ask({})))
    assert.equal(new Set(ids.map(({ taskId }) => taskId)).size, 1)
    const { taskId: known } = await ask({ cron: ' 0  9 * * * ' })
    assert.equal(known, ids[0]?.taskId)
    for (const other of [
      { prompt: 'Else.' },
      { cron: '1 9 * * *' },
      { targetJid: 'web:team' },
      { contextMode: 'isolated' },
    ])
      assert.notEqual((await ask(other)).taskId, known)
    await at.as(agent('team')).call(pause, { id: known })
    assert.notEqual((await ask({})).taskId, known)
  })

  test('stores the topic of the turn, and the main topic for other chats', async (t) => {
    const at = await openHost(t, engine)
    const ask = async (targetJid: string) => {
      const { taskId } = await at
        .as(agent('team'))
        .call(schedule, { targetJid, prompt: 'Look.', cron: '0 9 * * *', contextMode: 'isolated' })
      return find(at, taskId)
    }
    const bills = await startTurn(t, at, { folder: 'team', jid: 'web:team', topic: 'bills' })
    const inBills = await ask('web:team')
    assert.deepEqual([inBills?.topic, (await ask('web:team'))?.id], ['bills', inBills?.id])
    assert.equal((await ask('team'))?.topic, undefined)
    await finishTurn(t, at, bills)
    const main = await startTurn(t, at, { folder: 'team', jid: 'web:team' })
    const inMain = await ask('web:team')
    assert.equal(inMain?.topic, undefined)
    assert.notEqual(inMain?.id, inBills?.id)
    await finishTurn(t, at, main)
    assert.equal((await ask('web:team'))?.id, inMain?.id)
  })

  test('creates a new task for each one-time run', async (t) => {
    const at = await openHost(t, engine)
    const once = () => at.as(agent('team')).call(schedule, { targetJid: 'team', prompt: 'Look.' })
    assert.notEqual((await once()).taskId, (await once()).taskId)
  })

  test('computes the first run in the time zone of the instance', async (t) => {
    const at = await openHost(t, engine)
    const next = async (cron?: string) => {
      const { taskId } = await at
        .as(agent('team'))
        .call(schedule, { targetJid: 'team', prompt: 'x', ...(cron ? { cron } : {}) })
      return (await stateOf(at, taskId)).replace(/^active /, '')
    }
    assert.equal(await next(), `(once) ${JAN_1}`)
    assert.equal(await next('0 9 * * *'), '0 9 * * * 2026-01-01T09:00:00.000Z')
    assert.equal(await next('90000'), '90000 2026-01-01T00:01:30.000Z')
    assert.equal(await next('2027-01-01T00:00:00+01:00'), '(once) 2026-12-31T23:00:00.000Z')
    // A time in the past is due at once.
    assert.equal(await next('2020-01-01T00:00:00Z'), '(once) 2020-01-01T00:00:00.000Z')
  })
})

suite('pausing, resuming and cancelling', () => {
  interface Transition {
    from: Partial<Task>
    pause: string
    resume: string
  }
  const SLOT = '2026-01-01T09:00:00.000Z'
  const daily = { cron: '0 9 * * *' }
  const TRANSITIONS: Record<string, Transition> = {
    'an active task': {
      from: { ...daily, status: 'active' },
      pause: `paused 0 9 * * * ${JAN_1}`,
      resume: `active 0 9 * * * ${JAN_1}`,
    },
    'a paused task resumes with its next slot': {
      from: { ...daily, status: 'paused' },
      pause: `paused 0 9 * * * ${JAN_1}`,
      resume: `active 0 9 * * * ${SLOT}`,
    },
    'a paused one-time task is still due': {
      from: { status: 'paused' },
      pause: `paused (once) ${JAN_1}`,
      resume: `active (once) ${JAN_1}`,
    },
    'a firing task can be paused': {
      from: { ...daily, status: 'firing' },
      pause: `paused 0 9 * * * ${JAN_1}`,
      resume: `firing 0 9 * * * ${JAN_1}`,
    },
    'a firing one-time task cannot be paused': {
      from: { status: 'firing' },
      pause: `firing (once) ${JAN_1}`,
      resume: `firing (once) ${JAN_1}`,
    },
    'a completed task stays completed': {
      from: { status: 'completed' },
      pause: `completed (once) ${JAN_1}`,
      resume: `completed (once) ${JAN_1}`,
    },
  }
  for (const [sentence, { from, pause: paused, resume: resumed }] of Object.entries(TRANSITIONS)) {
    test(sentence, async (t) => {
      for (const [verb, status, after] of [
        [pause, 'paused', paused],
        [resume, 'active', resumed],
      ] as const) {
        const at = await openHost(t)
        await addTask(at, from)
        assert.deepEqual(await at.as(agent('team')).call(verb, { id: 't' }), { ok: true })
        assert.equal(await stateOf(at), after)
        // A PATCH over REST has the same effect.
        await addTask(at, { ...from, id: 'rest' })
        await at.as(admin).call(update, { id: 'rest', status })
        assert.equal(await stateOf(at, 'rest'), after)
      }
    })
  }

  test('slots missed during a pause are skipped', async (t) => {
    const at = await openHost(t)
    await addTask(at, { cron: String(HOUR), status: 'paused' })
    at.clock.advance(10.5 * HOUR)
    await at.as(agent('team')).call(resume, { id: 't' })
    assert.equal(await stateOf(at), `active ${HOUR} 2026-01-01T11:30:00.000Z`)
  })
})

onEveryEngine('tasks', (engine) => {
  test('a missing task cannot be paused or cancelled, and resuming it does nothing', async (t) => {
    const at = await openHost(t, engine)
    for (const verb of [pause, cancel])
      await assert.rejects(
        at.as(agent('team')).call(verb, { id: 'none' }),
        isRefusal('not_found', 'there is no task none'),
      )
    assert.deepEqual(await at.as(agent('team')).call(resume, { id: 'none' }), { ok: true })
    await assert.rejects(at.as(agent('a/b/c')).call(resume, { id: 'none' }), isRefusal('forbidden'))
  })

  test("a folder cannot change another folder's task", async (t) => {
    const at = await openHost(t, engine)
    for (const caller of [agent('other'), person('github:2')]) {
      const [id, refusal] = ['team-mem-0', isRefusal('not_found', 'there is no task team-mem-0')]
      for (const verb of [pause, resume, cancel]) await assert.rejects(at.as(caller).call(verb, { id }), refusal)
      // An agent without the tool is refused for its own folder.
      const isAgent = caller.kind === 'agent'
      const updated = at.as(caller).call(update, { id, prompt: 'Else.' })
      await assert.rejects(updated, isAgent ? isRefusal('forbidden', 'on other') : refusal)
    }
    assert.equal((await find(at, 'team-mem-0'))?.status, 'active')
  })

  test('cancelling deletes the run log', async (t) => {
    const at = await openHost(t, engine)
    await addTask(at, {})
    const log = { id: 'l', task_id: 't', run_at: JAN_1, duration_ms: 1, status: 'ok' }
    await at.host.engine.transaction((tx) => taskRunLogs.insert(tx, log))
    assert.deepEqual(await at.as(admin).call(cancel, { id: 't' }), { ok: true })
    assert.deepEqual(await at.host.engine.read((tx) => taskRunLogs.list(tx)), [])
  })

  test('REST can change the prompt, the schedule and the mode', async (t) => {
    const at = await openHost(t, engine)
    await addTask(at, { cron: '0 9 * * *' })
    const changed = await at
      .as(admin)
      .call(update, { id: 't', prompt: 'Else.', cron: '60000', context_mode: 'isolated' })
    assert.deepEqual(changed, await find(at, 't'))
    assert.deepEqual(
      [changed.prompt, changed.cron, changed.next_run, changed.context_mode, changed.status],
      ['Else.', '60000', '2026-01-01T00:01:00.000Z', 'isolated', 'active'],
    )
    const once = await at.as(admin).call(update, { id: 't', cron: '2026-06-01T00:00:00Z' })
    assert.deepEqual([once.cron, once.next_run], [undefined, '2026-06-01T00:00:00.000Z'])
    assert.deepEqual(await at.as(admin).call(update, { id: 't' }), once)
    for (const [input, sentence] of [
      [{ cron: '61 * * * *' }, 'invalid cron'],
      [{ prompt: ' ' }, 'prompt must not be empty'],
      [{ status: 'completed' }, 'status must be one of active, paused'],
      [{ owner: 'other' }, 'unknown field "owner"'],
      [{ next_run: JAN_1 }, 'unknown field "next_run"'],
    ] as const)
      await assert.rejects(at.as(admin).call(update, { id: 't', ...input }), isRefusal('invalid', sentence))
    assert.deepEqual(await find(at, 't'), once)
  })

  test('only a new schedule reactivates a completed task', async (t) => {
    const at = await openHost(t, engine)
    await addTask(at, { status: 'completed' })
    await at.as(admin).call(update, { id: 't', prompt: 'Else.', status: 'active' })
    assert.equal((await find(at, 't'))?.status, 'completed')
    await at.as(admin).call(update, { id: 't', cron: '2026-06-01T00:00:00Z' })
    assert.equal(await stateOf(at), 'active (once) 2026-06-01T00:00:00.000Z')
  })

  test('a paused task with a new schedule stays paused', async (t) => {
    const at = await openHost(t, engine)
    await addTask(at, { cron: '0 9 * * *', status: 'paused' })
    await at.as(admin).call(update, { id: 't', cron: '0 10 * * *' })
    assert.equal(await stateOf(at), 'paused 0 10 * * * 2026-01-01T10:00:00.000Z')
  })

  test('callers see the tasks of folders that they administer', async (t) => {
    const at = await openHost(t, engine)
    const owners = async (caller: Parameters<TestHost['as']>[0]) => {
      const { scheduled_tasks } = await at.as(caller).call(list, { limit: 1000 })
      return [...new Set(scheduled_tasks.map(({ owner }) => owner))].sort()
    }
    assert.deepEqual(await owners(agent('team')), ['team', 'team/a'])
    assert.deepEqual(await owners(admin), ['team', 'team/a'])
    assert.deepEqual(await owners(agent('main')), ['main', 'other', 'team', 'team/a'])
    assert.deepEqual(await owners(person('github:2')), [])
    await assert.rejects(owners(agent('a/b/c')), isRefusal('forbidden', 'tiers 0 to 1'))
  })

  test('each change and each refusal has one audit row, and nothing changes without it', async (t) => {
    const at = await openHost(t, engine)
    let id = ''
    const calls = await auditedCalls(at, async () => {
      id = (await at.as(agent('team')).call(schedule, { targetJid: 'team', prompt: 'Look.', cron: '60000' })).taskId
      await at.as(agent('team')).call(pause, { id })
      await at.as(agent('team')).call(resume, { id })
      await at
        .as(agent('other'))
        .call(pause, { id })
        .catch(() => {})
      await at.as(admin).call(update, { id, prompt: 'Else.' })
      await at.as(admin).call(list, {})
      await at.as(admin).call(cancel, { id })
    })
    assert.deepEqual(
      calls.map(({ action, key, outcome }) => `${action} ${key} ${outcome}`),
      [
        'scheduled_tasks.schedule team ok',
        `scheduled_tasks.pause ${id} ok`,
        `scheduled_tasks.resume ${id} ok`,
        `scheduled_tasks.pause ${id} denied`,
        `scheduled_tasks.update ${id} ok`,
        `scheduled_tasks.delete ${id} ok`,
      ],
    )
    await breakAudit(at)
    await assert.rejects(at.as(agent('team')).call(pause, { id: 'team-mem-0' }), /audit/)
    await assert.rejects(at.as(agent('team')).call(cancel, { id: 'team-mem-0' }), /audit/)
    assert.equal((await find(at, 'team-mem-0'))?.status, 'active')
  })

  test('the root can cancel tasks of a removed folder', async (t) => {
    const at = await openHost(t, engine)
    await at.cli.call(groupsResource.verbs.remove, { folder: 'other' })
    assert.deepEqual(await at.as(agent('main')).call(cancel, { id: 'other-mem-0' }), { ok: true })
  })
})
