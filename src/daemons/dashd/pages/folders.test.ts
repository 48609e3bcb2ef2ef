import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { serveDashboard } from '../../../../test/support/dashboard.ts'
import { followForm, postForm } from '../../../../test/support/dashboard-forms.ts'
import { groupDirs } from '../../../core/layout.ts'
import { groupsResource } from '../../../resources/groups.ts'

const textOf = async (response: Promise<Response>): Promise<string> => (await response).text()

suite('the page of folders', () => {
  test('lists the folders of a person, finds them, and exports them', async (t) => {
    const dash = await serveDashboard(t)
    await dash.cli.call(groupsResource.verbs.set, { folder: 'team', key: 'name', to: '<b>Team</b>' })
    const all = await textOf(dash.operator.get('/dash/folders'))
    for (const name of ['other', 'sub', '&lt;b&gt;Team&lt;/b&gt;']) assert.ok(all.includes(name), name)
    const own = await textOf(dash.admin.get('/dash/folders'))
    assert.ok(own.includes('/dash/folders/team/sub') && !own.includes('/dash/folders/other'))
    const found = await textOf(dash.operator.get('/dash/folders?search=SUB'))
    assert.ok(found.includes('/dash/folders/team/sub') && !found.includes('/dash/folders/other'))
    assert.match(await textOf(dash.operator.get('/dash/folders?search=zzz')), /No folder matches/)
    const rows = JSON.parse(await textOf(dash.admin.get('/dash/folders?format=json')))
    assert.deepEqual(
      rows.map(({ folder, state }: { folder: string; state: string }) => [folder, state]),
      [
        ['team', 'idle'],
        ['team/sub', 'idle'],
      ],
    )
    const hidden = await dash.stranger.get('/dash/folders')
    assert.equal(hidden.status, 404)
    assert.ok(!(await hidden.text()).includes('team'))
  })

  test('creates a folder with its workspace, for those who may', async (t) => {
    const dash = await serveDashboard(t)
    const { layout } = dash.host
    assert.ok(layout)
    const create = { action: 'create', folder: 'sales', name: 'Sales', product: 'support' }
    const page = await followForm(dash.operator, '/dash/folders', create)
    assert.match(page, /Folder sales created\./)
    assert.ok(existsSync(join(groupDirs(layout, 'sales').home, 'PERSONA.md')))
    const again = await postForm(dash.operator, '/dash/folders', create)
    assert.equal(again.status, 409)
    assert.match(await again.text(), /There is a group sales already/)
    assert.equal((await postForm(dash.admin, '/dash/folders', { ...create, folder: 'mine' })).status, 403)
    assert.equal((await postForm(dash.stranger, '/dash/folders', { ...create, folder: 'x' })).status, 404)
    assert.ok(!existsSync(groupDirs(layout, 'mine').home))
    assert.match(await textOf(dash.admin.get('/dash/folders')), /value="team\/"/)
  })
})
