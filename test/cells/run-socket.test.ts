// The socket through which the agent of one run calls its tools.
import assert from 'node:assert/strict'
import { existsSync, linkSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { RunSockets } from '../../src/agent-socket/run-socket.ts'
import type { AgentUser } from '../../src/core/agent-user.ts'
import { outbox } from '../../src/core/delivery/outbox.ts'
import { turns } from '../../src/core/turns/turns.ts'
import { agentTools } from '../../src/daemons/agents/agent-tools.ts'
import { openRpcConnection, type RpcConnection } from '../support/gated-host.ts'
import { testHost } from '../support/host.ts'
import { needs } from '../support/needs.ts'
import { openTools } from '../support/socket-client.ts'
import { tempDir } from '../support/temp.ts'
import { startTurn } from '../support/turns.ts'
import { until } from '../support/until.ts'

async function open(t: TestContext, user?: AgentUser, parent?: string, isRelayed = false) {
  const on = await testHost(t)
  await on.groups('main', 'team')
  const turn = await startTurn(t, on, { folder: 'team', content: 'hello', jid: 'web:team' })
  const gate = { host: on.host, list: agentTools(), hasOtherUsers: user !== undefined, parent, isRelayed }
  const sockets = new RunSockets({ ...gate, onError: assert.fail, onUnexpectedUser: assert.fail })
  t.after(() => sockets.close())
  const socket = await sockets.open('team', { id: turn.id, fence: turn.fence, reach: 'all' }, user)
  t.after(() => socket.close())
  const initialize = (wire: RpcConnection, meta?: object): void => {
    const clientInfo = { name: 'test', version: '1' }
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo, ...(meta ? { _meta: meta } : {}) }
    wire.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params })
  }
  return { on, turn, socket, sockets, initialize }
}

suite('the socket of a run', () => {
  test('acts for its turn even if a connection does not name it', async (t) => {
    const { on, turn, socket } = await open(t)
    const session = await openTools(t, socket.path)
    assert.equal((await session.call('reply', { chatJid: turn.jid, text: 'hi' })).text, 'ok')
    const sent = await on.host.engine.read((tx) => outbox.list(tx))
    assert.deepEqual(
      sent.map(({ turn_id }) => turn_id),
      [turn.id],
    )
  })

  test('refuses a connection that names another turn or another fence', async (t) => {
    const { turn, socket, initialize } = await open(t)
    const initializeWith = async (meta: object): Promise<string | undefined> => {
      const wire = await openRpcConnection(t, socket.path)
      initialize(wire, meta)
      const answer = await wire.next()
      return answer?.error?.message ?? (answer?.result ? 'welcome' : undefined)
    }
    assert.equal(await initializeWith({ 'svc/turn': turn.id, 'svc/fence': turn.fence }), 'welcome')
    assert.equal(await initializeWith({ 'svc/turn': turn.id }), 'welcome')
    assert.equal(
      await initializeWith({ 'svc/turn': 'another', 'svc/fence': turn.fence }),
      `this socket belongs to the turn ${turn.id}`,
    )
    assert.equal(
      await initializeWith({ 'svc/turn': turn.id, 'svc/fence': turn.fence + 1 }),
      `this socket belongs to the turn ${turn.id}`,
    )
  })

  test('refuses results and status messages for another turn of its folder', async (t) => {
    const { on, turn, socket } = await open(t)
    const other = await startTurn(t, on, { folder: 'team', conversation: 'plans', content: 'mine', jid: 'web:team/x' })
    for (const method of ['submit_turn', 'submit_status']) {
      const wire = await openRpcConnection(t, socket.path)
      const params = { turn_id: other.id, ...(method === 'submit_turn' ? { session_id: 's' } : { text: 'hm' }) }
      wire.send({ jsonrpc: '2.0', id: 1, method, params })
      assert.equal((await wire.next())?.error?.message, `this socket belongs to the turn ${turn.id}`)
    }
    const { submitted } = (await on.host.engine.read((tx) => turns.find(tx, { id: other.id }))) ?? assert.fail()
    assert.equal(submitted, undefined)
    assert.equal(await on.host.engine.read((tx) => outbox.count(tx)), 0)
  })

  test('offers only the tools of the reach of the turn', async (t) => {
    const { turn, sockets } = await open(t)
    const socket = await sockets.open('team', { id: turn.id, fence: turn.fence, reach: 'chat' })
    t.after(() => socket.close())
    const session = await openTools(t, socket.path)
    const names = (await session.list()).map(({ name }) => name)
    assert.ok(names.includes('reply') && !names.includes('get_work'), names.join())
    assert.equal(
      (await session.call('get_work')).text,
      'get_work: not permitted in this turn, because visitors of this chat may not ask for it (reach chat, needed work)',
    )
    assert.equal(
      (await session.call('reply', { chatJid: 'team', text: 'hi' })).text,
      'reply: not permitted in team, because visitors may use it only in their own chat',
    )
    assert.equal((await session.call('reply', { chatJid: turn.jid, text: 'hi' })).text, 'ok')
  })

  test('can be in a directory with a long path, where a hard link to it leads to it', async (t) => {
    const parent = join(tempDir(t), 'x'.repeat(120))
    const { turn, socket, sockets } = await open(t, undefined, parent)
    assert.equal(dirname(dirname(socket.path)), parent)
    const shown = join(tempDir(t), 'gated.sock')
    linkSync(socket.path, shown)
    const session = await openTools(t, shown)
    assert.equal((await session.call('reply', { chatJid: turn.jid, text: 'hi' })).text, 'ok')
    await socket.close()
    assert.ok(!existsSync(socket.path))
    await sockets.close()
    assert.deepEqual(readdirSync(parent), [])
  })

  test('closes its connections and deletes its file with the run', async (t) => {
    const { socket, initialize } = await open(t)
    const wire = await openRpcConnection(t, socket.path)
    initialize(wire)
    assert.ok((await wire.next())?.result)
    await socket.close()
    await wire.closed
    assert.ok(!existsSync(socket.path))
  })

  test('is in a directory that only its owner can list and that is deleted with the process', async (t) => {
    const { socket, sockets } = await open(t)
    const directory = dirname(socket.path)
    assert.equal(statSync(directory).mode & 0o777, 0o700)
    assert.equal(statSync(socket.path).mode & 0o777, 0o600)
    await sockets.close()
    assert.ok(!existsSync(directory))
  })

  test('belongs to the user of the agents if they have one', needs('root'), async (t) => {
    const { socket } = await open(t, { uid: 60_000, gid: 60_000 })
    const { uid, gid, mode } = statSync(socket.path)
    assert.deepEqual([uid, gid, mode & 0o777], [60_000, 60_000, 0o600])
    assert.equal(statSync(dirname(socket.path)).mode & 0o777, 0o711)
  })

  test('is created even if the temporary directory was cleaned', async (t) => {
    const { sockets, socket, turn } = await open(t)
    rmSync(dirname(socket.path), { recursive: true })
    const again = await sockets.open('team', { id: turn.id, fence: turn.fence, reach: 'all' })
    t.after(() => again.close())
    assert.ok(existsSync(again.path))
  })

  test('is prepared in advance and refuses connections until a run uses it', async (t) => {
    const { sockets, socket, turn } = await open(t)
    const directory = dirname(socket.path)
    sockets.prepare()
    await until(() => readdirSync(directory).length === 2)
    const ahead = join(directory, readdirSync(directory).find((name) => name !== basename(socket.path)) ?? '')
    await (await openRpcConnection(t, ahead)).closed
    const next = await sockets.open('team', { id: turn.id, fence: turn.fence, reach: 'all' })
    t.after(() => next.close())
    assert.equal(next.path, ahead)
    assert.equal((await (await openTools(t, ahead)).call('reply', { chatJid: turn.jid, text: 'hi' })).text, 'ok')
  })

  test('is created again if the prepared one was deleted', async (t) => {
    const { sockets, socket, turn } = await open(t)
    const directory = dirname(socket.path)
    sockets.prepare()
    await until(() => readdirSync(directory).length === 2)
    for (const name of readdirSync(directory)) rmSync(join(directory, name))
    const next = await sockets.open('team', { id: turn.id, fence: turn.fence, reach: 'all' })
    t.after(() => next.close())
    assert.equal((await (await openTools(t, next.path)).call('reply', { chatJid: turn.jid, text: 'hi' })).text, 'ok')
  })

  test('of a killed process is deleted by the next process', async (t) => {
    // Larger than any process id of the kernel.
    const left = join(tmpdir(), `svc-run-${2 ** 22 + 1}-abcdef`)
    mkdirSync(left)
    t.after(() => rmSync(left, { recursive: true, force: true }))
    const first = await open(t)
    assert.ok(!existsSync(left))
    await open(t)
    assert.ok(existsSync(first.socket.path))
  })
})

suite('the socket of a run on a kernel that cannot refuse descriptors', () => {
  const openRelayed = (t: TestContext, user?: AgentUser, parent?: string) => open(t, user, parent, true)

  test('acts for its turn, and is removed with it', async (t) => {
    const { turn, socket, sockets } = await openRelayed(t)
    const session = await openTools(t, socket.path)
    assert.equal((await session.call('reply', { chatJid: turn.jid, text: 'hi' })).text, 'ok')
    const directory = dirname(socket.path)
    await socket.close()
    await sockets.close()
    assert.ok(!existsSync(socket.path) && !existsSync(directory))
  })

  test('can be in a directory with a long path', async (t) => {
    const parent = join(tempDir(t), 'x'.repeat(120))
    const { turn, socket } = await openRelayed(t, undefined, parent)
    const shown = join(tempDir(t), 'gated.sock')
    linkSync(socket.path, shown)
    const session = await openTools(t, shown)
    assert.equal((await session.call('reply', { chatJid: turn.jid, text: 'hi' })).text, 'ok')
    await socket.close()
    assert.deepEqual(
      readdirSync(dirname(socket.path)).filter((name) => name.includes(basename(socket.path))),
      [],
    )
  })

  test('belongs to the user of the agents, unlike the one that it leads to', needs('root'), async (t) => {
    const { socket } = await openRelayed(t, { uid: 60_000, gid: 60_000 })
    const [shown, own] = [socket.path, `${socket.path}.svc`].map((path) => statSync(path))
    assert.deepEqual([shown?.uid, (shown?.mode ?? 0) & 0o777], [60_000, 0o600])
    assert.deepEqual([own?.uid, (own?.mode ?? 0) & 0o777], [0, 0o600])
  })

  test('still limits the number of connections', async (t) => {
    const { socket, initialize } = await openRelayed(t)
    const wires: RpcConnection[] = []
    for (let at = 0; at < 8; at++) {
      const wire = await openRpcConnection(t, socket.path)
      initialize(wire)
      assert.ok((await wire.next())?.result)
      wires.push(wire)
    }
    const ninth = await openRpcConnection(t, socket.path)
    assert.match((await ninth.next())?.error?.message ?? '', /^too many connections/)
  })
})
