import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agent, isRefusal, onEveryEngine, person, testHost } from '../../test/support/host.ts'
import { run } from '../../test/support/sql.ts'
import { openKeyring } from '../core/secrets/keyring.ts'
import { readRunSecrets } from '../core/secrets/run-secrets.ts'
import { secretContext } from '../core/secrets/secrets.ts'
import { callVerb } from '../registry/call.ts'
import type { Tx } from '../store/engine.ts'
import { auditResource } from './audit.ts'
import { secretsResource } from './secrets.ts'

const { create, delete: remove, list_of } = secretsResource.verbs
const KEY = { scope_kind: 'folder', owner: 'team', key: 'API_KEY' } as const

onEveryEngine('secrets', (engine) => {
  test('a secret is encrypted for its own row and listed without its value', async (t) => {
    const { host, cli, groups } = await testHost(t, engine)
    await groups('team')
    const reply = await cli.call(create, { ...KEY, value: 'päss\nword' })
    assert.deepEqual(reply, { ...KEY, created_at: '2026-01-01T00:00:00.000Z' })
    const { secrets } = await cli.call(list_of, { scope_kind: 'folder', owner: 'team' })
    assert.deepEqual(secrets, [{ ...KEY, created_at: '2026-01-01T00:00:00.000Z' }])
    const { rows } = await host.engine.read((tx) => run(tx, 'select value from secrets'))
    const sealed = rows[0]?.value
    assert.ok(sealed instanceof Uint8Array)
    assert.ok(!Buffer.from(sealed).toString('latin1').includes('word'))
    assert.equal(host.keyring.open(sealed, secretContext(KEY)).toString(), 'päss\nword')
    assert.throws(() => host.keyring.open(sealed, secretContext({ ...KEY, key: 'OTHER' })), isRefusal('unavailable'))
  })

  test('the audit row of a secret has no value', async (t) => {
    const { cli, groups } = await testHost(t, engine)
    await groups('team')
    await cli.call(create, { ...KEY, value: 'hunter2-hunter2' })
    const { audit } = await cli.call(auditResource.verbs.list, {})
    assert.equal(audit[0]?.action, 'secrets.create')
    assert.ok(!JSON.stringify(audit).includes('hunter2'))
  })

  test('setting a secret again replaces it', async (t) => {
    const { cli, groups, clock } = await testHost(t, engine)
    await groups('team')
    await cli.call(create, { ...KEY, value: 'one' })
    clock.advance(1000)
    await cli.call(create, { ...KEY, value: 'two' })
    const { secrets } = await cli.call(list_of, { scope_kind: 'folder', owner: 'team' })
    assert.deepEqual(
      secrets.map(({ created_at }) => created_at),
      ['2026-01-01T00:00:01.000Z'],
    )
  })

  test('an endpoint of a model on a private network is set by operators only', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team')
    await at.grant('github:1', 'admin', 'team')
    await at.operator('github:9')
    const url = { scope_kind: 'folder', owner: 'team', key: 'OPENAI_BASE_URL' } as const
    const mine = { scope_kind: 'user', owner: 'github:1', key: 'ANTHROPIC_BASE_URL' } as const
    const publicOnly = async (sub?: string) => {
      const read = (tx: Tx) => readRunSecrets(tx, at.host.keyring, { folder: 'team', sub, reach: 'all' }, assert.fail)
      return [...(await at.host.engine.read(read)).publicOnly].sort()
    }
    const admin = at.as(person('github:1'))
    const PRIVATE = ['127.0.0.1', '10.1.2.3:8000', '[::1]', '8.8.8.8', 'localhost', 'ollama', 'gpu.lan', 'a.internal.']
    for (const host of PRIVATE)
      for (const name of [url, mine])
        await assert.rejects(
          admin.call(create, { ...name, value: `http://${host}/v1` }),
          isRefusal('forbidden', 'is set by operators only'),
          host,
        )
    await admin.call(create, { ...url, value: 'https://models.example/v1' })
    // A name may lead anywhere later.
    assert.deepEqual(await publicOnly(), ['OPENAI_BASE_URL'])
    await at.as(person('github:9')).call(create, { ...url, value: 'http://10.1.2.3:8000/v1' })
    assert.deepEqual(await publicOnly(), [])
    await admin.call(create, { ...url, value: 'https://models.example/v1' })
    assert.deepEqual(await publicOnly(), ['OPENAI_BASE_URL'])
    await at.cli.call(create, { ...url, value: 'http://ollama:11434/v1' })
    await admin.call(create, { ...mine, value: 'https://models.example' })
    assert.deepEqual(await publicOnly('github:1'), ['ANTHROPIC_BASE_URL'])
    // Other secrets may be any text.
    await admin.call(create, { ...KEY, value: 'http://127.0.0.1/' })
  })

  test('empty values, bad keys, unknown folders and unknown members are refused and change nothing', async (t) => {
    const { cli, groups } = await testHost(t, engine)
    await groups('team')
    await assert.rejects(cli.call(create, { ...KEY, value: '' }), isRefusal('invalid', 'value must not be empty'))
    await assert.rejects(
      cli.call(create, { ...KEY, key: 'api-key', value: 'x' }),
      isRefusal('invalid', 'key must match'),
    )
    await assert.rejects(cli.call(create, { ...KEY, owner: 'nobody', value: 'x' }), isRefusal('not_found', 'nobody'))
    await assert.rejects(cli.call(create, { ...KEY, owner: '../x', value: 'x' }), isRefusal('invalid', 'owner'))
    await assert.rejects(
      cli.call(create, { ...KEY, value: 'x', created_at: 'now' }),
      isRefusal('invalid', 'created_at'),
    )
    await assert.rejects(cli.call(create, { ...KEY, value: 'x'.repeat(65_537) }), isRefusal('invalid', 'longer'))
    for (const character of ['\u0000', '\u001b', '\r', '\u007f', '\u0080'])
      await assert.rejects(
        cli.call(create, { ...KEY, value: `x${character}--bind` }),
        isRefusal('invalid', /^value must not contain control characters other than tab and newline$/),
      )
    const { secrets } = await cli.call(list_of, { scope_kind: 'folder', owner: 'team' })
    assert.deepEqual(secrets, [])
  })

  test('refuses names that runs never get, and deletes them where an earlier version stored one', async (t) => {
    const { host, cli, groups } = await testHost(t, engine)
    await groups('team')
    const mine = { scope_kind: 'user', owner: 'github:1' } as const
    for (const key of ['PATH', 'HOME', 'LANG', 'SVC_TURN', 'HTTPS_PROXY', 'GIT_SSH_COMMAND'])
      for (const name of [
        { ...KEY, key },
        { ...mine, key },
      ])
        await assert.rejects(
          cli.call(create, { ...name, value: 'x' }),
          isRefusal('invalid', `${key} is set by svc, so runs never get a secret of this name`),
        )
    await assert.rejects(
      cli.call(create, { ...mine, key: 'LD_PRELOAD', value: 'x' }),
      isRefusal('invalid', 'LD_PRELOAD can make programs run code'),
    )
    assert.equal(await host.engine.read((tx) => secretsResource.table.count(tx)), 0)
    await cli.call(create, { ...KEY, key: 'LD_PRELOAD', value: 'x' })
    const old = { ...KEY, key: 'PATH' }
    const value = host.keyring.seal('x', secretContext(old))
    await host.engine.transaction((tx) =>
      secretsResource.table.insert(tx, { ...old, value, created_at: '2026-01-01T00:00:00.000Z' }),
    )
    await cli.call(remove, old)
  })

  test('deleting a missing secret is not found', async (t) => {
    const { cli, groups } = await testHost(t, engine)
    await groups('team')
    await cli.call(create, { ...KEY, value: 'x' })
    await cli.call(remove, KEY)
    await assert.rejects(cli.call(remove, KEY), isRefusal('not_found', 'API_KEY'))
  })

  test('admins manage the secrets of their folder, and people their own', async (t) => {
    const { as, grant, groups, operator } = await testHost(t, engine)
    await groups('team', 'other')
    await grant('github:1', 'admin', 'team')
    await operator('github:9')
    const [admin, byOperator] = [as(person('github:1')), as(person('github:9'))]
    await admin.call(create, { ...KEY, value: 'x' })
    await assert.rejects(admin.call(create, { ...KEY, owner: 'other', value: 'x' }), isRefusal('forbidden'))
    await admin.call(create, { scope_kind: 'user', owner: 'github:1', key: 'MINE', value: 'x' })
    await assert.rejects(
      admin.call(create, { scope_kind: 'user', owner: 'github:2', key: 'THEIRS', value: 'x' }),
      isRefusal('forbidden'),
    )
    await byOperator.call(create, { scope_kind: 'user', owner: 'github:2', key: 'THEIRS', value: 'x' })
    await assert.rejects(as(agent('team')).call(create, { ...KEY, value: 'x' }), isRefusal('forbidden'))
    await assert.rejects(admin.call(list_of, { scope_kind: 'folder', owner: 'team' }), isRefusal('forbidden', 'host'))
  })
})

test('without SECRETS_KEY nothing is stored', async (t) => {
  const { host, cli, groups } = await testHost(t)
  await groups('team')
  const withoutKey = { ...host, keyring: openKeyring(undefined) }
  const request = { host: withoutKey, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
  await assert.rejects(callVerb(request, create, { ...KEY, value: 'x' }), isRefusal('unavailable', 'SECRETS_KEY'))
  assert.deepEqual((await cli.call(list_of, { scope_kind: 'folder', owner: 'team' })).secrets, [])
})
