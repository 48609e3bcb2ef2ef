import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { mustBeAccount } from './platform-accounts.ts'

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
