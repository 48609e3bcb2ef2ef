import assert from 'node:assert/strict'
import { test } from 'node:test'
import { auditedCalls, wholeStore } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person, testHost } from '../../test/support/host.ts'
import { channelAccounts, leaseAccount, personNamespaceOf, releaseAccounts } from '../core/delivery/channel-accounts.ts'
import { registerChannel } from '../core/delivery/channel-registrations.ts'
import { channelAccountsResource } from './channel-accounts.ts'
import { channelSecretsResource } from './channel-secrets.ts'

const { add, list, remove, set } = channelAccountsResource.verbs
const secrets = channelSecretsResource.verbs

const TOKEN = '123456789:AAE-abcdefghijklmnopqrstuvwxyz'
const telegram = { account: 'telegram', platform: 'telegram', settings: {}, secrets: { token: TOKEN } } as const

onEveryEngine('accounts of platforms', (engine) => {
  test('own their platform, are listed without secrets, and can be removed', async (t) => {
    const at = await testHost(t, engine)
    const added = await at.cli.call(add, { ...telegram, settings: { bots: 'allow' } })
    const listed = {
      ...{ account: 'telegram', platform: 'telegram', settings: { bots: 'allow' } },
      ...{ created_at: '2026-01-01T00:00:00.000Z', created_by: 'cli' },
    }
    assert.deepEqual(added, { ...listed, ended: [] })
    assert.deepEqual(await at.cli.call(list, {}), { channel_accounts: [listed] })
    const [secret] = (await at.cli.call(secrets.list, {})).channel_secrets
    assert.deepEqual([secret?.name, secret?.platforms], ['telegram', ['telegram']])
    await at.host.engine.transaction((tx) =>
      registerChannel(tx, at.host, {
        ...{ name: 'telegram', url: 'http://127.0.0.1:9', jid_prefixes: ['telegram:'], capabilities: {} },
        secret_name: 'telegram',
      }),
    )
    assert.deepEqual(await at.cli.call(remove, { account: 'telegram' }), { ended: ['telegram'] })
    assert.deepEqual(await at.cli.call(list, {}), { channel_accounts: [] })
    assert.deepEqual((await at.cli.call(secrets.list, {})).channel_secrets, [])
    await assert.rejects(
      at.cli.call(remove, { account: 'telegram' }),
      isRefusal('not_found', 'there is no account telegram'),
    )
  })

  test('change one setting at a time, to a value that fits', async (t) => {
    const at = await testHost(t, engine)
    await at.cli.call(add, { ...telegram, settings: { bots: 'allow' } })
    const changed = await at.cli.call(set, { account: 'telegram', name: 'dm', value: 'open' })
    assert.deepEqual(changed.settings, { bots: 'allow', dm: 'open' })
    const faults: Record<string, RegExp> = {
      'dm everybody': /^dm must be pairing, allowlist, open or off: who may start a direct chat$/,
      'token x': /^telegram has no setting "token"$/,
      '__proto__ x': /^telegram has no setting "__proto__"$/,
    }
    for (const [given, message] of Object.entries(faults)) {
      const [name = '', value = ''] = given.split(' ')
      await assert.rejects(at.cli.call(set, { account: 'telegram', name, value }), { message })
    }
    await assert.rejects(
      at.cli.call(set, { account: 'slack', name: 'dm', value: 'open' }),
      isRefusal('not_found', 'there is no account slack'),
    )
    const [row] = (await at.cli.call(list, {})).channel_accounts
    assert.deepEqual(row?.settings, { bots: 'allow', dm: 'open' })
  })

  test('receive by webhook only where the platform can reach this server', async (t) => {
    const at = await testHost(t, engine)
    const sentence =
      /^receive=webhook needs an address that telegram can reach by https, and WEB_HOST leads to http:\/\/localhost:8080$/
    await assert.rejects(at.cli.call(add, { ...telegram, settings: { receive: 'webhook' } }), { message: sentence })
    await at.cli.call(add, telegram)
    await assert.rejects(at.cli.call(set, { account: 'telegram', name: 'receive', value: 'webhook' }), {
      message: sentence,
    })
    await at.cli.call(set, { account: 'telegram', name: 'receive', value: 'polling' })
    await assert.rejects(at.cli.call(set, { account: 'telegram', name: 'receive', value: 'events' }), {
      message: /^receive must be polling or webhook/,
    })
  })

  test('need the secrets of the way in which they receive', async (t) => {
    const at = await testHost(t, engine)
    const slack = { account: 'slack', platform: 'slack' } as const
    const bot = { bot_token: 'xoxb-1234567890-1234567890-secret' }
    const app = { app_token: 'xapp-1-A0TEST-1234567890-secret' }
    const addSlack = (settings: Record<string, string>, given: Record<string, string>) =>
      at.cli.call(add, { ...slack, settings, secrets: given })
    await assert.rejects(addSlack({}, bot), { message: /^the app-level token must look like xapp-1-/ })
    await assert.rejects(addSlack({ receive: 'events' }, { ...bot, ...app }), {
      message: /^the signing secret must be/,
    })
    await assert.rejects(addSlack({}, { ...bot, ...app, signing_secret: 'odd' }), {
      message: /^the signing secret must be/,
    })
    const signing_secret = '0123456789abcdef0123456789abcdef'
    // Its address is checked last.
    await assert.rejects(addSlack({ receive: 'events' }, { ...bot, signing_secret }), { message: /slack can reach/ })
    await addSlack({}, { ...bot, ...app })
    await assert.rejects(at.cli.call(set, { account: 'slack', name: 'receive', value: 'events' }), {
      message: 'receive=events needs the signing secret, which slack does not have',
    })
  })

  test('are stored without their token in plain text, also in the audit log', async (t) => {
    const at = await testHost(t, engine)
    await at.cli.call(add, telegram)
    await assert.rejects(at.cli.call(add, telegram))
    const store = await wholeStore(at)
    assert.ok(store.includes('telegram'))
    for (const text of [TOKEN, TOKEN.slice(12)])
      assert.ok(!store.includes(text) && !store.includes(Buffer.from(text).toString('hex')))
  })

  test('are refused if the platform belongs to an adapter, in both directions', async (t) => {
    const at = await testHost(t, engine)
    await at.cli.call(secrets.add, { name: 'bridge', platforms: ['telegram', 'slack'] })
    const taken = at.cli.call(add, telegram)
    await assert.rejects(taken, isRefusal('conflict', 'the platform telegram belongs to the adapter bridge'))
    await assert.rejects(taken, {
      hint: 'svc channel test rm bridge ends it; --account <name> adds a further account',
    })
    await at.cli.call(add, { ...telegram, account: 'telegram-work' })
    await assert.rejects(
      at.cli.call(secrets.add, { name: 'other', platforms: ['telegram-work'] }),
      isRefusal('conflict', 'the platform telegram-work belongs to the adapter telegram-work'),
    )
  })

  test('are refused with a token or setting that cannot be, which the sentence does not repeat', async (t) => {
    const at = await testHost(t, engine)
    for (const token of ['', 'secret words', `${TOKEN} `, '1234:AAE-abcdefghijklmnopqrstuvwxyz', '123456789:short'])
      await assert.rejects(at.cli.call(add, { ...telegram, secrets: { token } }), (error: Error) => {
        assert.match(error.message, /^the token of the bot must look like 123456789:AAE/)
        return true
      })
    for (const [settings, sentence] of [
      [{ colour: 'red' }, 'telegram has no setting "colour"'],
      [{ bots: 'maybe' }, 'bots must be allow or ignore'],
    ] as const)
      await assert.rejects(at.cli.call(add, { ...telegram, settings }), isRefusal('invalid', sentence))
    assert.deepEqual(await at.cli.call(list, {}), { channel_accounts: [] })
  })

  test('are only for the command line, and each change is audited', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.operator('github:op')
    const calls = await auditedCalls(at, async () => {
      await at.cli.call(add, telegram)
      for (const caller of [person('github:op'), agent('main')])
        await at.as(caller).call(remove, { account: 'telegram' }).catch(isRefusal('forbidden'))
      await at.cli.call(remove, { account: 'telegram' })
    })
    assert.deepEqual(
      calls.map(({ action, key, outcome }) => [action, key, outcome]),
      [
        ['channel_accounts.add', 'telegram', 'ok'],
        ['channel_accounts.remove', 'telegram', 'denied'],
        ['channel_accounts.remove', 'telegram', 'denied'],
        ['channel_accounts.remove', 'telegram', 'ok'],
      ],
    )
  })

  test('are run by one process at a time, until its lease is over or released', async (t) => {
    const at = await testHost(t, engine)
    await at.cli.call(add, telegram)
    const lease = (process: string, now: number) =>
      at.host.engine.transaction((tx) => leaseAccount(tx, 'telegram', { process, now, until: now + 1000 }))
    assert.deepEqual([await lease('a:1', 0), await lease('b:2', 999), await lease('a:1', 999)], [true, false, true])
    assert.deepEqual(
      [await lease('b:2', 1998), await lease('b:2', 1999), await lease('a:1', 2000)],
      [false, true, false],
    )
    await at.host.engine.transaction((tx) => releaseAccounts(tx, 'a:1'))
    assert.equal(await lease('a:1', 2001), false)
    await at.host.engine.transaction((tx) => releaseAccounts(tx, 'b:2'))
    assert.equal(await lease('a:1', 2002), true)
    const row = await at.host.engine.read((tx) => channelAccounts.find(tx, { account: 'telegram' }))
    assert.deepEqual([row?.leased_by, row?.leased_until], ['a:1', 3002])
  })

  test('may name people of their platform, and of no other', async (t) => {
    const at = await testHost(t, engine)
    await at.cli.call(add, { ...telegram, account: 'telegram-work' })
    const spoken = (secret: string | undefined, platform: string) =>
      at.host.engine.read((tx) => personNamespaceOf(tx, secret, platform))
    assert.equal(await spoken('telegram-work', 'telegram-work'), 'telegram')
    assert.equal(await spoken('telegram-work', 'telegram-home'), 'telegram-home')
    assert.equal(await spoken('other', 'telegram-work'), 'telegram-work')
    await at.cli.call(secrets.add, { name: 'bridge', platforms: ['telegram-home'] })
    assert.equal(await spoken('bridge', 'telegram-home'), 'telegram-home')
  })
})
