// Rows that a person cannot see are answered like rows that do not exist, over REST.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../test/support/host.ts'
import { json } from '../../test/support/link-host.ts'
import { serveHost } from '../../test/support/served-host.ts'
import { audit } from '../registry/audit.ts'
import { routesResource } from './routes.ts'
import { scheduledTasksResource } from './scheduled-tasks.ts'
import { webRoutesResource } from './web-routes.ts'

onEveryEngine('rows of another folder', (engine) => {
  test('are not found, are not told apart from missing rows, and leave a denial in the audit log', async (t) => {
    const s = await serveHost(t, { on: await testHost(t, engine), daemons: ['proxyd', 'routd'] })
    await s.groups('main', 'team', 'other')
    await s.grant('local:ada', 'admin', 'team')
    const ada = await s.bearer({ sub: 'local:ada' })
    const addRows = async (folder: string): Promise<readonly [path: string, missing: string, patch: object][]> => {
      const { id } = await s.cli.call(routesResource.verbs.create, { match: `room=${folder}`, target: folder })
      const { taskId } = await s.cli.call(scheduledTasksResource.verbs.schedule, { targetJid: folder, prompt: 'Look.' })
      const path_prefix = `/pub/${folder}/x`
      await s.cli.call(webRoutesResource.verbs.create, { path_prefix, access: 'public', folder })
      return [
        [`/v1/routes/${id}`, '/v1/routes/99999', { seq: 1 }],
        [`/v1/tasks/${taskId}`, '/v1/tasks/none', { status: 'paused' }],
        [`/v1/web_routes/${encodeURIComponent(path_prefix)}`, '/v1/web_routes/%2Fpub%2Fnone', { access: 'deny' }],
      ]
    }
    const answerTo = async (method: string, path: string, patch: object): Promise<[number, string]> => {
      const answer = await s.ask(path, ada, { method, ...(method === 'PATCH' ? json(patch) : {}) })
      const name = decodeURIComponent(path.split('/').at(-1) ?? '')
      // The key and the id of the request differ.
      return [
        answer.status,
        (await answer.text()).replaceAll(name, '…').replace(/"(?:instance|request_id)":"[^"]*"/g, ''),
      ]
    }
    for (const [theirs, missing, patch] of await addRows('other'))
      for (const method of ['PATCH', 'DELETE']) {
        const hidden = await answerTo(method, theirs, patch)
        assert.equal(hidden[0], 404, `${method} ${theirs}`)
        assert.deepEqual(hidden, await answerTo(method, missing, patch), `${method} ${theirs}`)
      }
    const denied = await s.host.engine.read((tx) => audit.list(tx, { category: 'authz' }, [['id', 'asc']]))
    assert.deepEqual(
      denied.map(({ action, outcome }) => `${action} ${outcome}`),
      ['routes', 'scheduled_tasks', 'web_routes'].flatMap((name) => [`${name}.update denied`, `${name}.delete denied`]),
    )
    assert.match(denied[0]?.error_msg ?? '', /not permitted on route \d+$/)

    // Rows of their own folder that a deny keeps from them are listed, so they are refused as such.
    const own = await addRows('team')
    for (const tool of ['delete_route', 'cancel_task', 'del_web_route', 'routes.update'])
      await s.grant('local:ada', `mcp:${tool}`, 'team', 'deny')
    for (const [path] of own) assert.equal((await answerTo('DELETE', path, {}))[0], 403, path)
    assert.equal((await answerTo('PATCH', own[0]?.[0] ?? '', { seq: 1 }))[0], 403)
    await s.grant('local:ada', 'mcp:list_routes', 'team', 'deny')
    assert.equal((await answerTo('DELETE', own[0]?.[0] ?? '', {}))[0], 404)
  })
})
