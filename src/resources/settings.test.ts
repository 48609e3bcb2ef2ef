import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, testHost } from '../../test/support/host.ts'
import { openKeyring } from '../core/secrets/keyring.ts'
import { storedSettings } from '../core/settings/stored-settings.ts'
import { settingsResource } from './settings.ts'

const { save, list } = settingsResource.verbs

onEveryEngine('settings in the store', (engine) => {
  test('are changed by operators only, all or none, and secrets are encrypted', async (t) => {
    const on = await testHost(t, engine)
    await on.operator('github:op')
    await on.grant('github:admin', 'admin', 'main')
    const dash = (sub: string) => on.as({ kind: 'person', sub, session: 'a-session' }, 'dash')
    const read = () => on.host.engine.read((tx) => on.host.storedSettings.read(tx))
    const changes = [
      { key: 'MAX_CONCURRENT_TURNS', value: '8' },
      { key: 'GITHUB_SECRET', value: 's3cret' },
      { key: 'TTS_URL', value: 'http://user:s3cret@speech:80' },
    ]
    await assert.rejects(dash('github:admin').call(save, { changes }), isRefusal('forbidden'))
    await assert.rejects(dash('github:admin').call(list, {}), isRefusal('forbidden'))
    const wrong = [...changes, { key: 'TASK_MIN_INTERVAL', value: 'soon' }, { key: 'WEB_HOST', value: 'a.example' }]
    await assert.rejects(
      dash('github:op').call(save, { changes: wrong }),
      isRefusal(
        'invalid',
        /^TASK_MIN_INTERVAL must be .*"soon"; WEB_HOST can only be set in \.env or the environment$/,
      ),
    )
    const before = await read()
    assert.deepEqual([...(before.keys?.() ?? [])], [])
    await dash('github:op').call(save, { changes })
    const after = await read()
    assert.deepEqual(
      changes.map(({ key }) => after.get(key)),
      ['8', 's3cret', 'http://user:s3cret@speech:80'],
    )
    assert.equal(await read(), after, 'the same object until something changes')
    const { settings } = await dash('github:op').call(list, {})
    assert.deepEqual(settings.map(({ key, value }) => [key, value]).sort(), [
      ...[
        ['GITHUB_SECRET', 'sealed'],
        ['MAX_CONCURRENT_TURNS', '8'],
        ['TTS_URL', 'sealed'],
      ],
    ])
    const rows = await on.host.engine.read((tx) => storedSettings.list(tx))
    assert.ok(!JSON.stringify(rows).includes('s3cret'))
    assert.ok(!rows.some(({ sealed }) => sealed && Buffer.from(sealed).includes('s3cret')))
    await dash('github:op').call(save, { changes: [{ key: 'GITHUB_SECRET' }] })
    assert.equal((await read()).get('GITHUB_SECRET'), undefined)
  })

  test('do not apply where this process cannot use them, with the reason', async (t) => {
    const on = await testHost(t, engine)
    const put = (key: string, value: string, sealed?: Uint8Array) =>
      on.host.engine.transaction((tx) =>
        storedSettings.upsert(tx, {
          key,
          value,
          updated_at: '2026-01-01T00:00:00.000Z',
          ...(sealed ? { sealed } : {}),
        }),
      )
    const other = openKeyring('another key')
    await put('GITHUB_SECRET', 'sealed', other.seal('x', 'setting GITHUB_SECRET'))
    await put('DISCORD_SECRET', 'sealed')
    await put('KEEP_TURNS', '1m')
    await put('OF_A_LATER_VERSION', '1')
    await put('WEB_HOST', 'a.example')
    await put('MAX_CONCURRENT_TURNS', '9')
    const source = await on.host.engine.read((tx) => on.host.storedSettings.read(tx))
    assert.deepEqual([...(source.keys?.() ?? [])], ['MAX_CONCURRENT_TURNS'])
    assert.deepEqual(source.faults.map((fault) => fault.split(' in the store is not used: ')[0]).sort(), [
      ...['DISCORD_SECRET', 'GITHUB_SECRET', 'KEEP_TURNS', 'OF_A_LATER_VERSION', 'WEB_HOST'],
    ])
  })
})
