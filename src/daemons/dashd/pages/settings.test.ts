import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { serveDashboard } from '../../../../test/support/dashboard.ts'
import { followForm, postForm } from '../../../../test/support/dashboard-forms.ts'
import { until } from '../../../../test/support/until.ts'
import { storedSettings } from '../../../core/settings/stored-settings.ts'

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

suite('the form of settings', () => {
  test('saves all changes at once, keeps secrets, and says what needs a restart', async (t) => {
    const dash = await serveDashboard(t, { settings: { LOG_LEVEL: 'warn', SETTINGS_FIXED: 'TZ' }, isLive: true })
    const stored = async () => {
      const rows = await dash.host.engine.read((tx) => storedSettings.list(tx))
      return Object.fromEntries(rows.map(({ key, value }) => [key, value]))
    }
    const page = async (): Promise<string> => (await dash.operator.get('/dash/settings')).text()
    const markIn = (text: string): string =>
      /name="mark" value="([0-9a-f]{64})"/.exec(text)?.[1] ?? assert.fail('no mark')
    const shown = await page()
    assert.match(shown, /name="MAX_CONCURRENT_TURNS"[^>]*placeholder="4"/)
    assert.match(shown, /Concurrent turns of the instance\./)
    for (const key of ['SECRETS_KEY', 'WEB_LISTEN', 'SANDBOX', 'OPENAI_MODEL', 'TZ'])
      assert.ok(!shown.includes(`name="${key}"`), key)
    const save = (fields: Record<string, string>) =>
      postForm(dash.operator, '/dash/settings', { action: 'save', ...fields })
    const first = { MAX_CONCURRENT_TURNS: '8', LOG_LEVEL: 'debug', TTS_KEY: 's3cret', mark: markIn(shown) }
    const wrong = await save({ ...first, KEEP_TURNS: '1m' })
    assert.equal(wrong.status, 400)
    assert.match(await wrong.text(), /KEEP_TURNS must be 0 \(forever\) or at least 1h/)
    assert.deepEqual(await stored(), {})
    const done = await followForm(dash.operator, '/dash/settings', { action: 'save', ...first })
    assert.match(done, /Saved: .*MAX_CONCURRENT_TURNS.* Restart svc to use LOG_LEVEL, TTS_KEY\./)
    assert.ok(!done.includes('s3cret') && done.includes('Remove TTS_KEY'))
    assert.deepEqual(await stored(), { MAX_CONCURRENT_TURNS: '8', LOG_LEVEL: 'debug', TTS_KEY: 'sealed' })
    await until(() => dash.host.rules.turnsMax === 8)
    assert.equal((await save({ ...first, MAX_CONCURRENT_TURNS: '9' })).status, 409, 'another person has saved')
    const second = { LOG_LEVEL: '', TTS_KEY: '', MAX_CONCURRENT_TURNS: '8', mark: markIn(done) }
    const again = await followForm(dash.operator, '/dash/settings', { action: 'save', ...second })
    assert.deepEqual(await stored(), { MAX_CONCURRENT_TURNS: '8', TTS_KEY: 'sealed' })
    const third = { 'remove TTS_KEY': 'true', TTS_KEY: '', MAX_CONCURRENT_TURNS: '', mark: markIn(again) }
    await followForm(dash.operator, '/dash/settings', { action: 'save', ...third })
    assert.deepEqual(await stored(), {})
  })
})
