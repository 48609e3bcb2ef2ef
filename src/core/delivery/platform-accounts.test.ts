import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { mustBeAccount, mustBeReachable, receivesWebhooks, webhookUrlOf } from './platform-accounts.ts'

const settings = {
  address: 'help@example.com',
  imap: 'imap.example.com:993',
  smtp: 'smtp.example.com:465',
  user: 'help',
}
const check = (more: Readonly<Record<string, string>>) => () =>
  mustBeAccount('email', { settings: { ...settings, ...more }, secrets: { password: 'secret word' } })

test('an e-mail account without TLS has its servers at loopback addresses', () => {
  check({})()
  check({ authserv: 'mx.example.com' })()
  for (const host of ['127.0.0.1', '127.9.9.9', 'localhost', '[::1]'])
    check({ tls: 'off', imap: `${host}:143`, smtp: `${host}:25` })()
  for (const odd of ['imap.example.com:143', '127.example.com:143', 'localhost.example.com:143', '10.0.0.1:143'])
    assert.throws(check({ tls: 'off', imap: odd, smtp: '127.0.0.1:25' }), isRefusal('invalid', /tls=off would send/))
  assert.throws(check({ tls: 'off', imap: '127.0.0.1:143' }), isRefusal('invalid', /loopback addresses only/))
})

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
