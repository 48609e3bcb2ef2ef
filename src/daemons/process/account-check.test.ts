import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testHost } from '../../../test/support/host.ts'
import { openTelegramServer, TELEGRAM_TOKEN } from '../../../test/support/telegram-server.ts'
import { channelAccounts } from '../../core/delivery/channel-accounts.ts'
import type { ConnectedPlatform } from '../../core/delivery/platform-accounts.ts'
import { sourceOf } from '../../lib/settings.ts'
import { channelAccountsResource } from '../../resources/channel-accounts.ts'
import { checkPlatformAccount, probeAccounts } from './account-check.ts'

const sourcesFor = (url: string) => [sourceOf('the test', new Map([['TELEGRAM_API_URL', url]]))]

test('a check says who the account is, or why the platform refuses it, without its token', async (t) => {
  const telegram = await openTelegramServer(t)
  const sources = sourcesFor(telegram.url)
  const account = { settings: {}, secrets: { token: TELEGRAM_TOKEN }, sources, hint: 'what to do' }
  assert.equal((await checkPlatformAccount('telegram', account)).name, '@ada_test_bot (Ada)')
  telegram.revoke()
  const refused = checkPlatformAccount('telegram', account)
  await assert.rejects(refused, (error: Error & { hint?: string }) => {
    assert.match(error.message, /^the check of the account failed: Telegram does not accept this token/)
    assert.ok(!error.message.includes(TELEGRAM_TOKEN))
    return error.hint === 'what to do'
  })
})

test('a check of an adapter that lacks its code says that something is not installed', async () => {
  const platform = 'nothing' as ConnectedPlatform
  const check = checkPlatformAccount(platform, { settings: {}, secrets: {}, sources: [] })
  await assert.rejects(
    check,
    /a package of the adapter is not installed: install svc again with npm on Node 22 or newer/,
  )
})

test('a probe asks about each account, and one that fails holds up no other', async (t) => {
  const telegram = await openTelegramServer(t)
  const on = await testHost(t, 'sqlite')
  for (const account of ['telegram', 'telegram-work']) {
    const secrets = { token: TELEGRAM_TOKEN }
    const added = { account, platform: 'telegram', settings: {}, secrets } as const
    await on.cli.call(channelAccountsResource.verbs.add, added)
  }
  await on.host.engine.transaction((tx) => channelAccounts.update(tx, { account: 'telegram' }, { platform: 'later' }))
  assert.deepEqual(await probeAccounts(on.host, sourcesFor(telegram.url)), [
    { account: 'telegram', fault: 'this version has no adapter for later' },
    { account: 'telegram-work', name: '@ada_test_bot (Ada)' },
  ])
})
