import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { like } from '../../test/support/engine.ts'
import { type EngineName, onEveryEngine, testHost } from '../../test/support/host.ts'
import { CHANNELS_CHANGED, deregisterChannel, registerChannel } from '../core/channel-registrations.ts'
import { rememberChat } from '../core/chat-state.ts'
import { openChannels } from './channel-book.ts'

async function opened(t: TestContext, engine: EngineName = 'sqlite') {
  const at = await testHost(t, engine)
  const { host } = at
  let reads = 0
  const counted = like(host.engine, {
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
  const channels = openChannels({ ...host, engine: counted })
  const nameOf = async (jid: string, source?: string) => (await channels.of(jid, source))?.name
  return { ...at, channels, register, nameOf, reads: () => reads }
}

onEveryEngine('the channel of a chat', (engine) => {
  test('is the one that is named, else who delivered it last, else who owns its prefix', async (t) => {
    const { host, register, nameOf } = await opened(t, engine)
    await register('one', 'telegram:')
    await register('two', 'telegram:')
    await register('groups', 'telegram:group/')
    assert.equal(await nameOf('telegram:user/1'), 'one')
    assert.equal(await nameOf('telegram:group/1'), 'groups')
    assert.equal(await nameOf('telegram:group/1', 'two'), 'two')
    await host.engine.transaction((tx) => rememberChat(tx, 'telegram:group/1', { source: 'one' }))
    assert.equal(await nameOf('telegram:group/1'), 'one')
    assert.equal(await nameOf('telegram:group/1', 'gone'), 'groups')
    assert.equal(await nameOf('discord:1/2'), undefined)
  })

  test('is never an adapter of other platforms, whoever delivered the chat before', async (t) => {
    const { host, register, nameOf } = await opened(t, engine)
    await register('one', 'discord:')
    await host.engine.transaction((tx) => rememberChat(tx, 'telegram:1', { source: 'one' }))
    assert.equal(await nameOf('telegram:1'), undefined)
    assert.equal(await nameOf('telegram:1', 'one'), undefined)
    await register('two', 'telegram:')
    assert.equal(await nameOf('telegram:1', 'one'), 'two')
  })

  test('is known at once when it comes, and not any more when it has gone', async (t) => {
    const { host, register, nameOf } = await opened(t, engine)
    assert.equal(await nameOf('telegram:1'), undefined)
    await register('one', 'telegram:')
    assert.equal(await nameOf('telegram:1'), 'one')
    await host.engine.transaction((tx) => deregisterChannel(tx, 'one'))
    host.signals.emit([CHANNELS_CHANGED])
    assert.equal(await nameOf('telegram:1'), undefined)
  })
})

suite('the channels that are built in', () => {
  test('have their chats, and no adapter can have them', async (t) => {
    const { nameOf } = await opened(t)
    assert.deepEqual(
      await Promise.all(['web:main', 'hook:main/ci', 'sandbox:lobby', 'main'].map((jid) => nameOf(jid))),
      ['web', 'web', 'sandbox', undefined],
    )
  })
})

test('a send that names its channel asks the store for nothing that is known', async (t) => {
  const { channels, register, reads } = await opened(t)
  await register('one', 'telegram:')
  const first = await channels.of('telegram:1', 'one')
  const before = reads()
  for (let at = 0; at < 10; at++) assert.equal(await channels.of('telegram:1', 'one'), first)
  // A second is long: at most one look in it.
  assert.ok(reads() - before <= 1)
  await channels.of('sandbox:lobby')
  assert.ok(reads() - before <= 1)
})
