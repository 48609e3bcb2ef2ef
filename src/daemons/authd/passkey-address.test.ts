import assert from 'node:assert/strict'
import { test } from 'node:test'
import { passkeyAddress } from './passkey-address.ts'

test('passkeys are bound to localhost or an https name', () => {
  const bound = {
    'http://localhost:8080': 'localhost',
    'http://demo.localhost:8080': 'demo.localhost',
    'https://localhost': 'localhost',
    'https://chat.example:8443': 'chat.example',
  }
  for (const [webBase, rpId] of Object.entries(bound))
    assert.deepEqual(passkeyAddress({ webBase }), { rpId, origin: webBase })
})

test('other addresses are named with what is missing', () => {
  const fault = (webBase: string): string => passkeyAddress({ webBase }).fault ?? assert.fail(webBase)
  for (const webBase of ['http://127.0.0.1:8080', 'https://192.168.1.5', 'https://[::1]:8443'])
    assert.match(
      fault(webBase),
      /^Passkeys need a host name, not an IP address\. This server's address is https?:\/\/[\d[]/,
    )
  assert.equal(
    fault('http://nas.lan:8080'),
    "Passkeys need https. This server's address is http://nas.lan:8080: set WEB_HOST to localhost with its port, or to an https name, and open that address.",
  )
})
