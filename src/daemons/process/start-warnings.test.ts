import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import { emptyStore, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { openKeyring } from '../../core/secrets/keyring.ts'
import { secretsResource } from '../../resources/secrets.ts'
import { openEngine } from '../../store/index.ts'
import { migrate } from '../../store/migrate.ts'
import { PRODUCT_TABLES } from '../tables.ts'

onEveryEngine('a served instance', (engine) => {
  test('logs that its SECRETS_KEY is missing or wrong, and nothing if it is right', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    await on.cli.call(secretsResource.verbs.create, { scope_kind: 'folder', owner: 'main', key: 'TOKEN', value: 'x' })
    const logOf = async (key: string | undefined) => {
      const host = { ...on.host, keyring: openKeyring(key), close: async () => {} }
      const served = await serveHost(t, { on: { ...on, host }, daemons: ['proxyd'] })
      await served.close()
      return served.logged().map(({ level, msg, count, first }) => [level, msg, count, first])
    }
    const unreadable =
      'stored secrets cannot be opened: SECRETS_KEY is missing or not the one that sealed them; see svc doctor test'
    assert.deepEqual(await logOf('a key of the tests'), [])
    const [wrong] = await logOf('another key')
    assert.deepEqual(wrong?.slice(0, 3), ['error', unreadable, 1])
    assert.match(String(wrong?.[3]), /^TOKEN of folder main: cannot open a stored secret/)
    assert.deepEqual(
      (await logOf(undefined)).map(([level, msg]) => [level, msg]),
      [
        ['warn', 'SECRETS_KEY is not set: secrets cannot be stored and bearers cannot be issued'],
        ['error', unreadable],
      ],
    )
  })

  test('logs rows that a file of the store has lost; a database server guards its own log', async (t) => {
    const store = await emptyStore(t, engine)
    const empty = await openEngine(store)
    await migrate(empty, PRODUCT_TABLES, () => '2026-01-01T00:00:00.000Z')
    await empty.close()
    const json = JSON.stringify({ messages: 30 })
    const mark = `${crc32(json).toString(16).padStart(8, '0')} ${json}`
    if ('path' in store) writeFileSync(`${store.path}-mark`, mark)
    const on = await testHost(t, engine, store)
    const { logged, close } = await serveHost(t, { on, daemons: ['proxyd'] })
    const lost = logged().filter(({ level }) => level === 'error')
    await close()
    if (engine === 'postgres') return assert.deepEqual([lost, on.host.engine.lossWatch], [[], undefined])
    assert.deepEqual(
      lost.map((line) => line.lost),
      ['2026-01-01T00:00:00.000Z: messages ends at number 0, but had reached 30'],
    )
  })
})
