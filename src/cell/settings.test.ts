import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { isRefusal } from '../../test/support/host.ts'
import { readSettings, sourceOf } from '../lib/settings.ts'
import { describeCells } from './describe.ts'
import { modelAddressOf } from './network.ts'
import { CELL_SETTINGS, type CellSettings } from './settings.ts'

function read(settings: Record<string, string> = {}): CellSettings {
  return readSettings(CELL_SETTINGS, [sourceOf('.env', new Map(Object.entries(settings)))])
}

suite('sandbox settings', () => {
  test('default to a closed sandbox with limits', () => {
    assert.deepEqual(read(), {
      SANDBOX: 'bwrap',
      AGENT_IMAGE: undefined,
      AGENT_CONTAINER_IDLE: 300_000,
      ENGINE_SOCKET: '/var/run/docker.sock',
      HOST_DATA_DIR: undefined,
      SANDBOX_PATHS: [],
      NETWORK: 'rules',
      NETWORK_DENY_PRIVATE: true,
      AGENT_UID: undefined,
      AGENT_UIDS: 1000,
      AGENT_MAX_PROCESSES: 1024,
      AGENT_MAX_MEMORY: 4 * 1024 ** 3,
      AGENT_MAX_FILES: 4096,
      AGENT_MAX_CPU: 3_600_000,
    })
  })

  test('accept absolute paths separated by colons', () => {
    assert.deepEqual(read({ SANDBOX_PATHS: '/opt/a::/srv/b:' }).SANDBOX_PATHS, ['/opt/a', '/srv/b'])
    for (const text of ['opt/a', '/opt/a:b', '/', '/opt/../etc', './a', '/a\nb\u0000'])
      assert.throws(() => read({ SANDBOX_PATHS: text }), isRefusal('invalid', 'SANDBOX_PATHS'), text)
  })

  test('refuse unknown values', () => {
    assert.throws(() => read({ SANDBOX: 'docker' }), isRefusal('invalid', 'SANDBOX'))
    for (const key of ['ENGINE_SOCKET', 'HOST_DATA_DIR'])
      for (const path of ['var/run', '/srv/../etc'])
        assert.throws(() => read({ [key]: path }), isRefusal('invalid', key))
    assert.throws(() => read({ NETWORK: 'closed' }), isRefusal('invalid', 'NETWORK'))
  })
})

test('the description names user, files and network', () => {
  const user = { uid: 60_000, gid: 60_000, count: 1000 }
  assert.deepEqual(describeCells(read({ SANDBOX_PATHS: '/opt/a' }), user), {
    user: 'uids 60000 to 60999, one per world',
    files: 'their own workspace, programs of the machine (read-only), /opt/a (read-only)',
    network: 'the hosts allowed by svc network, and their own model',
  })
  assert.equal(
    describeCells(read({ SANDBOX: 'container', AGENT_IMAGE: 'tools:1' }), user).files,
    'their own workspace and the image tools:1 (read-only)',
  )
  assert.equal(describeCells(read(), { ...user, count: 1 }).user, 'uid 60000')
  const open = 'every host that this machine can reach'
  assert.equal(describeCells(read({ NETWORK: 'open' }), user).network, `${open} (NETWORK=open)`)
  assert.equal(describeCells(read({ SANDBOX: 'none' }), user).network, `${open} (SANDBOX=none)`)
  assert.equal(describeCells(read({ SANDBOX: 'none' }), user).files, 'all files of this user (SANDBOX=none)')
})

test('the address of a model is the host and port of its URL', () => {
  assert.deepEqual(modelAddressOf('https://api.example/v1'), { host: 'api.example', port: 443, mayBePrivate: true })
  assert.deepEqual(modelAddressOf('http://api.example/v1'), { host: 'api.example', port: 80, mayBePrivate: true })
  assert.deepEqual(modelAddressOf('http://127.0.0.1:11434', false), {
    host: '127.0.0.1',
    port: 11434,
    mayBePrivate: false,
  })
  assert.deepEqual(modelAddressOf('http://[::1]:8000/'), { host: '::1', port: 8000, mayBePrivate: true })
  assert.equal(modelAddressOf('not a URL'), undefined)
  assert.equal(modelAddressOf('file:///etc/passwd'), undefined)
})
