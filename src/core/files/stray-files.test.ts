import assert from 'node:assert/strict'
import { readdirSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { uuidv7 } from '../../lib/clock.ts'
import { recordOutbound } from '../delivery/outbox.ts'
import { storedBytes } from '../links/storage-use.ts'
import { removeMessages } from '../messages/retention.ts'
import { writeContextOf } from '../turns/rounds.ts'
import { ChatFileWriter } from './chat-file-writer.ts'
import { addChatFiles, chatFiles, type StoredFile } from './chat-files.ts'
import { removeChatFiles, removeStrayFiles } from './stray-files.ts'

const PLACE = { folder: 'main', jid: 'web:main' }
const DAY_MS = 24 * 3_600_000

async function writeFile(on: TestHost, isPlaced = true): Promise<StoredFile> {
  const writer = await ChatFileWriter.open(on.host.layout ?? assert.fail(), {
    id: uuidv7(on.clock, on.host.random),
    name: 'a',
  })
  await writer.write(Buffer.from('text'))
  const stored = await writer.finish()
  if (isPlaced) await writer.place(PLACE)
  return stored
}

async function sendFile(on: TestHost, stored: StoredFile): Promise<number> {
  const { engine, rules } = on.host
  return engine.transaction(async (tx) => {
    const { seq } = await recordOutbound(tx, writeContextOf(on.host), rules, { ...PLACE, topic: '', content: 'a' })
    await addChatFiles(
      tx,
      { place: PLACE, stored: [stored] },
      { message_seq: seq, created_at: '2026-01-01T00:00:00.000Z' },
    )
    return seq
  })
}

function filesOf({ host: { layout } }: TestHost): string[] {
  const { files = '' } = layout ?? {}
  return readdirSync(files, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(files, path)).isFile(),
  )
}

onEveryEngine('files that no message has', (engine) => {
  test('are removed after a day', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    const { layout = assert.fail() } = on.host
    const sent = await writeFile(on)
    await sendFile(on, sent)
    await writeFile(on)
    await writeFile(on, false)
    assert.equal(filesOf(on).length, 3)
    const sweep = (afterMs: number, isDryRun = false) =>
      removeStrayFiles({ ...on.host, layout }, { now: on.clock.now() + afterMs, isDryRun })
    assert.equal(await sweep(DAY_MS - 1), 0)
    assert.deepEqual([await sweep(DAY_MS + 1, true), filesOf(on).length], [2, 3])
    assert.equal(await sweep(DAY_MS + 1), 2)
    assert.deepEqual(
      filesOf(on).map((path) => path.slice(-40)),
      [`${sent.id}.txt`],
    )
  })

  test('are not searched in directories that have not changed for a month', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    const { layout = assert.fail() } = on.host
    await writeFile(on)
    const [path = ''] = filesOf(on)
    const old = on.clock.now() / 1000
    utimesSync(join(layout.files, path, '..'), old, old)
    const now = on.clock.now() + 31 * DAY_MS
    assert.equal(await removeStrayFiles({ ...on.host, layout }, { now }), 0)
  })

  test('are those of removed messages, which no longer count in the storage', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    const { engine: store, layout = assert.fail() } = on.host
    await sendFile(on, await writeFile(on))
    const stored = () =>
      store.read(async (tx) => [await storedBytes(tx, 'chat', 'web:main'), await storedBytes(tx, 'folder', 'main')])
    assert.deepEqual(await stored(), [4, 4])
    await store.transaction(async (tx) => {
      // As the router does.
      await tx.executeQuery({ sql: 'update filing set last_seq = 10', parameters: [] })
      await tx.executeQuery({ sql: 'update routing set last_seq = 10', parameters: [] })
    })
    const now = on.clock.now() + DAY_MS
    const { files = [] } = await store.transaction((tx) =>
      removeMessages(tx, store.dialect, { before: now, now, after: 0, limit: 10 }),
    )
    assert.deepEqual([files.length, await stored(), await store.read((tx) => chatFiles.list(tx))], [1, [0, 0], []])
    await removeChatFiles(layout, files)
    assert.deepEqual(filesOf(on), [])
  })
})
