import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { sourceOf } from '../../lib/settings.ts'
import type { DaemonName } from '../settings.ts'
import { daemonUrls, listenAddressOf } from './listen-addresses.ts'

const at = (name: DaemonName, settings: Record<string, string> = {}): string => {
  const { listen, setting } = listenAddressOf(name, [sourceOf('x', new Map(Object.entries(settings)))])
  return `${listen.host} ${listen.port} ${setting}`
}

const ADDRESSES: Record<string, readonly [is: string, should: string]> = {
  proxyd: [at('proxyd'), '127.0.0.1 8080 WEB_LISTEN'],
  'the first daemon after it': [at('routd'), '127.0.0.1 8081 ROUTD_LISTEN'],
  'the last daemon': [at('dashd'), '127.0.0.1 8088 DASHD_LISTEN'],
  'a daemon beside another WEB_LISTEN': [at('routd', { WEB_LISTEN: ':9000' }), '127.0.0.1 9001 ROUTD_LISTEN'],
  'a daemon beside a random port': [at('dashd', { WEB_LISTEN: '127.0.0.1:0' }), '127.0.0.1 0 DASHD_LISTEN'],
  'a public proxyd': [at('proxyd', { WEB_LISTEN: '0.0.0.0:80' }), '0.0.0.0 80 WEB_LISTEN'],
  'another daemon of a public proxyd, which stays on loopback': [
    at('routd', { WEB_LISTEN: '0.0.0.0:80' }),
    '127.0.0.1 81 ROUTD_LISTEN',
  ],
  'a daemon on the loopback of IPv6': [at('routd', { WEB_LISTEN: '[::1]:80' }), '::1 81 ROUTD_LISTEN'],
  'a daemon with its own setting': [at('routd', { ROUTD_LISTEN: '0.0.0.0:7000' }), '0.0.0.0 7000 ROUTD_LISTEN'],
  'proxyd with its own setting': [at('proxyd', { PROXYD_LISTEN: ':7000' }), '127.0.0.1 7000 PROXYD_LISTEN'],
}

for (const [what, [is, should]] of Object.entries(ADDRESSES))
  test(`${what} listens at ${should}`, () => assert.equal(is, should))

test('a port above 65535 is refused with a reason', () => {
  assert.throws(
    () => at('dashd', { WEB_LISTEN: ':65530' }),
    isRefusal('invalid', 'the port of dashd would be 65538, above 65535'),
  )
  assert.throws(
    () => at('routd', { ROUTD_LISTEN: '8081' }),
    isRefusal('invalid', 'ROUTD_LISTEN in x must be host:port'),
  )
})

test('the URLs of other daemons come from their settings', () => {
  const urls = daemonUrls([sourceOf('x', new Map([['ROUTD_URL', 'http://routd:8080']]))])
  assert.deepEqual([...urls], [['routd', 'http://routd:8080']])
})
