import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { refused } from '../../test/support/host.ts'
import { readSettings, sourceOf } from '../lib/settings.ts'
import { describeCells } from './describe.ts'
import { endpointOf } from './network.ts'
import { CELL_SETTINGS, type CellSettings } from './settings.ts'

function read(settings: Record<string, string> = {}): CellSettings {
  return readSettings(CELL_SETTINGS, [sourceOf('.env', new Map(Object.entries(settings)))])
}

suite('settings of cells', () => {
  test('start out closed, with limits', () => {
    assert.deepEqual(read(), {
      SANDBOX: 'bwrap',
      SANDBOX_PATHS: [],
      NETWORK: 'rules',
      NETWORK_DENY_PRIVATE: true,
      AGENT_UID: undefined,
      AGENT_MAX_PROCESSES: 1024,
      AGENT_MAX_MEMORY: 4 * 1024 ** 3,
      AGENT_MAX_FILES: 4096,
      AGENT_MAX_CPU: 3_600_000,
    })
  })

  test('take absolute paths with colons between', () => {
    assert.deepEqual(read({ SANDBOX_PATHS: '/opt/a::/srv/b:' }).SANDBOX_PATHS, ['/opt/a', '/srv/b'])
    for (const text of ['opt/a', '/opt/a:b', '/', '/opt/../etc', './a', '/a\nb\u0000'])
      assert.throws(() => read({ SANDBOX_PATHS: text }), refused('invalid', 'SANDBOX_PATHS'), text)
  })

  test('refuse words that are not known', () => {
    assert.throws(() => read({ SANDBOX: 'docker' }), refused('invalid', 'SANDBOX'))
    assert.throws(() => read({ NETWORK: 'closed' }), refused('invalid', 'NETWORK'))
  })
})

test('cells are described by user, files and network', () => {
  const user = { uid: 60_000, gid: 60_000 }
  assert.deepEqual(describeCells(read({ SANDBOX_PATHS: '/opt/a' }), user), {
    user: 'uid 60000',
    files: 'its own workspace, programs of the machine to read, /opt/a to read',
    network: 'the hosts of svc network rules and its own model',
  })
  const open = 'everything that this machine can reach'
  assert.equal(describeCells(read({ NETWORK: 'open' }), user).network, `${open} (NETWORK=open)`)
  assert.equal(describeCells(read({ SANDBOX: 'none' }), user).network, `${open} (SANDBOX=none)`)
  assert.equal(
    describeCells(read({ SANDBOX: 'none' }), user).files,
    'every file that this user can open (SANDBOX=none)',
  )
})

test('the endpoint of a model is the host and port of its URL', () => {
  assert.deepEqual(endpointOf('https://api.example/v1'), { host: 'api.example', port: 443, mayBePrivate: true })
  assert.deepEqual(endpointOf('http://api.example/v1'), { host: 'api.example', port: 80, mayBePrivate: true })
  assert.deepEqual(endpointOf('http://127.0.0.1:11434', false), { host: '127.0.0.1', port: 11434, mayBePrivate: false })
  assert.deepEqual(endpointOf('http://[::1]:8000/'), { host: '::1', port: 8000, mayBePrivate: true })
  assert.equal(endpointOf('not a URL'), undefined)
  assert.equal(endpointOf('file:///etc/passwd'), undefined)
})
