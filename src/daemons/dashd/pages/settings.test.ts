import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { serveDashboard } from '../../../../test/support/dashboard.ts'

suite('the page of settings', () => {
  test('shows every setting with its origin, and no secret', async (t) => {
    const dash = await serveDashboard(t, { settings: { LOG_LEVEL: 'warn', TTS_KEY: 'hidden-value' } })
    const page = await (await dash.operator.get('/dash/settings')).text()
    assert.ok(page.includes('MAX_CONCURRENT_TURNS') && page.includes('<strong>warn</strong>'))
    assert.ok(page.includes('the test') && !page.includes('hidden-value'))
    const only = await (await dash.operator.get('/dash/settings?only=set')).text()
    assert.ok(only.includes('TTS_KEY') && !only.includes('MAX_CONCURRENT_TURNS'))
    const found = await (await dash.operator.get('/dash/settings?q=lowest+level')).text()
    assert.ok(found.includes('LOG_LEVEL') && !found.includes('TTS_KEY'))
    const rows = JSON.parse(await (await dash.operator.get('/dash/settings?format=json&only=set')).text())
    const key = rows.find(({ setting }: { setting: string }) => setting === 'TTS_KEY')
    assert.deepEqual([key.value, key.origin], ['(secret)', 'the test'])
  })

  test('does not exist for administrators of a folder and for strangers', async (t) => {
    const dash = await serveDashboard(t)
    for (const browser of [dash.admin, dash.stranger]) assert.equal((await browser.get('/dash/settings')).status, 404)
  })
})
