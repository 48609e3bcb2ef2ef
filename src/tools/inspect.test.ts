import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine } from '../../test/support/host.ts'
import { OTHER_ROOM, openSearchHost, ROOM, type SearchHost } from '../../test/support/search-host.ts'
import { scheduledTasks, taskRunLogs } from '../core/schedule/tasks.ts'
import { conversations, sessionLog } from '../core/turns/conversations.ts'

interface Routing {
  routes: { id: number; match: string; target: string; mode: string; explain: string; shadowed_by?: number }[]
  errored?: { chat_jid: string; count: number; last_at: string; routed_to: string | null }[]
  jid?: string
  resolved_folder?: string
}

const AT = '2026-01-01T00:00:00.000Z'

async function addTask(here: SearchHost, id: string, owner: string, created_at = AT): Promise<void> {
  const task = { id, owner, chat_jid: owner, prompt: 'look', context_mode: 'group', created_at } as const
  await here.host.engine.transaction((tx) =>
    scheduledTasks.insert(tx, { ...task, status: 'active', cron: '0 9 * * *' }),
  )
}

const inspections = ['inspect_routing', 'inspect_session', 'inspect_tasks', 'inspect_identity'] as const
const plain = { inspect_identity: { sub: 'github:1' } } as Record<string, Record<string, unknown>>

onEveryEngine('inspect tools', (engine) => {
  test('describe the routes of the folder and filter before they apply the limit', async (t) => {
    const here = await openSearchHost(t, engine)
    for (let count = 0; count < 60; count++) await here.addRoute(`room=x${count}`, 'other', -5)
    await here.addRoute('room=room/1 verb=mention', 'team/sub', 7)
    await here.addRoute('', 'builtin:drop', 8)
    const team = (await (await here.open()).call('inspect_routing')) as Routing
    assert.deepEqual(
      team.routes.map(({ match, target, mode }) => [match, target, mode]),
      [
        ['room=room/1', 'team', 'trigger'],
        ['room=room/1 verb=mention', 'team/sub', 'trigger'],
      ],
    )
    assert.equal(team.routes[1]?.shadowed_by, team.routes[0]?.id)
    assert.equal(team.routes[0]?.explain, 'Every message of room=room/1 starts a turn of team.')
    assert.deepEqual(Object.keys(team), ['routes'])
    const main = await here.open('main')
    const count = async (limit?: unknown) =>
      ((await main.call('inspect_routing', limit === undefined ? {} : { limit })) as Routing).routes.length
    assert.deepEqual([await count(), await count(0), await count(-1), await count(201)], [50, 1, 1, 64])
    assert.equal(await count(1e9), 64)
  })

  test('resolve the folder of a chat only for folders that reach it', async (t) => {
    const here = await openSearchHost(t, engine)
    const ask = async (folder: string, jid: string) => {
      const { jid: same, resolved_folder } = (await (
        await here.open(folder)
      ).call('inspect_routing', { jid })) as Routing
      assert.equal(same, jid)
      return resolved_folder
    }
    assert.deepEqual(
      [await ask('team', ROOM), await ask('team', OTHER_ROOM), await ask('team', 'x:1')],
      ['team', undefined, undefined],
    )
    assert.deepEqual(
      [await ask('main', OTHER_ROOM), await ask('team', 'web:team/sub'), await ask('other', 'other')],
      ['other', 'team/sub', 'other'],
    )
  })

  test('count failures per chat, for the folders within reach', async (t) => {
    const here = await openSearchHost(t, engine)
    await here.receive('a', { state: 'failed', reason: 'no' })
    await here.receive('b', { state: 'failed', reason: 'no' })
    await here.receive('c')
    await here.receive('d', { jid: OTHER_ROOM, folder: 'other', state: 'failed' })
    await here.receive('e', { jid: 'web:team/sub', folder: 'team/sub', state: 'failed' })
    const errored = async (folder: string, limit = 50) =>
      ((await (await here.open(folder)).call('inspect_routing', { limit })) as Routing).errored
    assert.deepEqual(await errored('team'), [
      { chat_jid: 'web:team/sub', count: 1, last_at: '2026-01-01T00:00:00.005Z', routed_to: 'team/sub' },
      { chat_jid: ROOM, count: 2, last_at: '2026-01-01T00:00:00.002Z', routed_to: 'team' },
    ])
    assert.equal((await errored('main'))?.length, 3)
    assert.equal((await errored('main', 1))?.length, 1)
    assert.deepEqual(
      (await errored('other'))?.map(({ chat_jid }) => chat_jid),
      [OTHER_ROOM],
    )
  })

  test('show a session with its latest turns, newest first', async (t) => {
    const here = await openSearchHost(t, engine)
    const tools = await here.open()
    assert.deepEqual(await tools.call('inspect_session'), { folder: 'team', topic: '', session_id: null, recent: [] })
    await here.host.engine.transaction(async (tx) => {
      const idle = { folder: 'team', waiting: 0, observed_seq: 0, updated_at: AT }
      await conversations.insert(tx, { ...idle, topic: '', session_id: 's-main' })
      await conversations.insert(tx, { ...idle, topic: 't', session_id: 's-t' })
      for (let count = 1; count <= 12; count++)
        await sessionLog.append(tx, {
          ...{
            folder: 'team',
            topic: '',
            session_id: 's-main',
            turn_id: `turn-${count}`,
            event: 'turn',
            message_count: 1,
          },
          ...{ result: count === 12 ? 'failed' : 'answered', started_at: AT, ended_at: AT },
          ...(count === 12 ? { error: 'it broke' } : {}),
        })
      const reset = { event: 'reset', message_count: 0, started_at: AT, ended_at: AT } as const
      await sessionLog.append(tx, { folder: 'team', topic: 't', ...reset })
      await sessionLog.append(tx, { folder: 'other', topic: '', ...reset })
    })
    const shown = (await tools.call('inspect_session')) as { session_id: string; recent: Record<string, unknown>[] }
    assert.equal(shown.session_id, 's-main')
    assert.equal(shown.recent.length, 10)
    assert.deepEqual(shown.recent[0], {
      ...{ id: 12, session_id: 's-main', turn_id: 'turn-12', event: 'turn', message_count: 1, result: 'failed' },
      ...{ error: 'it broke', started_at: AT, ended_at: AT },
    })
    const topic = (await tools.call('inspect_session', { topic: 't', limit: 5 })) as typeof shown
    assert.deepEqual([topic.session_id, topic.recent.map(({ event }) => event)], ['s-t', ['reset']])
    for (const [limit, count] of [
      [0, 1],
      [-1, 1],
      [101, 12],
      [1e9, 12],
      [3, 3],
    ])
      assert.equal(((await tools.call('inspect_session', { limit })) as typeof shown).recent.length, count)
    assert.match(await tools.refusal('inspect_session', { topic: 'x'.repeat(129) }), /^topic /)
  })

  test('list the tasks of the folder and those below, or the latest runs of one', async (t) => {
    const here = await openSearchHost(t, engine)
    await addTask(here, 'task-1', 'team')
    await addTask(here, 'task-2', 'team/sub', '2026-01-02T00:00:00.000Z')
    await addTask(here, 'task-3', 'other')
    await here.host.engine.transaction(async (tx) => {
      for (let count = 1; count <= 60; count++)
        await taskRunLogs.insert(tx, {
          ...{ id: `run-${String(count).padStart(3, '0')}`, task_id: 'task-2', run_at: AT, duration_ms: count },
          ...{ status: 'success', result: 'done' },
        })
    })
    interface Tasks {
      tasks: { id: string }[]
      runs?: { id: string }[]
    }
    const ids = async (folder: string, args: Record<string, unknown> = {}) => {
      const { tasks, runs } = (await (await here.open(folder)).call('inspect_tasks', args)) as Tasks
      assert.equal(runs, undefined)
      // Ignores the default tasks of each group.
      return tasks
        .map(({ id }) => id)
        .filter((id) => id.startsWith('task-'))
        .join(' ')
    }
    assert.equal(await ids('team'), 'task-2 task-1')
    assert.equal(await ids('team', { limit: 1 }), 'task-2')
    assert.equal(await ids('team', { limit: 0 }), 'task-2')
    assert.equal(await ids('other'), 'task-3')
    assert.equal(await ids('main'), 'task-2 task-3 task-1')
    const team = await here.open()
    const one = (await team.call('inspect_tasks', { task_id: 'task-2' })) as Tasks
    assert.deepEqual([one.tasks.map(({ id }) => id), one.runs?.length, one.runs?.[0]?.id], [['task-2'], 50, 'run-060'])
    assert.deepEqual(one.runs?.[0], {
      ...{ id: 'run-060', task_id: 'task-2', run_at: AT, duration_ms: 60, status: 'success', result: 'done' },
    })
    const all = (await team.call('inspect_tasks', { task_id: 'task-2', limit: 201 })) as Tasks
    assert.equal(all.runs?.length, 60)
    assert.deepEqual(((await team.call('inspect_tasks', { task_id: 'task-1' })) as Tasks).runs, [])
    assert.equal(await team.refusal('inspect_tasks', { task_id: 'task-9' }), 'there is no task task-9')
    assert.equal(await team.refusal('inspect_tasks', { task_id: 'task-3' }), 'there is no task task-3')
    assert.equal(await team.refusal('inspect_tasks', { task_id: '' }), 'task_id must not be empty')
    await here.grant('folder:team', 'mcp:inspect_tasks', 'team/sub', 'deny')
    assert.equal(await ids('team'), 'task-1')
  })

  test('show the subs of one person, and none for an unknown sub', async (t) => {
    const here = await openSearchHost(t, engine)
    const tools = await here.open()
    const sub = 'github:1'
    assert.deepEqual(await tools.call('inspect_identity', { sub }), { sub, identity: null, subs: [] })
    const id = await here.claim(sub, { name: 'Ann' })
    here.clock.advance(1)
    await here.claim('telegram:2', { id })
    assert.deepEqual(await tools.call('inspect_identity', { sub: 'telegram:2' }), {
      sub: 'telegram:2',
      identity: { id, name: 'Ann', created_at: AT },
      subs: [sub, 'telegram:2'],
    })
    assert.equal(await tools.refusal('inspect_identity'), 'sub is required')
    assert.equal(
      await tools.refusal('inspect_identity', { sub: 'nobody' }),
      'sub must look like provider:id, such as github:42',
    )
  })

  test('refuse unknown arguments and denied callers', async (t) => {
    const here = await openSearchHost(t, engine)
    await here.groups('team/sub/x', 'team/sub/x/y')
    const [tools, low] = [await here.open(), await here.open('team/sub/x/y')]
    for (const tool of inspections) {
      const args = plain[tool] ?? {}
      await tools.call(tool, args)
      assert.equal(await tools.refusal(tool, { ...args, more: 1 }), 'unknown field "more"')
      if (tool !== 'inspect_identity')
        assert.equal(await tools.refusal(tool, { limit: '10' }), 'limit must be a number')
      assert.ok(!(await low.names()).includes(tool))
      await here.grant('folder:team', `mcp:${tool}`, 'team', 'deny')
      assert.match(await tools.refusal(tool, args), new RegExp(`^${tool}: not permitted on team`))
    }
    assert.match(await (await here.open('main')).refusal('inspect_routing', { jid: '..' }), /^jid must be names/)
  })
})
