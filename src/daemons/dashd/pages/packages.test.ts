import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { serveDashboard } from '../../../../test/support/dashboard.ts'
import { signingKeys } from '../../../core/secrets/signing-keys.ts'
import { installedPackagesResource } from '../../../resources/installed-packages.ts'

suite('the page of packages', () => {
  test('shows installed packages, and installs only by the command line', async (t) => {
    const dash = await serveDashboard(t)
    const empty = await (await dash.operator.get('/dash/packages')).text()
    assert.ok(empty.includes('data-copy="svc packages test install &lt;source&gt;"'))
    await dash.cli.call(installedPackagesResource.verbs.install, {
      name: 'gateway',
      source: '/srv/<b>gateway</b>',
      revision: 'abc',
      services: ['litellm'],
    })
    const page = await (await dash.operator.get('/dash/packages')).text()
    assert.ok(page.includes('services: litellm') && page.includes('/srv/&lt;b&gt;gateway'))
    assert.equal((await dash.operator.post('/dash/packages', { action: 'install' })).status, 405)
    for (const browser of [dash.admin, dash.stranger]) assert.equal((await browser.get('/dash/packages')).status, 404)
  })
})

suite('the page of signing keys', () => {
  test('lists keys and creates a new one after a confirmation', async (t) => {
    const dash = await serveDashboard(t)
    const kids = async () => (await dash.host.engine.read((tx) => signingKeys.list(tx))).map(({ kid }) => kid)
    const asked = await dash.operator.post('/dash/keys', { action: 'rotate', now: 'true' })
    assert.match(await asked.text(), /End all earlier keys now\?/)
    const before = await kids()
    const rotated = await dash.operator.post('/dash/keys', { action: 'rotate', confirmed: 'yes' })
    assert.equal(rotated.status, 303)
    const created = (await kids()).filter((kid) => !before.includes(kid))
    assert.equal(created.length, 1)
    const page = await (await dash.operator.get('/dash/keys')).text()
    assert.ok(page.includes(created[0] ?? '?') && !page.includes('private'))
    for (const browser of [dash.admin, dash.stranger]) {
      assert.equal((await browser.get('/dash/keys')).status, 404)
      assert.equal((await browser.post('/dash/keys', { action: 'rotate', confirmed: 'yes' })).status, 404)
    }
  })
})
