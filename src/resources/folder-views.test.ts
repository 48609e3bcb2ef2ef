// Verbs that the views of a folder read: its grants, routes, tasks and published pages.
import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, type TestCaller, type TestHost, testHost } from '../../test/support/host.ts'
import { groupDirs } from '../core/layout.ts'
import { taskRunLogs } from '../core/schedule/tasks.ts'
import { aclResource } from './acl.ts'
import { routesResource } from './routes.ts'
import { scheduledTasksResource } from './scheduled-tasks.ts'
import { webRoutesResource } from './web-routes.ts'

const atDashboard = (at: TestHost, sub: string): TestCaller => at.as({ kind: 'person', sub, session: 's' }, 'dash')

onEveryEngine('views of a folder', (engine) => {
  test('grants are those whose scope includes the folder, each with a sentence', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'team/sub', 'other')
    await at.grant('github:1', 'admin', 'team/**')
    await at.grant('github:2', 'interact', 't*')
    await at.grant('folder:other', 'mcp:send', 'team')
    await at.grant('github:3', 'admin', 'other/**')
    await at.grant('github:4', 'admin', 'team/sub')
    await at.grant('github:5', 'mcp:send', 'team/**', 'deny', 'jid=web:x')
    await at.grant('github:6', 'interact', '**/sub')
    const read = async (folder: string) => (await at.cli.call(aclResource.verbs.of_folder, { folder })).grants
    const own = (await read('team')).filter(({ principal }) => !principal.startsWith('role:'))
    assert.deepEqual(
      own.map(({ meaning, is_last_admin }) => [meaning, is_last_admin]),
      [
        ['The agent of other may use the tool send on team.', false],
        ['github:1 may administer team and all folders below it.', true],
        ['github:2 may talk to the folders t*.', false],
        ['github:5 must not use the tool send with jid=web:x on team and all folders below it.', false],
      ],
    )
    const below = (await read('team/sub')).filter(({ principal }) => principal.startsWith('github:'))
    assert.deepEqual(
      below.map(({ principal, is_last_admin }) => [principal, is_last_admin]),
      [
        ['github:1', false],
        ['github:4', false],
        ['github:5', false],
        ['github:6', false],
      ],
    )
    assert.ok(
      (await read('team')).some(({ meaning }) => meaning.startsWith('Operators may do everything in every folder')),
    )
  })

  test('routes of a folder can be moved, and a shadow of another folder is not named', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'other')
    await at.grant('github:1', 'admin', 'team/**')
    const { create, of_folder, move } = routesResource.verbs
    const admin = atDashboard(at, 'github:1')
    await at.cli.call(create, { match: 'platform=slack', target: 'other', seq: -5 })
    const ids: number[] = []
    for (const match of ['room=a', 'room=b', 'platform=slack room=c'])
      ids.push((await at.cli.call(create, { match, target: 'team' })).id)
    const read = async () => (await admin.call(of_folder, { folder: 'team' })).routes
    assert.deepEqual(
      (await read()).map(({ explain, shadowed_by }) => [explain, shadowed_by]),
      [
        ['Every message of room=a starts a turn of team.', undefined],
        ['Every message of room=b starts a turn of team.', undefined],
        ['Every message of platform=slack and room=c starts a turn of team.', 'another folder'],
      ],
    )
    await admin.call(move, { id: ids[1], to: 'up' })
    assert.deepEqual(
      (await read()).map(({ match }) => match),
      ['room=b', 'room=a', 'platform=slack room=c'],
    )
    await assert.rejects(admin.call(move, { id: ids[1], to: 'up' }), isRefusal('conflict', 'is first already'))
  })

  test('tasks have their next and last runs, and a person sees those of folders that they administer', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'other')
    await at.grant('github:1', 'admin', 'team/**')
    const { schedule, list_of, pause, run } = scheduledTasksResource.verbs
    const admin = atDashboard(at, 'github:1')
    const { taskId } = await admin.call(schedule, { targetJid: 'team', prompt: 'Report.', cron: '0 9 * * *' })
    await at.cli.call(schedule, { targetJid: 'other', prompt: 'Hidden.', cron: '0 9 * * *' })
    const read = async (input: object = {}) =>
      (await admin.call(list_of, input)).tasks.filter(({ id }) => id === taskId)
    const [task] = await read()
    assert.deepEqual([task?.next_runs.length, task?.last_run], [3, undefined])
    await admin.call(run, { id: taskId })
    await at.host.engine.transaction((tx) =>
      taskRunLogs.update(tx, { task_id: taskId }, { status: 'error', error: 'x' }),
    )
    assert.deepEqual((await read({ folder: 'team' }))[0]?.last_run?.status, 'error')
    await admin.call(pause, { id: taskId })
    assert.deepEqual((await read({ status: 'paused' }))[0]?.next_runs, [])
    assert.ok(!JSON.stringify(await admin.call(list_of, {})).includes('Hidden.'))
    await assert.rejects(admin.call(list_of, { folder: 'other' }), isRefusal('forbidden'))
    await assert.rejects(
      admin.call(schedule, { targetJid: 'other', prompt: 'x', cron: '0 9 * * *' }),
      isRefusal('forbidden'),
    )
  })

  test('published pages are listed with their paths, and links are not followed', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    const { layout } = at.host
    assert.ok(layout)
    const { webPub, webPriv } = groupDirs(layout, 'team')
    for (const path of [join(webPub, 'deep'), webPriv]) mkdirSync(path, { recursive: true })
    writeFileSync(join(webPub, 'deep', 'a b.html'), 'hello')
    writeFileSync(join(webPriv, 'x'), '')
    symlinkSync('/etc/passwd', join(webPriv, 'outside'))
    const { of_folder, create } = webRoutesResource.verbs
    await at.cli.call(create, { path_prefix: '/pub/team/', access: 'auth', folder: 'team' })
    const shown = await at.cli.call(of_folder, { folder: 'team' })
    assert.deepEqual(
      shown.files?.map(({ path, bytes }) => [path, bytes]),
      [
        ['/pub/team/deep/a%20b.html', 5],
        ['/priv/team/x', 0],
      ],
    )
    assert.deepEqual(
      [shown.routes.map(({ access }) => access), shown.hosts, shown.has_more_files],
      [['auth'], [], false],
    )
  })
})
