import assert from 'node:assert/strict'
import { test } from 'node:test'
import { auditedCalls } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import { run } from '../../test/support/sql.ts'
import { registerChannel } from '../core/delivery/channel-registrations.ts'
import { channelSecrets } from '../core/secrets/channel-secrets.ts'
import { channelSecretsResource } from './channel-secrets.ts'

const { add, list, rotate, remove } = channelSecretsResource.verbs

const register = ({ host }: TestHost, name: string, platform: string, secret_name?: string) =>
  host.engine.transaction((tx) =>
    registerChannel(tx, host, {
      name,
      url: 'http://127.0.0.1:9',
      jid_prefixes: [`${platform}:`],
      capabilities: {},
      secret_name,
    }),
  )

onEveryEngine('adapter secrets', (engine) => {
  test('are shown once, listed without their value, and can be removed', async (t) => {
    const at = await testHost(t, engine)
    const { secret, ...made } = await at.cli.call(add, { name: 'bridge', platforms: ['slack', 'discord', 'slack'] })
    assert.deepEqual(made, { name: 'bridge', platforms: ['discord', 'slack'], ended: [] })
    assert.match(secret, /^[\w-]{43}$/)
    await register(at, 'bridge', 'discord', 'bridge')
    const { channel_secrets } = await at.cli.call(list, {})
    const seen_at = '2026-01-01T00:00:00.000Z'
    assert.deepEqual(channel_secrets, [
      {
        name: 'bridge',
        platforms: ['discord', 'slack'],
        created_at: '2026-01-01T00:00:00.000Z',
        created_by: 'cli',
        adapters: [{ name: 'bridge', url: 'http://127.0.0.1:9', jid_prefixes: ['discord:'], health_fails: 0, seen_at }],
      },
    ])
    assert.deepEqual(await at.cli.call(remove, { name: 'bridge' }), { ended: ['bridge'] })
    assert.deepEqual(await at.cli.call(list, {}), { channel_secrets: [] })
    await assert.rejects(
      at.cli.call(remove, { name: 'bridge' }),
      isRefusal('not_found', 'there is no secret for the adapter bridge'),
    )
  })

  test('are not stored in plain text', async (t) => {
    const at = await testHost(t, engine)
    const { secret } = await at.cli.call(add, { name: 'bridge', platforms: ['discord'] })
    const dump = await at.host.engine.read(async (tx) => [
      ...(await run(tx, 'select * from channel_secrets')).rows,
      ...(await run(tx, 'select * from audit')).rows,
    ])
    const text = dump
      .flatMap((row) => Object.values(row))
      .map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : String(value)))
      .join('\n')
    assert.ok(text.includes('bridge'))
    assert.ok(!text.includes(secret) && !text.includes(Buffer.from(secret, 'base64url').toString('latin1')))
  })

  test('refuse a name or platform that has a secret, with a hint', async (t) => {
    const at = await testHost(t, engine)
    await at.cli.call(add, { name: 'bridge', platforms: ['discord'] })
    const again = at.cli.call(add, { name: 'bridge', platforms: ['slack'] })
    await assert.rejects(again, isRefusal('conflict', 'the adapter bridge has a secret already'))
    await assert.rejects(again, {
      hint: 'svc channel test rotate bridge replaces it; svc channel test rm bridge ends it',
    })
    await assert.rejects(
      at.cli.call(add, { name: 'other', platforms: ['slack', 'discord'] }),
      isRefusal('conflict', 'the platform discord belongs to the adapter bridge'),
    )
    assert.equal((await at.host.engine.read((tx) => channelSecrets.list(tx))).length, 1)
  })

  test('refuse platforms that are reserved for accounts or svc', async (t) => {
    const at = await testHost(t, engine)
    for (const platform of ['github', 'google', 'local', 'oidc'])
      await assert.rejects(
        at.cli.call(add, { name: 'bridge', platforms: [platform] }),
        isRefusal('invalid', `platforms: "${platform}" is reserved for accounts`),
      )
    for (const platform of ['web', 'hook', 'sandbox', 'system', 'folder'])
      await assert.rejects(
        at.cli.call(add, { name: 'bridge', platforms: ['discord', platform] }),
        isRefusal('invalid', `platforms: "${platform}" is reserved for svc`),
      )
    await assert.rejects(at.cli.call(add, { name: 'bridge', platforms: [] }), isRefusal('invalid', 'platforms'))
    await assert.rejects(at.cli.call(add, { name: 'bridge', platforms: ['Discord'] }), isRefusal('invalid', 'platform'))
    assert.deepEqual(await at.cli.call(list, {}), { channel_secrets: [] })
  })

  test('end registrations of the same platforms or name that use the shared secret', async (t) => {
    const at = await testHost(t, engine)
    await register(at, 'discd', 'discord')
    await register(at, 'bridge', 'telegram')
    await register(at, 'teled', 'telegram')
    const { ended } = await at.cli.call(add, { name: 'bridge', platforms: ['discord'] })
    assert.deepEqual(ended, ['bridge', 'discd'])
    const { channel_secrets } = await at.cli.call(list, {})
    assert.deepEqual(
      channel_secrets.map(({ name, platforms, adapters }) => [
        name,
        platforms,
        adapters.map((adapter) => adapter.name),
      ]),
      [
        ['bridge', ['discord'], []],
        [undefined, ['telegram'], ['teled']],
      ],
    )
  })

  test('rotate with the same platforms, and end registrations with the old secret', async (t) => {
    const at = await testHost(t, engine)
    const { secret } = await at.cli.call(add, { name: 'bridge', platforms: ['discord'] })
    await register(at, 'discd', 'discord', 'bridge')
    const rotated = await at.cli.call(rotate, { name: 'bridge' })
    assert.notEqual(rotated.secret, secret)
    assert.deepEqual([rotated.platforms, rotated.ended], [['discord'], ['discd']])
    await assert.rejects(at.cli.call(rotate, { name: 'none' }), isRefusal('not_found'))
  })

  test('are only for the command line, and each change is audited', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.operator('github:op')
    const calls = await auditedCalls(at, async () => {
      await at.cli.call(add, { name: 'bridge', platforms: ['discord'] })
      for (const caller of [person('github:op'), agent('main')])
        await at
          .as(caller)
          .call(remove, { name: 'bridge' })
          .catch(isRefusal('forbidden', 'is for the command line on the host'))
      await at.cli.call(rotate, { name: 'bridge' })
      await at.cli.call(list, {})
      await at.cli.call(remove, { name: 'bridge' })
    })
    assert.deepEqual(
      calls.map(({ action, key, outcome }) => `${action} ${key} ${outcome}`),
      [
        'channel_secrets.add bridge ok',
        'channel_secrets.remove bridge denied',
        'channel_secrets.remove bridge denied',
        'channel_secrets.rotate bridge ok',
        'channel_secrets.remove bridge ok',
      ],
    )
  })
})
