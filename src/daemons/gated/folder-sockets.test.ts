// The tool sockets of all groups.
import assert from 'node:assert/strict'
import { existsSync, lstatSync, mkdirSync, readdirSync, realpathSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { suite, test } from 'node:test'
import { overrideEngine } from '../../../test/support/engine-override.ts'
import { type GatedHost, openGatedHost, openRpcConnection } from '../../../test/support/gated-host.ts'
import { isRefusal, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { openTools } from '../../../test/support/socket-client.ts'
import { run } from '../../../test/support/sql.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { groupDirs, layout } from '../../core/layout.ts'
import { createToolList } from '../../faces/tool-list.ts'
import { openLog } from '../../lib/log/log.ts'
import { groupsResource } from '../../resources/groups.ts'
import { FolderSockets } from './folder-sockets.ts'

const isThere = (s: GatedHost, folder: string) => () => existsSync(s.path(folder))

onEveryEngine('the sockets of the groups', (engine) => {
  test('are created and removed with their groups, whichever process changes them', async (t) => {
    const s = await openGatedHost(t, { engine })
    for (const folder of ['main', 'team', 'team/sub', 'other']) assert.ok(isThere(s, folder)())
    await s.groups('team/new', 'team/new/deep')
    await until(isThere(s, 'team/new/deep'))
    const tools = await s.open('team/new')
    assert.match((await tools.call('refresh_groups')).text, /team\/new/)
    const wire = await s.wire('team/new/deep')
    await s.cli.call(groupsResource.verbs.remove, { folder: 'team/new/deep' })
    await s.cli.call(groupsResource.verbs.remove, { folder: 'team/new' })
    await until(() => !isThere(s, 'team/new')() && !isThere(s, 'team/new/deep')())
    await wire.closed
    assert.ok(!existsSync(dirname(s.path('team/new'))))
    assert.ok(isThere(s, 'team/sub')() && isThere(s, 'team')())
    // One group replaced by another with the same timestamp: only the stamp shows it.
    await s.write(async (tx) => {
      await run(tx, `update groups set folder = 'renamed' where folder = 'other'`)
    })
    await until(() => isThere(s, 'renamed')() && !isThere(s, 'other')())
  })
})

suite('the path of a socket', () => {
  test('is accessible only to its owner', async (t) => {
    const s = await openGatedHost(t)
    const path = s.path('team/sub')
    const mode = (place: string): string => (statSync(place).mode & 0o777).toString(8)
    assert.deepEqual([path, dirname(path), dirname(dirname(path))].map(mode), ['600', '700', '700'])
    assert.equal(mode(join(s.host.layout?.root ?? '', 'ipc')), '700')
  })

  test('is taken over from a process that died, with any files that it left', async (t) => {
    const root = tempDir(t)
    const ipc = join(root, 'ipc')
    mkdirSync(join(ipc, 'main'), { recursive: true })
    writeFileSync(join(ipc, 'main', 'gated.sock'), 'left')
    writeFileSync(join(ipc, '.gated'), 'left')
    mkdirSync(join(ipc, '.new'))
    writeFileSync(join(ipc, '.new', '1'), 'left')
    const s = await openGatedHost(t, { root })
    assert.ok((await (await s.open('main')).list()).length > 0)
  })

  test('is empty after the process stops, so that another one can take over', async (t) => {
    const s = await openGatedHost(t)
    const root = s.host.layout?.root ?? ''
    await s.close()
    assert.deepEqual(
      readdirSync(join(root, 'ipc'), { recursive: true }).filter((name) => String(name).endsWith('.sock')),
      [],
    )
    const free = await testHost(t)
    await serveHost(t, { on: { ...free, host: { ...free.host, layout: layout(root) } }, daemons: ['gated'] })
  })

  test('that is too long for a socket is a link to a shorter one', async (t) => {
    const [upper, lower] = ['u'.repeat(50), 'l'.repeat(50)]
    const long = `${upper}/${lower}`
    const s = await openGatedHost(t, { before: (on) => on.groups('main', upper, long) })
    const path = s.path(long)
    assert.ok(Buffer.byteLength(path) > 107 && lstatSync(path).isSymbolicLink())
    const short = realpathSync(path)
    assert.equal(dirname(short), join(realpathSync(s.host.layout?.root ?? ''), 'ipc'))
    const tools = await openTools(t, short)
    assert.match((await tools.call('refresh_groups')).text, /lll/)
    await s.cli.call(groupsResource.verbs.remove, { folder: long })
    await until(() => !existsSync(short) && !readdirSync(dirname(dirname(path))).includes(lower))
  })

  test('in an instance with a path that is too long is refused with a reason', async (t) => {
    const root = join(tempDir(t), 'd'.repeat(100))
    await assert.rejects(
      openGatedHost(t, { root }),
      isRefusal('invalid', /is too long: socket paths below it would exceed 107 bytes/),
    )
  })

  test('that cannot be created is logged once, and created when possible', async (t) => {
    const root = tempDir(t)
    mkdirSync(join(root, 'ipc'))
    // A file blocks the directory of a folder.
    for (const name of ['team', 'other']) writeFileSync(join(root, 'ipc', name), '')
    const s = await openGatedHost(t, { root, before: (on) => on.groups('main', 'team', 'other') })
    assert.ok(isThere(s, 'main')())
    const complaints = s.logged().filter(({ msg }) => msg === 'cannot bind a tool socket')
    assert.equal(complaints.length, 2)
  })
})

suite('the connections of a socket', () => {
  test('are at most eight; the ninth gets an error, and a closed one frees its slot', async (t) => {
    const s = await openGatedHost(t)
    const wires = []
    for (let count = 0; count < 8; count++) {
      const wire = await s.wire('main')
      wire.send({ jsonrpc: '2.0', id: count, method: 'ping' })
      assert.equal((await wire.next())?.id, count)
      wires.push(wire)
    }
    const ninth = await s.wire('main')
    ninth.send({ jsonrpc: '2.0', id: 9, method: 'ping' })
    const response = await ninth.next()
    assert.deepEqual([response?.id, response?.error?.code], [null, -32000])
    assert.match(response?.error?.message ?? '', /takes 8/)
    assert.equal(await ninth.next(), undefined)
    assert.ok((await (await s.open('team')).list()).length > 0)
    wires[0]?.socket.destroy()
    await wires[0]?.closed
    await until(async () => {
      const wire = await openRpcConnection(t, s.path('main'))
      wire.send({ jsonrpc: '2.0', id: 1, method: 'ping' })
      const isIn = (await wire.next())?.id === 1
      wire.socket.destroy()
      return isIn
    })
  })

  test('a thousand at once do not affect others', async (t) => {
    const s = await openGatedHost(t)
    const others = await s.open('team')
    const wires = await Promise.all(Array.from({ length: 1000 }, () => s.wire('main').catch(() => undefined)))
    assert.equal((await others.call('refresh_groups')).isError, false)
    for (const wire of wires) wire?.socket.destroy()
    await until(
      async () =>
        (
          await s.open('main').then(
            (tools) => tools.list(),
            () => [],
          )
        ).length > 0,
    )
  })

  test('a client that sends ten thousand requests without reading is paused, and others are served', async (t) => {
    const s = await openGatedHost(t)
    const wire = await s.wire('main')
    wire.socket.pause()
    const sent = Array.from({ length: 10_000 }, (_, id) => JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/list' }))
    const hasRoom = wire.socket.write(`${sent.join('\n')}\n`)
    assert.equal(hasRoom, false)
    const others = await s.open('team')
    for (let count = 0; count < 20; count++) assert.equal((await others.call('refresh_groups')).isError, false)
    assert.ok(wire.socket.writableLength > 0, 'it is still being written')
    wire.socket.destroy()
  })

  test('answer requests sent before the client closed its side', async (t) => {
    const s = await openGatedHost(t)
    const wire = await s.wire('main')
    for (let id = 0; id < 100; id++)
      wire.send({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'refresh_groups' } })
    wire.socket.end()
    await wire.closed
    assert.equal(wire.lines.length, 100)
  })
})

test('a start that fails halfway leaves no listener and no lock', async (t) => {
  const { host, groups } = await testHost(t)
  await groups('main', 'team')
  const place = layout(tempDir(t))
  const log = await openLog({ to: { write: () => true } })
  const options = {
    host,
    layout: place,
    log,
    list: createToolList([]),
    onError: assert.fail,
    onUnexpectedUser: assert.fail,
  }
  const closed = overrideEngine(host.engine, {
    listen: () => {
      throw new Error('the store is closed')
    },
  })
  await assert.rejects(FolderSockets.open({ ...options, host: { ...host, engine: closed } }), /the store is closed/)
  const { socket } = groupDirs(place, 'team')
  assert.ok(!existsSync(socket))
  const sockets = await FolderSockets.open(options)
  t.after(() => sockets.close())
  assert.ok(existsSync(socket))
})

test('a process that is slow to respond keeps its lock', async (t) => {
  const root = tempDir(t)
  mkdirSync(join(root, 'ipc'))
  const foreign = createServer(() => {})
  foreign.listen(join(root, 'ipc', '.gated'))
  const s = await openGatedHost(t, { root })
  // After the end of the other, or it would take over.
  t.after(() => foreign.close())
  assert.ok(!existsSync(join(root, 'ipc', 'main', 'gated.sock')))
  assert.ok(s.logged().some(({ msg }) => /takes over when it ends/.test(String(msg))))
})
