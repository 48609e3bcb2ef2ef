import assert from 'node:assert/strict'
import { sep } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '../lib/refusal.ts'
import { chatDir, dataDir, groupDirs, instanceName, layout } from './layout.ts'

test('places an instance under SVC_DATA_DIR, or under PREFIX/data by default', () => {
  assert.equal(dataDir('demo', { SVC_DATA_DIR: '/var/svc' }), '/var/svc/svc_demo')
  assert.equal(dataDir('demo', { SVC_DATA_DIR: '/var/svc', PREFIX: '/opt' }), '/var/svc/svc_demo')
  assert.equal(dataDir('demo', { PREFIX: '/opt' }), '/opt/data/svc_demo')
  assert.equal(dataDir('demo', {}), '/srv/data/svc_demo')
  assert.equal(dataDir('demo', { SVC_DATA_DIR: '', PREFIX: '' }), '/srv/data/svc_demo')
  assert.equal(dataDir('demo', { SVC_DATA_DIR: 'here' }), `${process.cwd()}/here/svc_demo`)
})

test('rejects an invalid instance name before building a path', () => {
  for (const name of ['demo', 'A', '_x', '9', 'a-b_C', 'x'.repeat(32)]) assert.equal(instanceName(name), name)
  for (const name of ['', '-x', 'x'.repeat(33), 'a b', 'a/b', '..', '.', 'a.b', 'a\n', 'é', '--help', 'a\0']) {
    assert.throws(
      () => dataDir(name, {}),
      (error) => error instanceof Refusal && error.code === 'invalid',
      JSON.stringify(name),
    )
  }
})

test('builds the documented paths of an instance', () => {
  const parts = layout('/data/svc_demo')
  assert.equal(parts.env, '/data/svc_demo/.env')
  assert.equal(parts.store, '/data/svc_demo/store/svc.db')
  assert.equal(parts.compose, '/data/svc_demo/docker-compose.yml')
  assert.deepEqual(groupDirs(parts, 'team/support'), {
    home: '/data/svc_demo/groups/team/support',
    logs: '/data/svc_demo/logs/team%2Fsupport',
    skills: '/data/svc_demo/groups/team/support/.claude/skills',
    share: '/data/svc_demo/groups/team/share',
    ipc: '/data/svc_demo/ipc/team/support',
    socket: '/data/svc_demo/ipc/team/support/gated.sock',
    webPub: '/data/svc_demo/web/pub/team/support',
    webPriv: '/data/svc_demo/web/priv/team/support',
  })
})

test('maps a folder of any length to one log directory', () => {
  const parts = layout('/d')
  const segment = 'x'.repeat(29)
  const longest = [...Array(7).fill(segment), 'y'.repeat(45)].join('/')
  assert.equal(longest.length, 255)
  const [long, other] = [groupDirs(parts, longest).logs, groupDirs(parts, `${longest.slice(0, -1)}z`).logs]
  assert.equal(long.length, '/d/logs/'.length + 255)
  assert.notEqual(long, other)
  assert.equal(groupDirs(parts, longest.slice(14)).logs, `/d/logs/${longest.slice(14).replaceAll('/', '%2F')}`)
})

test('maps any JID to one directory below its folder', () => {
  const parts = layout('/d')
  const [one, other] = [
    chatDir(parts, { folder: 'team/a', jid: 'web:team', reach: 'chat' }),
    chatDir(parts, { folder: 'team/a', jid: '../../x/\0', reach: 'chat' }),
  ]
  assert.match(one, /^\/d\/chats\/team%2Fa\/[0-9a-f]{32}$/)
  assert.match(other, /^\/d\/chats\/team%2Fa\/[0-9a-f]{32}$/)
  assert.notEqual(one, other)
  assert.notEqual(
    chatDir(parts, { folder: 'team', jid: 'web:team', reach: 'chat' }).split('/').at(-2),
    one.split('/').at(-2),
  )
  assert.notEqual(chatDir(parts, { folder: 'team/a', jid: 'web:team', reach: 'work' }), one)
  assert.throws(() => chatDir(parts, { folder: '..', jid: 'web:team', reach: 'chat' }), Refusal)
})

test('rejects invalid folders', () => {
  for (const folder of [
    '',
    '..',
    '../x',
    '/etc',
    'a/../b',
    'a//b',
    'a/',
    'share',
    'a/share',
    'gated.sock',
    '.claude',
    'a\0',
  ])
    assert.throws(
      () => groupDirs(layout('/d'), folder),
      (error) => error instanceof Refusal && error.code === 'invalid',
      folder,
    )
})

test('builds no path outside the instance', () => {
  const parts = layout('/d')
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[a./\\~%-]{1,12}$/)), (folder) => {
      try {
        const dirs = groupDirs(parts, folder)
        assert.ok(dirs.home.startsWith(`/d/groups${sep}`) && dirs.ipc.startsWith('/d/ipc/'))
        assert.ok(dirs.webPub.startsWith('/d/web/pub/') && dirs.webPriv.startsWith('/d/web/priv/'))
      } catch (error) {
        assert.ok(error instanceof Refusal)
      }
    }),
  )
})
