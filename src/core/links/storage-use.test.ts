import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, isRefusal, onEveryEngineQuickly, testHost } from '../../../test/support/host.ts'
import { addLink, postOf } from '../../../test/support/rows.ts'
import { run } from '../../../test/support/sql.ts'
import { recordInbound } from '../messages/inbound.ts'
import { createLinkPostHandler } from '../messages/link-inbound.ts'
import { writeContextOf } from '../turns/rounds.ts'
import { findNearlyFull, MESSAGE_OVERHEAD_BYTES, mustHaveStorage, storageUse, storedBytes } from './storage-use.ts'

const linkPostHandler = createLinkPostHandler()

async function open(t: TestContext, engine: EngineName) {
  const on = await testHost(t, engine)
  await on.groups('main', 'team')
  const { engine: store } = on.host
  return {
    ...on,
    append: (link: string, ...contents: string[]) =>
      store.transaction((tx) =>
        linkPostHandler.run(
          tx,
          store.dialect,
          contents.map((content) => postOf(on, link, { content: Buffer.from(content) })),
        ),
      ),
    file: () => store.transaction((tx) => linkPostHandler.runDeferred(tx, store.dialect)),
    stored: (scope: 'chat' | 'folder', name: string) => store.read((tx) => storedBytes(tx, scope, name)),
  }
}

onEveryEngineQuickly('the bytes that are stored', (engine) => {
  test('are counted once per chat and folder when messages are filed', async (t) => {
    const { append, file, stored, ...on } = await open(t, engine)
    const [a, b] = [await addLink(on, 'web:main/a'), await addLink(on, 'web:main/b')]
    const hook = await addLink(on, 'hook:team/ci', { target_folder: 'team', context: 'Größe' })
    await append(a, 'ä', '')
    await append(b, 'xyz')
    await append(hook, '12345')
    await file()
    await file()
    const all = async () => [
      await stored('chat', 'web:main/a'),
      await stored('chat', 'web:main/b'),
      await stored('folder', 'main'),
      await stored('chat', 'hook:team/ci'),
      await stored('folder', 'team'),
    ]
    const hooked = MESSAGE_OVERHEAD_BYTES + 5 + 7
    assert.deepEqual(await all(), [
      2 * MESSAGE_OVERHEAD_BYTES + 2,
      MESSAGE_OVERHEAD_BYTES + 3,
      3 * MESSAGE_OVERHEAD_BYTES + 5,
      hooked,
      hooked,
    ])
    const withContext = postOf(on, a, { content: Buffer.from('é'), client_context: '{"system":"ü"}' })
    const { engine: store } = on.host
    await store.transaction((tx) => linkPostHandler.run(tx, store.dialect, [withContext]))
    await file()
    assert.equal(await stored('chat', 'web:main/a'), 3 * MESSAGE_OVERHEAD_BYTES + 2 + 2 + 15)
    await append(hook, '1')
    await file()
    assert.equal(await stored('folder', 'team'), hooked + MESSAGE_OVERHEAD_BYTES + 1 + 7)
  })

  test('include attachments and count for no folder if the message has none', async (t) => {
    const { host, stored } = await open(t, engine)
    const attachments = JSON.stringify([{ filename: 'a.txt', data: 'aGVsbG8=' }])
    await host.engine.transaction((tx) =>
      recordInbound(tx, writeContextOf(host), {
        jid: 'slack:1',
        sender: 'slack:u',
        reach: 'all',
        content: 'hi',
        envelope: { attachments },
      }),
    )
    assert.equal(await stored('chat', 'slack:1'), MESSAGE_OVERHEAD_BYTES + 2 + attachments.length)
    assert.equal(await host.engine.read((tx) => storageUse.count(tx)), 1)
  })

  test('of an older store are counted by the migration if filed, otherwise when filed', async (t) => {
    const { append, file, stored, ...on } = await open(t, engine)
    const link = await addLink(on, 'web:main/a')
    await append(link, 'one', 'two')
    await file()
    await append(link, 'three')
    const [, countEarlier] = storageUse.storage
    await on.host.engine.transaction(async (tx) => {
      await run(tx, 'delete from storage_use')
      await run(tx, String(countEarlier))
    })
    assert.equal(await stored('chat', 'web:main/a'), 2 * MESSAGE_OVERHEAD_BYTES + 6)
    await file()
    assert.equal(await stored('folder', 'main'), 3 * MESSAGE_OVERHEAD_BYTES + 11)
  })

  test('are checked against the quota to the byte; 0 means no quota', async (t) => {
    const { append, file, stored, ...on } = await open(t, engine)
    await append(await addLink(on, 'web:main'), 'hello')
    await file()
    const used = await stored('chat', 'web:main')
    const ask = (quotas: { chat: number; folder: number }) =>
      on.host.engine.read((tx) => mustHaveStorage(tx, quotas, { jid: 'web:main', folder: 'main', bytes: 3 }))
    const exact = used + MESSAGE_OVERHEAD_BYTES + 3
    await ask({ chat: exact, folder: exact })
    await ask({ chat: 0, folder: 0 })
    const full = isRefusal('storage_full', 'main accepts no more messages: its storage is full')
    await assert.rejects(ask({ chat: exact - 1, folder: 0 }), full)
    await assert.rejects(ask({ chat: 0, folder: exact - 1 }), full)
  })

  test('are reported above a share of the quota, for folders and chats of links', async (t) => {
    const { append, file, stored, host, ...on } = await open(t, engine)
    await append(await addLink({ host, ...on }, 'web:main'), 'hello')
    await file()
    await host.engine.transaction((tx) =>
      recordInbound(tx, writeContextOf(host), { jid: 'slack:1', sender: 'slack:u', reach: 'all', content: 'hello' }),
    )
    const used = await stored('chat', 'web:main')
    const report = (quotas: { chat: number; folder: number }) =>
      host.engine.read(async (tx) =>
        (await findNearlyFull(tx, quotas, 0.5)).map(({ scope, name, bytes }) => [scope, name, bytes]),
      )
    assert.deepEqual(await report({ chat: used * 2, folder: used }), [
      ['folder', 'main', used],
      ['chat', 'web:main', used],
    ])
    assert.deepEqual(await report({ chat: used * 2 + 2, folder: 0 }), [])
  })
})
