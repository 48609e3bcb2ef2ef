import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { registerChannel } from '../delivery/channel-registrations.ts'
import { channelSecrets, hashSecret } from '../secrets/channel-secrets.ts'
import { writeContextOf } from '../turns/rounds.ts'
import { storeFetchedMessages } from './fetched-messages.ts'
import { messages } from './messages.ts'

onEveryEngine('the history of an account of a platform', (engine) => {
  for (const [title, platforms, kept] of [
    ['has people of the platform if the secret of the adapter names it', ['telegram', 'telegram-work'], true],
    ['has none of them if it does not', ['telegram-work'], false],
  ] as const)
    test(title, async (t) => {
      const on = await testHost(t, engine)
      const secret = {
        name: 'work',
        secret_hash: hashSecret('x'),
        created_at: '2026-01-01T00:00:00Z',
        created_by: 'cli',
      }
      const wanted = { name: 'work', url: 'http://127.0.0.1:9', jid_prefixes: ['telegram-work:'], capabilities: {} }
      const senders = ['telegram-work:1', 'telegram:2', 'discord:3']
      const batch = {
        ...{ jid: 'telegram-work:user/1', folder: 'main', source: 'work' },
        messages: senders.map((sender) => ({ id: sender, sender, content: 'x', timestamp: '2025-12-31T10:00:00Z' })),
      }
      const stored = await on.host.engine.transaction(async (tx) => {
        await channelSecrets.insert(tx, { ...secret, platforms: [...platforms] })
        await registerChannel(tx, on.host, { ...wanted, secret_name: 'work' })
        await storeFetchedMessages(tx, writeContextOf(on.host), batch)
        return (await messages.list(tx)).map(({ sender }) => sender)
      })
      assert.deepEqual(stored.toSorted(), kept ? ['telegram-work:1', 'telegram:2'] : ['telegram-work:1'])
    })
})
