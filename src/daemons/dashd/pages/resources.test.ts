import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { serveDashboard } from '../../../../test/support/dashboard.ts'
import { onboardingGates } from '../../../core/people/onboarding-gates.ts'
import { resources } from '../../../resources/index.ts'
import { shapeOf } from './resources.ts'

const GATES = '/dash/resources/onboarding_gates'

suite('pages of resources', () => {
  test('list, create, change and delete rows from the declaration alone', async (t) => {
    const { operator, host } = await serveDashboard(t)
    const gates = () => host.engine.read((tx) => onboardingGates.list(tx))
    const empty = await (await operator.get(GATES)).text()
    assert.match(empty, /name="spec"/)
    assert.match(empty, /<input type="number"[^>]* name="daily_limit"/)
    const created = await operator.post(GATES, { action: 'create', spec: 'team/**', daily_limit: '3', enabled: 'true' })
    assert.equal(created.status, 303)
    assert.deepEqual(await gates(), [{ spec: 'team/**', daily_limit: 3, enabled: true }])
    const edit = await (await operator.get(`${GATES}?edit=${encodeURIComponent('team/**')}`)).text()
    assert.match(edit, /<input type="number"[^>]* name="daily_limit"[^>]* value="3"/)
    const changed = await operator.post(GATES, { action: 'update', spec: 'team/**', daily_limit: '5' })
    assert.equal(changed.status, 303)
    assert.equal((await gates())[0]?.daily_limit, 5)
    const bad = await operator.post(GATES, { action: 'update', spec: 'team/**', daily_limit: 'many' })
    assert.equal(bad.status, 400)
    assert.match(await bad.text(), /daily_limit/)
    const asked = await operator.post(GATES, { action: 'remove', spec: 'team/**' })
    assert.match(await asked.text(), /Delete team\/\*\* of onboarding_gates\?/)
    assert.equal((await gates()).length, 1)
    await operator.post(GATES, { action: 'remove', spec: 'team/**', confirmed: 'yes' })
    assert.deepEqual(await gates(), [])
  })

  test('have the filters of the list in the URL, and explain a wrong one', async (t) => {
    const { operator } = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const read = async (path: string): Promise<string> => (await operator.get(`/dash/resources/${path}`)).text()
    const own = await read('acl?principal=github%3Ateam-admin')
    assert.match(own, /<input type="search"[^>]* name="principal"[^>]* value="github:team-admin"/)
    assert.ok(own.includes('team/**') && !own.includes('role:operator'))
    const rows = JSON.parse(await read('acl?principal=github%3Ateam-admin&format=json'))
    assert.deepEqual(rows.map(({ scope }: { scope: string }) => scope).toSorted(), ['team', 'team/**'])
    const wrong = await read('audit?category=x')
    assert.match(wrong, /Category must be one of/)
    assert.match(wrong, /<select[^>]* name="category"/)
    assert.ok(!(await read('routes')).includes('resource-filters'))
  })

  test('exist for every resource with a list, without write-only columns', async (t) => {
    const { operator } = await serveDashboard(t)
    const index = await (await operator.get('/dash/resources')).text()
    for (const resource of resources) {
      const { status } = await operator.get(`/dash/resources/${resource.name}`)
      const isListed = index.includes(`"/dash/resources/${resource.name}"`)
      assert.equal(status, isListed ? 200 : 404, resource.name)
      assert.ok(!isListed || shapeOf(resource), resource.name)
    }
    assert.ok(index.includes('"/dash/resources/groups"') && index.includes('"/dash/resources/routes"'))
    assert.equal((await operator.get('/dash/resources/nothing')).status, 404)
    assert.ok(!(await (await operator.get('/dash/resources/secrets')).text()).includes('name="value"'))
  })

  test('show what only the reply has, such as a new bearer, once', async (t) => {
    const { operator } = await serveDashboard(t)
    const created = await operator.post('/dash/resources/bearers', { action: 'create', name: 'backup' })
    assert.equal(created.status, 200)
    assert.match(await created.text(), /shown only this once.*data-copy="eyJ/s)
    const listed = await (await operator.get('/dash/resources/bearers')).text()
    assert.ok(listed.includes('backup') && !listed.includes('eyJ'))
  })

  test('show administrators their own rows, and strangers nothing', async (t) => {
    const { admin, stranger, host } = await serveDashboard(t)
    const listed = await (await admin.get('/dash/resources/groups')).text()
    assert.ok(listed.includes('team/sub') && !listed.includes('id="groups-other"'))
    assert.equal((await admin.get(GATES)).status, 404)
    const refused = await admin.post(GATES, { action: 'create', spec: '**', daily_limit: '1' })
    assert.ok(refused.status === 403 || refused.status === 404, String(refused.status))
    assert.deepEqual(await host.engine.read((tx) => onboardingGates.list(tx)), [])
    for (const path of ['/dash/resources', '/dash/resources/groups', GATES])
      assert.equal((await stranger.get(path)).status, 404)
  })
})
