// Scheduled tasks: made, changed, paused, resumed and cancelled. Document 001 section 3, decision T4.
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

async function opened(...[t, engine]: Parameters<typeof testHost>): Promise<TestHost> {
  const at = await testHost(t, engine)
  await at.groups('main', 'team', 'team/a', 'other')
  await at.grant('github:1', 'admin', 'team/**')
  return at
}

async function find({ host }: TestHost, id: string) {
  return host.engine.read((tx) => scheduledTasks.find(tx, { id }))
}

/** A task in a state that only the scheduler makes. */
async function put({ host }: TestHost, task: Partial<Task>): Promise<void> {
  const row = { owner: 'team', chat_jid: 'team', prompt: 'Look.', context_mode: 'group' as const, created_at: JAN_1 }
  await host.engine.transaction((tx) =>
    scheduledTasks.insert(tx, { id: 't', status: 'active', next_run: JAN_1, ...row, ...task }),
  )
}

async function standing(at: TestHost, id = 't'): Promise<string> {
  const task = await find(at, id)
  return `${task?.status} ${task?.cron ?? '(once)'} ${task?.next_run ?? '(never)'}`
}

onEveryEngine('scheduling', (engine) => {
  test('the task belongs to the folder of its chat', async (t) => {
    const at = await opened(t, engine)
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

  test('an agent schedules for its own subtree, a person for what they administer', async (t) => {
    const at = await opened(t, engine)
    for (const caller of [agent('team'), admin]) {
      await at.as(caller).call(schedule, { targetJid: 'team/a', prompt: 'Look.' })
      await assert.rejects(
        at.as(caller).call(schedule, { targetJid: 'other', prompt: 'Look.' }),
        isRefusal('forbidden', 'on other'),
      )
    }
    // Nor is it told to whom a chat belongs.
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

  test('the same prompt at the same times in the same chat is one task, even when asked at once', async (t) => {
    const at = await opened(t, engine)
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

  test('a task speaks in the topic in which it was asked for, and in the main one of every other chat', async (t) => {
    const at = await opened(t, engine)
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

  test('single runs are each their own', async (t) => {
    const at = await opened(t, engine)
    const once = () => at.as(agent('team')).call(schedule, { targetJid: 'team', prompt: 'Look.' })
    assert.notEqual((await once()).taskId, (await once()).taskId)
  })

  test('a run is first due at its next slot, in the zone of the instance', async (t) => {
    const at = await opened(t, engine)
    const next = async (cron?: string) => {
      const { taskId } = await at
        .as(agent('team'))
        .call(schedule, { targetJid: 'team', prompt: 'x', ...(cron ? { cron } : {}) })
      return (await standing(at, taskId)).replace(/^active /, '')
    }
    assert.equal(await next(), `(once) ${JAN_1}`)
    assert.equal(await next('0 9 * * *'), '0 9 * * * 2026-01-01T09:00:00.000Z')
    assert.equal(await next('90000'), '90000 2026-01-01T00:01:30.000Z')
    assert.equal(await next('2027-01-01T00:00:00+01:00'), '(once) 2026-12-31T23:00:00.000Z')
    // Past is due at once, and once.
    assert.equal(await next('2020-01-01T00:00:00Z'), '(once) 2020-01-01T00:00:00.000Z')
  })
})

suite('pausing, resuming and cancelling', () => {
  interface Move {
    from: Partial<Task>
    pause: string
    resume: string
  }
  const SLOT = '2026-01-01T09:00:00.000Z'
  const daily = { cron: '0 9 * * *' }
  const MOVES: Record<string, Move> = {
    'an active task': {
      from: { ...daily, status: 'active' },
      pause: `paused 0 9 * * * ${JAN_1}`,
      resume: `active 0 9 * * * ${JAN_1}`,
    },
    'a paused task takes its next slot': {
      from: { ...daily, status: 'paused' },
      pause: `paused 0 9 * * * ${JAN_1}`,
      resume: `active 0 9 * * * ${SLOT}`,
    },
    'a paused single run is still due': {
      from: { status: 'paused' },
      pause: `paused (once) ${JAN_1}`,
      resume: `active (once) ${JAN_1}`,
    },
    'a task that fires just now fires no more': {
      from: { ...daily, status: 'firing' },
      pause: `paused 0 9 * * * ${JAN_1}`,
      resume: `firing 0 9 * * * ${JAN_1}`,
    },
    'a single run that fires just now is not held to fire again': {
      from: { status: 'firing' },
      pause: `firing (once) ${JAN_1}`,
      resume: `firing (once) ${JAN_1}`,
    },
    'what is over stays over': {
      from: { status: 'completed' },
      pause: `completed (once) ${JAN_1}`,
      resume: `completed (once) ${JAN_1}`,
    },
  }
  for (const [sentence, { from, pause: paused, resume: resumed }] of Object.entries(MOVES)) {
    test(sentence, async (t) => {
      for (const [verb, wish, after] of [
        [pause, 'paused', paused],
        [resume, 'active', resumed],
      ] as const) {
        const at = await opened(t)
        await put(at, from)
        assert.deepEqual(await at.as(agent('team')).call(verb, { id: 't' }), { ok: true })
        assert.equal(await standing(at), after)
        // The same wish over REST leads to the same.
        await put(at, { ...from, id: 'rest' })
        await at.as(admin).call(update, { id: 'rest', status: wish })
        assert.equal(await standing(at, 'rest'), after)
      }
    })
  }

  test('slots that went by in a pause are gone', async (t) => {
    const at = await opened(t)
    await put(at, { cron: String(HOUR), status: 'paused' })
    at.clock.advance(10.5 * HOUR)
    await at.as(agent('team')).call(resume, { id: 't' })
    assert.equal(await standing(at), `active ${HOUR} 2026-01-01T11:30:00.000Z`)
  })
})

onEveryEngine('tasks', (engine) => {
  test('what is not there cannot be paused or cancelled; resuming it does nothing', async (t) => {
    const at = await opened(t, engine)
    for (const verb of [pause, cancel])
      await assert.rejects(
        at.as(agent('team')).call(verb, { id: 'none' }),
        isRefusal('not_found', 'there is no task none'),
      )
    assert.deepEqual(await at.as(agent('team')).call(resume, { id: 'none' }), { ok: true })
    await assert.rejects(at.as(agent('a/b/c')).call(resume, { id: 'none' }), isRefusal('forbidden'))
  })

  test("another folder's task is its own", async (t) => {
    const at = await opened(t, engine)
    for (const caller of [agent('other'), person('github:2')]) {
      // Whose it is, is not told either: an agent without the tool is refused for its own folder.
      const [id, no] = ['team-mem-0', isRefusal('forbidden', /not permitted on (?:task team-mem-0$|other )/)]
      for (const verb of [pause, resume, cancel]) await assert.rejects(at.as(caller).call(verb, { id }), no)
      await assert.rejects(at.as(caller).call(update, { id, prompt: 'Else.' }), no)
    }
    assert.equal((await find(at, 'team-mem-0'))?.status, 'active')
  })

  test('cancelling takes the log of its runs along', async (t) => {
    const at = await opened(t, engine)
    await put(at, {})
    const log = { id: 'l', task_id: 't', run_at: JAN_1, duration_ms: 1, status: 'ok' }
    await at.host.engine.transaction((tx) => taskRunLogs.insert(tx, log))
    assert.deepEqual(await at.as(admin).call(cancel, { id: 't' }), { ok: true })
    assert.deepEqual(await at.host.engine.read((tx) => taskRunLogs.list(tx)), [])
  })

  test('over REST a task gets another prompt, other times, another mode', async (t) => {
    const at = await opened(t, engine)
    await put(at, { cron: '0 9 * * *' })
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

  test('a task that is over runs again when it gets new times, and only then', async (t) => {
    const at = await opened(t, engine)
    await put(at, { status: 'completed' })
    await at.as(admin).call(update, { id: 't', prompt: 'Else.', status: 'active' })
    assert.equal((await find(at, 't'))?.status, 'completed')
    await at.as(admin).call(update, { id: 't', cron: '2026-06-01T00:00:00Z' })
    assert.equal(await standing(at), 'active (once) 2026-06-01T00:00:00.000Z')
  })

  test('a paused task with new times stays paused', async (t) => {
    const at = await opened(t, engine)
    await put(at, { cron: '0 9 * * *', status: 'paused' })
    await at.as(admin).call(update, { id: 't', cron: '0 10 * * *' })
    assert.equal(await standing(at), 'paused 0 10 * * * 2026-01-01T10:00:00.000Z')
  })

  test('a list shows the tasks of what the caller may administer', async (t) => {
    const at = await opened(t, engine)
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

  test('one audit row for each change and each refusal, and no change without one', async (t) => {
    const at = await opened(t, engine)
    let id = ''
    const deeds = await auditedCalls(at, async () => {
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
      deeds.map(({ action, key, outcome }) => `${action} ${key} ${outcome}`),
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

  test('the tasks of a folder that is gone are still there for the root to cancel', async (t) => {
    const at = await opened(t, engine)
    await at.cli.call(groupsResource.verbs.remove, { folder: 'other' })
    assert.deepEqual(await at.as(agent('main')).call(cancel, { id: 'other-mem-0' }), { ok: true })
  })
})
