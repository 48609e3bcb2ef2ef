import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { json, type LinkHost, type LinkHostOptions, openLinkHost } from '../../../test/support/link-host.ts'
import { openHttpTools } from '../../../test/support/tools.ts'
import { until } from '../../../test/support/until.ts'
import { MESSAGE_OVERHEAD_BYTES, storedBytes } from '../../core/links/storage-use.ts'
import { Refusal } from '../../lib/refusal.ts'
import { type QuotaExceededNotice, StorageCounter, StorageTracker } from './storage-quota.ts'

/** A quota for `messages` messages with contents of `bytes` bytes in total. */
const quota = (messages: number, bytes: number): string => String(messages * MESSAGE_OVERHEAD_BYTES + bytes)

const open = (t: TestContext, engine: EngineName, settings: Record<string, string>, more: LinkHostOptions = {}) =>
  openLinkHost(t, { engine, settings, ...more })

const FULL = {
  status: 507,
  title: 'Storage full',
  code: 'storage_full',
  detail: 'this link accepts no more messages: its storage is full',
  hint: 'ask the person who gave you the link',
}

async function isFull(s: LinkHost, asked: string, init: Omit<RequestInit, 'method'>): Promise<void> {
  const { status, body } = await s.to(asked, init)
  const { title, code, detail, hint } = body
  assert.deepEqual({ status, title, code, detail, hint }, FULL)
}

const contents = async (s: LinkHost, jid: string): Promise<string[]> =>
  (await s.messages(jid)).map(({ content }) => Buffer.from(content).toString())

onEveryEngine('a link whose storage is full', (engine) => {
  test('accepts messages up to the last byte of its quota, then responds 507 and stores nothing', async (t) => {
    const s = await open(t, engine, { LINK_QUOTA: quota(2, 10) })
    const [hook, chat] = [await s.mintHook(), await s.mintChat()]
    const post = (body: string) => s.to(`POST ${hook.hook}`, { body })
    assert.equal((await post('12345')).status, 204)
    await isFull(s, `POST ${hook.hook}`, { body: '123456' })
    assert.equal((await post('12345')).status, 204)
    await isFull(s, `POST ${hook.hook}`, { body: '' })
    assert.deepEqual(await contents(s, hook.jid), ['12345', '12345'])
    // Each link has its own storage.
    await s.speak(chat, '1234567890')
    await isFull(s, `POST ${chat.chat}`, json({ content: '1' }))
    assert.deepEqual(await contents(s, chat.jid), ['1234567890'])
    assert.equal((await s.rounds()).length, 1)
  })

  test('refuses tool calls too, and the tools of people respect the quota of the folder', async (t) => {
    const s = await open(t, engine, { LINK_QUOTA: quota(1, 5) })
    const { chat, jid } = await s.mintChat()
    const at = await openHttpTools(t, `${s.url('webd')}${chat}mcp`, { generation: 'handshake' })
    await at.call('send', { content: '12345' })
    await assert.rejects(at.call('send', { content: '' }), /content must not be empty/)
    await assert.rejects(at.call('send', { content: '1' }), /this link accepts no more messages: its storage is full/)
    assert.deepEqual(await contents(s, jid), ['12345'])
    await s.grant('github:1', 'interact', 'main')
    const headers = { Authorization: `Bearer ${await s.bearer({ sub: 'github:1' })}` }
    const person = await openHttpTools(t, `${s.url('webd')}/mcp`, { generation: 'handshake', headers })
    await until(async () => (await stored(s, 'chat', jid)) > 0)
    await assert.rejects(person.call('send', { content: '1', folder: 'main' }), /main accepts no more messages/)
    assert.deepEqual(await contents(s, jid), ['12345'])
  })

  test('shares the quota of its folder with the other links of the folder', async (t) => {
    const s = await open(t, engine, { FOLDER_QUOTA: quota(2, 4) })
    await s.groups('team')
    const [a, b] = [await s.mintHook({ jid_suffix: 'a' }), await s.mintChat({ jid_suffix: 'b' })]
    const other = await s.mintHook({ folder: 'team' })
    assert.equal((await s.to(`POST ${a.hook}`, { body: 'ab' })).status, 204)
    await isFull(s, `POST ${b.chat}`, json({ content: 'abc' }))
    await s.speak(b, 'ab')
    await isFull(s, `POST ${a.hook}`, { body: '' })
    assert.equal((await s.to(`POST ${other.hook}`, { body: 'abcd' })).status, 204)
  })

  test('answers a repeat of a stored message as before', async (t) => {
    const s = await open(t, engine, { LINK_QUOTA: quota(1, 5) })
    const { chat, jid } = await s.mintChat()
    const say = (content: string) => s.to(`POST ${chat}`, json({ content }, { 'Idempotency-Key': 'one' }))
    const first = await say('12345')
    assert.deepEqual((await say('12345')).body, first.body)
    await isFull(s, `POST ${chat}`, json({ content: '1' }, { 'Idempotency-Key': 'two' }))
    assert.deepEqual(await contents(s, jid), ['12345'])
  })

  test('is full after a restart too, and for another process', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    const settings = { LINK_QUOTA: quota(1, 5) }
    const first = await open(t, engine, settings, { on })
    const link = await first.mintHook()
    assert.equal((await first.to(`POST ${link.hook}`, { body: '12345' })).status, 204)
    await until(async () => (await stored(first, 'chat', link.jid)) > 0)
    const second = await open(t, engine, settings, { on })
    await isFull(second, `POST ${link.hook}`, { body: '' })
  })

  test('is logged once, with what to do', async (t) => {
    const s = await open(t, engine, { LINK_QUOTA: quota(1, 0) })
    const link = await s.mintHook()
    for (let time = 0; time < 5; time++) await isFull(s, `POST ${link.hook}`, { body: 'x' })
    const warnings = s.logged().filter(({ msg }) => /storage is full/.test(String(msg)))
    assert.deepEqual(
      warnings.map(({ msg, chat, bytes, quota }) => ({ msg, chat, bytes, quota })),
      [
        {
          msg: 'storage is full, messages are refused: raise it with svc settings test set LINK_QUOTA <bytes>',
          chat: link.jid,
          bytes: 0,
          quota: MESSAGE_OVERHEAD_BYTES,
        },
      ],
    )
  })
})

function stored({ host }: LinkHost, scope: 'chat' | 'folder', name: string): Promise<number> {
  return host.engine.read((tx) => storedBytes(tx, scope, name))
}

test('a message that was not appended releases its storage', () => {
  const rooms = new StorageTracker({ quotas: { chat: 1000, folder: 0 }, now: () => 0, onQuotaExceeded: () => {} })
  const room = rooms.open({ jid: 'web:main', folder: 'main', context: 'ä' }, { chat: 0, folder: 0 })
  room.reserve(1000 - MESSAGE_OVERHEAD_BYTES - 2)
  assert.throws(() => room.reserve(0), Refusal)
  room.release(1000 - MESSAGE_OVERHEAD_BYTES - 2)
  assert.throws(() => room.reserve(1000 - MESSAGE_OVERHEAD_BYTES - 1), Refusal)
  room.reserve(1000 - MESSAGE_OVERHEAD_BYTES - 2)
})

test('a counter keeps unfiled bytes, follows other processes, and goes down with the store', () => {
  const cell = new StorageCounter('chat', 'web:main', 100, 10)
  cell.bytes += 30
  cell.recount(20)
  assert.equal(cell.bytes, 40)
  cell.recount(70)
  assert.equal(cell.bytes, 70)
  cell.recount(5)
  assert.equal(cell.bytes, 5)
})

test('a full folder is logged once an hour, however many links it has', () => {
  const warnings: QuotaExceededNotice[] = []
  let now = 0
  const rooms = new StorageTracker({
    quotas: { chat: 0, folder: 1 },
    now: () => now,
    onQuotaExceeded: (one) => warnings.push(one),
  })
  const counted = { chat: 0, folder: 7 }
  const both = ['web:a', 'web:b'].map((jid) => rooms.open({ jid, folder: 'main', context: undefined }, counted))
  const refuse = (): void => {
    for (const room of both) assert.throws(() => room.reserve(0), Refusal)
  }
  refuse()
  now = 3_599_999
  refuse()
  assert.deepEqual(warnings, [{ scope: 'folder', name: 'main', bytes: 7, quota: 1, setting: 'FOLDER_QUOTA' }])
  now = 3_600_000
  refuse()
  assert.equal(warnings.length, 2)
})
