import assert from 'node:assert/strict'
import { chmodSync, lstatSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { testHost } from '../../../test/support/host.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { until } from '../../../test/support/until.ts'
import { layout } from '../../core/layout.ts'

const AS_ROOT = { skip: process.getuid?.() === 0 ? false : 'only root can change owners' }

test('runed gives workspaces to the users of their agents, and logs it once', AS_ROOT, async (t) => {
  const plain = await testHost(t)
  await plain.groups('main', 'main/sub')
  const places = layout(plain.host.layout?.root ?? assert.fail('it has files'), { uid: 60_000, gid: 60_000, count: 9 })
  writeFileSync(join(places.groups, 'main/sub/file'), '')
  symlinkSync('/etc/hostname', join(places.groups, 'main/link'))
  mkdirSync(places.webPriv, { recursive: true })
  chmodSync(places.groups, 0o755)
  const on = { ...plain, host: { ...plain.host, layout: places } }
  const served = await serveHost(t, { on, daemons: ['runed'], settings: { SANDBOX: 'none' } })
  const lines = () => served.logged().filter(({ msg }) => String(msg).includes('workspaces'))
  await until(() => lines().length > 0)
  for (const name of ['main', 'main/sub', 'main/sub/file', 'main/link'])
    assert.equal(lstatSync(join(places.groups, name)).uid, 60_000, name)
  assert.equal(statSync('/etc/hostname').uid, 0)
  assert.deepEqual(
    [places.groups, places.files, places.webPriv, places.logs].map((path) => statSync(path).mode & 0o777),
    [0o710, 0o710, 0o700, 0o700],
  )
  assert.deepEqual(
    lines().map(({ msg, count }) => [msg, count]),
    [['workspaces now belong to the users of their agents', 4]],
  )
})
