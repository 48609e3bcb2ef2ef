import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { EVERY_CAPABILITY, type FakeOptions, fakeAdapter } from '../../../test/support/fake-adapter.ts'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import type { ActionName, Channel } from '../../core/delivery/channel.ts'
import type { AddressPolicy } from '../address-policy.ts'
import { EVERY_ACTION, isChannelError, testChannelContract } from '../channel.contract.ts'
import { openHttpChannel } from './adapter.ts'

const jid = 'telegram:group/42'

async function openAdapter(
  t: TestContext,
  options: FakeOptions & { capabilities?: Record<string, boolean>; timeoutMs?: number; addresses?: AddressPolicy } = {},
) {
  const { capabilities = {}, timeoutMs, addresses = { isPublicAllowed: false }, ...rest } = options
  const adapter = await fakeAdapter(t, rest)
  const channel = openHttpChannel({
    name: 'teled',
    platform: 'telegram',
    url: adapter.url,
    token: 'the token',
    timeoutMs,
    addresses,
    capabilities: { ...EVERY_CAPABILITY, dedupe: rest.isKeyed === true, ...capabilities },
  })
  return { adapter, channel }
}

const send = (channel: Channel, content = 'hello') =>
  channel.actions.send?.({ jid, key: 'a key', content, replyTo: 'p9', threadId: 't1', turnId: 'turn' })

const KINDS: Record<string, FakeOptions & { capabilities?: Record<string, boolean>; lost?: ActionName[] }> = {
  'that dedupes': { isKeyed: true },
  'that does not': {},
  'that lacks some': {
    capabilities: { pin: false, fwd: false, fetch_history: false, post: false, pane: false },
    lost: [
      'pin_message',
      'unpin_message',
      'unpin_all',
      'forward',
      'fetch_history',
      'post',
      'pane_set_prompts',
      'pane_set_title',
    ],
  },
}
for (const [kind, { lost = [], ...options }] of Object.entries(KINDS))
  suite(`an adapter ${kind}`, () => {
    testChannelContract(async (t) => {
      const { adapter, channel } = await openAdapter(t, options)
      return {
        channel,
        jid,
        abilities: EVERY_ACTION.filter((action) => !lost.includes(action)),
        delivered: async (key) => adapter.delivered.filter((one) => one.key === key).map(({ content }) => content),
        typingIn: async () => [...adapter.typing],
        drafts: async () => [...adapter.drafts.values()],
        buttonsOf: async (id) => adapter.delivered.find((one) => one.id === id)?.buttons ?? [],
      }
    })
  })

test('sends the key as a member and as a header, with all fields of the message', async (t) => {
  const { adapter, channel } = await openAdapter(t)
  assert.deepEqual(await send(channel), { id: 'p1' })
  const [request] = adapter.requests
  assert.deepEqual(request?.body, {
    chat_jid: jid,
    key: 'a key',
    content: 'hello',
    reply_to: 'p9',
    thread_id: 't1',
    turn_id: 'turn',
  })
  assert.equal(request?.headers['idempotency-key'], 'a key')
  assert.equal(request?.headers.authorization, 'Bearer the token')
})

test('names the thread of a typing indicator as it does for a message, and none for the main one', async (t) => {
  const { adapter, channel } = await openAdapter(t)
  await channel.actions.typing?.({ jid, threadId: 't1', on: true })
  await channel.actions.typing?.({ jid, on: false })
  assert.deepEqual(
    adapter.requests.map(({ path, body }) => [path, body]),
    [
      ['/typing', { chat_jid: jid, thread_id: 't1', on: true }],
      ['/typing', { chat_jid: jid, on: false }],
    ],
  )
})

test('sends a draft without the header of a key, as the same turn sends another text next', async (t) => {
  const { adapter, channel } = await openAdapter(t)
  await channel.actions.draft?.({ jid, key: 'turn', content: 'so', threadId: 't1', agentName: 'Ada', isDone: false })
  const [request] = adapter.requests
  const expected = { chat_jid: jid, key: 'turn', content: 'so', done: false, thread_id: 't1', agent_name: 'Ada' }
  assert.deepEqual([request?.path, request?.body], ['/draft', expected])
  assert.equal(request?.headers['idempotency-key'], undefined)
})

test('sends a file unchanged, with its name, type and key', async (t) => {
  const { adapter, channel } = await openAdapter(t)
  const path = join(tempDir(t), 'x')
  writeFileSync(path, `start\r\n--svc-boundary\r\n${'é'.repeat(200_000)}`)
  const named = { filename: 'ä "b".txt', agentName: 'Ada' }
  await channel.actions.send_file?.({ jid, key: 'k', path, ...named, mime: 'text/plain', caption: 'look' })
  await channel.actions.send_voice?.({ jid, key: 'v', path: '/dev/null', filename: 'v.ogg' }).catch(() => {})
  const [request] = adapter.requests
  assert.equal(request?.file?.text, `start\r\n--svc-boundary\r\n${'é'.repeat(200_000)}`)
  assert.deepEqual([request?.file?.name, request?.file?.type], ['ä "b".txt', 'text/plain'])
  const { filename } = named
  assert.deepEqual(request?.body, { chat_jid: jid, key: 'k', filename, caption: 'look', agent_name: 'Ada' })
  assert.equal(request?.headers['idempotency-key'], 'k')
})

test('sends an empty file', async (t) => {
  const { adapter, channel } = await openAdapter(t)
  const path = join(tempDir(t), 'empty')
  writeFileSync(path, '')
  assert.deepEqual(await channel.actions.send_file?.({ jid, key: 'k', path, filename: 'empty' }), { id: 'p1' })
  assert.equal(adapter.requests[0]?.file?.text, '')
})

suite('the response of an adapter', () => {
  const answers: [status: number, kind: 'permanent' | 'transient' | 'unclear'][] = [
    [400, 'permanent'],
    [403, 'permanent'],
    [404, 'permanent'],
    [302, 'permanent'],
    [408, 'transient'],
    [429, 'transient'],
    [500, 'transient'],
    [502, 'transient'],
    [503, 'transient'],
    [504, 'unclear'],
  ]
  for (const [status, kind] of answers)
    test(`with status ${status} is a ${kind} error`, async (t) => {
      const { adapter, channel } = await openAdapter(t)
      adapter.behave({ status, body: { ok: false, error: 'no\u0000 room' } })
      await assert.rejects(async () => send(channel), isChannelError(kind, `teled answers ${status}: no  room|no room`))
    })

  test('with status 429 sets the retry delay', async (t) => {
    const { adapter, channel } = await openAdapter(t)
    adapter.behave({ status: 429, headers: { 'Retry-After': '17' } })
    await assert.rejects(
      async () => send(channel),
      (error: Error & { retryAfterMs?: number }) => error.retryAfterMs === 17_000,
    )
  })

  test('with status 501 is unsupported, with the hint of the adapter or the default one', async (t) => {
    const { channel } = await openAdapter(t, { lacks: ['/quote'] })
    await assert.rejects(
      async () => channel.actions.quote?.({ jid, key: 'k', sourceMsgId: 'p1', sourceJid: jid }),
      (error: Error & { hint?: string }) => {
        assert.equal(error.hint, 'the hint of the adapter')
        return isRefusal('unsupported', 'unsupported: quote on telegram')(error)
      },
    )
    const { adapter, channel: other } = await openAdapter(t)
    adapter.behave({ status: 501, body: {} })
    await assert.rejects(
      async () => other.actions.dislike?.({ jid, targetId: 'p1' }),
      (error: Error & { hint?: string }) => error.hint === 'use like(chatJid, targetId, reaction) with 👎',
    )
  })

  test('with status 404 for a pane is unsupported', async (t) => {
    const { adapter, channel } = await openAdapter(t)
    adapter.behave({ status: 404 })
    await assert.rejects(async () => channel.actions.pane_set_title?.({ jid, title: 'x' }), isRefusal('unsupported'))
  })

  test('is a success without an id or with an invalid body', async (t) => {
    const { adapter, channel } = await openAdapter(t)
    for (const body of [{ ok: true }, 'fine', { id: { deep: 1 } }, { id: '' }]) {
      adapter.behave({ status: 200, body })
      assert.deepEqual(await send(channel), { id: undefined })
    }
    adapter.behave({ status: 200, body: { id: 17 } })
    assert.deepEqual(await send(channel), { id: '17' })
    adapter.behave({ status: 200, body: { ok: false, error: 'no' } })
    await assert.rejects(async () => send(channel), isChannelError('permanent'))
  })
})

test('reports a refused connection as transient, because nothing was written', async (t) => {
  const { adapter, channel } = await openAdapter(t)
  await adapter.close()
  await assert.rejects(async () => send(channel), isChannelError('transient', 'cannot be reached'))
})

test('does not reveal the address of the adapter in any error', async (t) => {
  const { adapter, channel } = await openAdapter(t)
  const { host, port } = new URL(adapter.url)
  const failure = async (): Promise<string> => {
    const error: unknown = await Promise.resolve(send(channel)).catch((error: unknown) => error)
    assert.ok(error instanceof Error)
    const text = `${error.message} ${'hint' in error ? error.hint : ''}`
    assert.ok(!text.includes(port) && !text.includes('127.0.0.1'), text)
    return text
  }
  adapter.behave({ status: 502, body: { error: `connect ECONNREFUSED ${host}, see ${adapter.url}/health` } })
  assert.equal((await failure()).trim(), 'teled answers 502: connect ECONNREFUSED teled, see teled/health')
  adapter.behave({ status: 501, body: { hint: `ask ${adapter.url}` } })
  assert.equal(await failure(), 'unsupported: send on telegram ask teled')
  adapter.behave('dropped before')
  assert.match(await failure(), /^teled did not answer \(ECONNRESET\)/)
  await adapter.close()
  assert.match(await failure(), /^teled cannot be reached \(ECONNREFUSED\)/)
})

for (const how of ['dropped before', 'dropped after'] as const)
  test(`reports a connection ${how} the delivery as unclear`, async (t) => {
    const { adapter, channel } = await openAdapter(t)
    adapter.behave(how)
    await assert.rejects(async () => send(channel), isChannelError('unclear', 'did not answer'))
  })

test('reports a response timeout as unclear', async (t) => {
  const { adapter, channel } = await openAdapter(t, { timeoutMs: 50 })
  adapter.behave('silent')
  await assert.rejects(async () => send(channel), isChannelError('unclear', 'no response in time'))
})

test('rejects an invalid history and sorts a valid one', async (t) => {
  const { adapter, channel } = await openAdapter(t)
  adapter.behave({ status: 200, body: { messages: 'none' } })
  await assert.rejects(async () => channel.actions.fetch_history?.({ jid, limit: 5 }), isChannelError('permanent'))
  const message = (id: number, timestamp: unknown) => ({ id, sender: 's', content: '', timestamp })
  adapter.behave({ status: 200, body: { messages: [message(2, '2026-01-02T00:00:00Z'), message(1, 1)] } })
  const history = await channel.actions.fetch_history?.({
    jid: 'telegram:a&b=c',
    limit: 5,
    before: '2026-01-03T00:00:00Z',
  })
  assert.deepEqual(
    history?.messages.map(({ id }) => id),
    ['1', '2'],
  )
  assert.equal(adapter.requests.at(-1)?.query.get('jid'), 'telegram:a&b=c')
})
