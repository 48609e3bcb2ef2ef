import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { overrideEngine } from '../../../test/support/engine-override.ts'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { upsertChat } from '../../core/chats/chats.ts'
import { CHANNELS_CHANGED, deregisterChannel, registerChannel } from '../../core/delivery/channel-registrations.ts'
import { openChannelRegistry } from './channel-registry.ts'

async function setUp(t: TestContext, engine: EngineName = 'sqlite') {
  const at = await testHost(t, engine)
  const { host } = at
  let reads = 0
  const counted = overrideEngine(host.engine, {
    read: (work) => {
      reads++
      return host.engine.read(work)
    },
  })
  const register = async (name: string, ...jid_prefixes: string[]): Promise<void> => {
    const wanted = { name, url: `http://127.0.0.1:9/${name}`, jid_prefixes, capabilities: { send_text: true } }
    await host.engine.transaction((tx) => registerChannel(tx, host, wanted))
    at.clock.advance(1)
    host.signals.emit([CHANNELS_CHANGED])
  }
  const channels = openChannelRegistry({ ...host, engine: counted })
  const nameOf = async (jid: string, source?: string) => (await channels.resolve(jid, source))?.name
  return { ...at, channels, register, nameOf, reads: () => reads }
}

onEveryEngine('the channel of a chat', (engine) => {
  test('is the named one, or the one of the latest message, or the owner of the prefix', async (t) => {
    const { host, register, nameOf } = await setUp(t, engine)
    await register('one', 'telegram:')
    await register('two', 'telegram:')
    await register('groups', 'telegram:group/')
    assert.equal(await nameOf('telegram:user/1'), 'one')
    assert.equal(await nameOf('telegram:group/1'), 'groups')
    assert.equal(await nameOf('telegram:group/1', 'two'), 'two')
    await host.engine.transaction((tx) => upsertChat(tx, 'telegram:group/1', { source: 'one' }))
    assert.equal(await nameOf('telegram:group/1'), 'one')
    assert.equal(await nameOf('telegram:group/1', 'gone'), 'groups')
    assert.equal(await nameOf('discord:1/2'), undefined)
  })

  test('is never an adapter of another platform, even if it delivered before', async (t) => {
    const { host, register, nameOf } = await setUp(t, engine)
    await register('one', 'discord:')
    await host.engine.transaction((tx) => upsertChat(tx, 'telegram:1', { source: 'one' }))
    assert.equal(await nameOf('telegram:1'), undefined)
    assert.equal(await nameOf('telegram:1', 'one'), undefined)
    await register('two', 'telegram:')
    assert.equal(await nameOf('telegram:1', 'one'), 'two')
  })

  test('is found as soon as it registers, and no longer after it deregisters', async (t) => {
    const { host, register, nameOf } = await setUp(t, engine)
    assert.equal(await nameOf('telegram:1'), undefined)
    await register('one', 'telegram:')
    assert.equal(await nameOf('telegram:1'), 'one')
    await host.engine.transaction((tx) => deregisterChannel(tx, 'one'))
    host.signals.emit([CHANNELS_CHANGED])
    assert.equal(await nameOf('telegram:1'), undefined)
  })
})

suite('built-in channels', () => {
  test('own their chats, which no adapter can take over', async (t) => {
    const { nameOf } = await setUp(t)
    assert.deepEqual(
      await Promise.all(['web:main', 'hook:main/ci', 'sandbox:lobby', 'main'].map((jid) => nameOf(jid))),
      ['web', 'hook', 'sandbox', undefined],
    )
  })
})

test('agents get the same hints in every chat of a link', async (t) => {
  const { channels } = await setUp(t)
  const [hook, web] = [await channels.resolve('hook:main/ci'), await channels.resolve('web:main')]
  for (const action of ['like', 'dislike', 'edit', 'unpin_all', 'post'] as const)
    assert.equal(hook?.hint(action), web?.hint(action), action)
})

test('a send that names its channel does not read cached rows', async (t) => {
  const { channels, register, reads } = await setUp(t)
  await register('one', 'telegram:')
  const first = await channels.resolve('telegram:1', 'one')
  const before = reads()
  for (let at = 0; at < 10; at++) assert.equal(await channels.resolve('telegram:1', 'one'), first)
  // The cache lasts a second: at most one more read.
  assert.ok(reads() - before <= 1)
  await channels.resolve('sandbox:lobby')
  assert.ok(reads() - before <= 1)
})
