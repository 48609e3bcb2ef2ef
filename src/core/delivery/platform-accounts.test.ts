import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mustBeReachable, receivesWebhooks, webhookUrlOf } from './platform-accounts.ts'

test('webhooks need a public name with https, and other ways to receive do not', () => {
  const [webhook, polling] = [{ receive: 'webhook' }, { receive: 'polling' }]
  for (const base of ['https://chat.example', 'https://chat.example:8443', 'https://203.0.113.7'])
    assert.doesNotThrow(() => mustBeReachable('telegram', webhook, base), base)
  for (const base of [
    'http://chat.example',
    'https://localhost',
    'https://a.localhost',
    'https://127.0.0.1',
    'https://[::1]',
  ])
    assert.throws(() => mustBeReachable('telegram', webhook, base), /can reach by https/, base)
  assert.doesNotThrow(() => mustBeReachable('telegram', polling, 'http://localhost:8080'))
  assert.doesNotThrow(() => mustBeReachable('telegram', {}, 'http://localhost:8080'))
})

test('an account receives webhooks by the setting of its own platform', () => {
  assert.equal(receivesWebhooks('telegram', { receive: 'webhook' }), true)
  assert.equal(receivesWebhooks('slack', { receive: 'events' }), true)
  assert.equal(receivesWebhooks('slack', { receive: 'webhook' }), false)
  assert.equal(receivesWebhooks('email', { receive: 'webhook' }), false)
  assert.equal(receivesWebhooks('nothing', { receive: 'webhook' }), false)
  assert.equal(receivesWebhooks('discord', {}), false)
  assert.equal(webhookUrlOf('https://chat.example', 'telegram-work'), 'https://chat.example/channels/telegram-work/')
})
