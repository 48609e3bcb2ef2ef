import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { type Dashboard, serveDashboard } from '../../../../test/support/dashboard.ts'
import { postForm } from '../../../../test/support/dashboard-forms.ts'
import { openTelegramServer, TELEGRAM_TOKEN } from '../../../../test/support/telegram-server.ts'
import { channelAccounts } from '../../../core/delivery/channel-accounts.ts'
import type { HealthReport } from '../../../core/delivery/channel-registrations.ts'
import { channelRegistrations, recordHealth, registerChannel } from '../../../core/delivery/channel-registrations.ts'
import { outbox } from '../../../core/delivery/outbox.ts'
import { channelSecrets } from '../../../core/secrets/channel-secrets.ts'
import { audit } from '../../../registry/audit.ts'

const EVIL = `<img src=x onerror="alert(1)">`

async function fill({ host }: Dashboard): Promise<void> {
  await host.engine.transaction(async (tx) => {
    await registerChannel(tx, host, {
      name: 'bridge',
      url: 'http://127.0.0.1:9',
      jid_prefixes: ['telegram:'],
      capabilities: { send: true },
      secret_name: undefined,
    })
    const at = '2026-01-01T00:00:00.000Z'
    for (const [seq, state] of (['failed', 'pending'] as const).entries())
      await outbox.insert(tx, {
        ...{ message_seq: 900 + seq, id: `message-${state}`, jid: 'telegram:1', topic: '', folder: 'team' },
        ...{ action: 'send', payload: '{}', engages: false, state, attempts: 2, next_at: 9e12, fence: 0 },
        ...{ leased_until: 0, error: `${EVIL} ${state}`, created_at: at, updated_at: at },
      })
  })
}

async function recordReport({ host }: Dashboard, report: HealthReport): Promise<void> {
  await host.engine.transaction(async (tx) => {
    const row = await channelRegistrations.find(tx, { name: 'bridge' })
    assert.ok(row)
    await recordHealth(tx, host, row, { isAlive: true, report })
  })
}

suite('the page of channels', () => {
  test('shows adapters with health and what was not delivered, as text', async (t) => {
    const dash = await serveDashboard(t)
    await fill(dash)
    const failed = await (await dash.operator.get('/dash/channels')).text()
    assert.match(failed, /bridge/)
    assert.match(failed, /<span class="badge (ok|fault)">(healthy|failing)<\/span>/)
    assert.match(failed, /href="\/dash\/messages\/message-failed"/)
    assert.ok(!failed.includes(EVIL) && failed.includes('&lt;img'), 'the error of an adapter is escaped')
    assert.ok(!failed.includes('message-pending'))
    const waiting = await (await dash.operator.get('/dash/channels?kind=waiting')).text()
    assert.ok(waiting.includes('message-pending') && !waiting.includes('message-failed'))
    const json = JSON.parse(await (await dash.operator.get('/dash/channels?format=json')).text())
    assert.equal(json[0].message, 'message-failed')
    assert.ok(failed.includes('aria-label="Retry message message-failed"') && !waiting.includes('value="retry"'))
  })

  test('connects an account that the platform accepts, and no other', async (t) => {
    const telegram = await openTelegramServer(t)
    const dash = await serveDashboard(t, { settings: { TELEGRAM_API_URL: telegram.url } })
    const path = '/dash/channels?connect=telegram'
    assert.match(await (await dash.operator.get(path)).text(), /<input[^>]*type="password"[^>]*name="token"/)
    const mailbox = await (await dash.operator.get('/dash/channels?connect=email')).text()
    for (const name of ['address', 'imap', 'smtp', 'user', 'password', 'authserv', 'dm'])
      assert.ok(mailbox.includes(`name="${name}"`), name)
    const connect = async (token: string, more = {}): Promise<Response> =>
      postForm(dash.operator, path, {
        action: 'connect',
        platform: 'telegram',
        token,
        dm: 'open',
        account: '',
        ...more,
      })
    const malformed = await connect('a token')
    assert.equal(malformed.status, 400)
    const shown = await malformed.text()
    assert.match(shown, /The token of the bot must look like 123456789:AAE…/)
    assert.ok(!shown.includes('a token'))
    const refused = await connect(TELEGRAM_TOKEN.replace('stand-in', 'stand-up'))
    assert.match(await refused.text(), /Telegram does not accept this token/)
    assert.equal(await dash.host.engine.read((tx) => channelAccounts.count(tx)), 0)
    const connected = await (await connect(TELEGRAM_TOKEN, { account: 'work' })).text()
    assert.match(connected, /telegram-work is connected/)
    assert.match(connected, /It is @ada_test_bot \(Ada\)/)
    assert.match(connected, /href="https:\/\/t\.me\/ada_test_bot\?startgroup=true"/)
    const row = await dash.host.engine.read((tx) => channelAccounts.find(tx, { account: 'telegram-work' }))
    assert.deepEqual(row?.settings, { dm: 'open' })
    const page = await (await dash.operator.get('/dash/channels')).text()
    assert.match(page, /telegram-work.*everyone/s)
    assert.ok(![connected, page].some((text) => text.includes(TELEGRAM_TOKEN)))
    const saved = { action: 'set_account', account: 'telegram-work', name: 'dm', value: 'allowlist' }
    await postForm(dash.operator, '/dash/channels?account=telegram-work', saved)
    const changed = await dash.host.engine.read((tx) => channelAccounts.find(tx, { account: 'telegram-work' }))
    assert.deepEqual(changed?.settings, { dm: 'allowlist' })
    const again = await (await dash.operator.get('/dash/channels?account=telegram-work')).text()
    assert.match(again, /<option value="allowlist" selected>/)
    assert.doesNotMatch(again, /<\/form>\$/)
    assert.equal((await dash.operator.get('/dash/channels?account=telegram-gone')).status, 200)
  })

  test('shows the connection of an adapter and the QR code of a sign-in, to operators only', async (t) => {
    const dash = await serveDashboard(t)
    await fill(dash)
    const report = { state: 'login_needed', detail: EVIL, since: '2026-01-01T00:00:00.000Z', qr: '2@the-code' } as const
    await recordReport(dash, report)
    const page = await (await dash.operator.get('/dash/channels')).text()
    assert.match(page, /<span class="badge fault">login needed<\/span> since /)
    assert.match(page, /<div class="qr" role="img" aria-label="QR code for a sign-in"><svg /)
    assert.ok(!page.includes(EVIL) && page.includes('&lt;img') && !page.includes('the-code'))
    for (const path of ['/dash/channels?format=json', '/dash/', '/dash/doctor', '/dash/audit'])
      assert.ok(!(await (await dash.operator.get(path)).text()).includes('the-code'), path)
    const home = await (await dash.operator.get('/dash/')).text()
    assert.ok(home.includes('needs a sign-in at its platform') && !home.includes(EVIL))
    await recordReport(dash, { state: 'ok' })
    const later = await (await dash.operator.get('/dash/channels')).text()
    assert.ok(later.includes('<span class="badge ok">ok</span>') && !later.includes('class="qr"'))
    assert.ok(!(await (await dash.operator.get('/dash/')).text()).includes('needs a sign-in'))
  })

  test('creates, rotates and deletes a secret, and shows it once', async (t) => {
    const dash = await serveDashboard(t)
    const { operator, host } = dash
    const secretIn = (text: string): string => /data-copy="([\w-]{43})"/.exec(text)?.[1] ?? ''
    const made = await operator.post('/dash/channels', { action: 'add', name: 'bridge', platforms: 'discord, slack' })
    const first = secretIn(await made.text())
    assert.deepEqual([made.status, first === ''], [200, false])
    assert.ok(!(await (await operator.get('/dash/channels')).text()).includes(first))
    const again = await operator.post('/dash/channels', { action: 'add', name: 'bridge', platforms: 'discord' })
    assert.equal(again.status, 409)
    assert.match(await again.text(), /the adapter bridge has a secret already/i)
    const asked = await operator.post('/dash/channels', { action: 'rotate', name: 'bridge' })
    assert.match(await asked.text(), /Replace the secret of bridge\?/)
    const rotated = await operator.post('/dash/channels', { action: 'rotate', name: 'bridge', confirmed: 'yes' })
    const second = secretIn(await rotated.text())
    assert.ok(second !== '' && second !== first)
    const removed = await operator.post('/dash/channels', { action: 'remove', name: 'bridge', confirmed: 'yes' })
    assert.equal(removed.status, 303)
    assert.deepEqual(await host.engine.read((tx) => channelSecrets.list(tx)), [])
    const audited = (await host.engine.read((tx) => audit.list(tx))).filter(
      ({ resource }) => resource === 'channel_secrets',
    )
    assert.ok(!JSON.stringify(audited).includes(first) && audited.length >= 3)
  })

  test('does not exist for administrators of a folder and for strangers', async (t) => {
    const dash = await serveDashboard(t)
    await fill(dash)
    for (const browser of [dash.admin, dash.stranger]) {
      const response = await browser.get('/dash/channels')
      assert.equal(response.status, 404)
      assert.ok(!(await response.text()).includes('bridge'))
      const posted = await browser.post('/dash/channels', { action: 'add', name: 'mine', platforms: 'discord' })
      assert.equal(posted.status, 404)
    }
    assert.deepEqual(await dash.host.engine.read((tx) => channelSecrets.list(tx)), [])
  })
})
