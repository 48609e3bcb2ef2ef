import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { serveDashboard } from '../../../../test/support/dashboard.ts'
import { routes } from '../../../core/routing/routes.ts'

suite('the page of the doctor', () => {
  test('shows what is wrong first, with the command that corrects it', async (t) => {
    const dash = await serveDashboard(t, { settings: { SECRETS_KEY: 'a key of the tests' } })
    await dash.host.engine.transaction((tx) => routes.append(tx, { seq: 0, match: '', target: 'missing' }))
    const page = await (await dash.operator.get('/dash/doctor')).text()
    assert.match(page, /leads to missing, which is not a group/)
    assert.match(page, /data-copy="svc route test rm \d+"/)
    assert.ok(page.includes('can be read and written'))
    const [first] = JSON.parse(await (await dash.operator.get('/dash/doctor?format=json')).text())
    assert.equal(first.status, 'wrong')
  })

  test('does not exist for administrators of a folder and for strangers', async (t) => {
    const dash = await serveDashboard(t)
    for (const browser of [dash.admin, dash.stranger]) assert.equal((await browser.get('/dash/doctor')).status, 404)
  })
})
