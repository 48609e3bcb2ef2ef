// A folder's socket as an agent meets it: the official client, in both generations, and its turn.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import { openGate } from '../../test/support/gate.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { GENERATIONS } from '../../test/support/tools.ts'
import { until } from '../../test/support/until.ts'
import { messages } from '../core/messages.ts'

onEveryEngine('the tools of a folder', (engine) => {
  for (const generation of GENERATIONS) {
    test(`the official client lists and calls them, ${generation}`, async (t) => {
      const s = await openGate(t, { engine })
      const tools = await s.open('main', { generation })
      const names = (await tools.list()).map(({ name }) => name)
      assert.ok(names.includes('refresh_groups') && names.includes('list_acl'))
      assert.ok(!names.some((name) => name.startsWith('submit_')))
      const { isError, json } = await tools.call('refresh_groups')
      assert.equal(isError, false)
      assert.deepEqual(
        (json as { folder: string }[]).map(({ folder }) => folder),
        ['main', 'other', 'team', 'team/sub'],
      )
    })
  }

  test('who asks is the folder whose socket it is', async (t) => {
    const s = await openGate(t, { engine })
    const shown = async (folder: string): Promise<number> => (await (await s.open(folder)).list()).length
    const [root, inner] = [await shown('main'), await shown('team/sub')]
    assert.ok(root > inner && inner > 0, `${root} and ${inner} tools`)
    const tools = await s.open('team/sub')
    const { json } = await tools.call('refresh_groups')
    assert.deepEqual(json, [{ folder: 'team/sub', name: 'sub', parent: 'team' }])
  })

  test('a right that is taken back is gone at the next call of the same connection', async (t) => {
    const s = await openGate(t, { engine })
    const tools = await s.open('team/sub')
    const [name, grant] = ['list_route_tokens', 'mcp:list_route_tokens']
    const isListed = async (): Promise<boolean> => (await tools.list()).some((tool) => tool.name === name)
    const hidden = { code: -32602, message: `unknown tool: ${name}` }
    await assert.rejects(tools.call(name), hidden)
    await s.grant('folder:team/sub', grant, 'team/sub')
    assert.ok(await isListed())
    assert.match(
      (await tools.list()).find((tool) => tool.name === name)?.description ?? '',
      /\ngrants: \["list_route_tokens"\]$/,
    )
    await tools.call(name)
    await s.ungrant('folder:team/sub', grant, 'team/sub')
    await assert.rejects(tools.call(name), hidden)
    assert.ok(!(await isListed()))
  })

  for (const generation of GENERATIONS) {
    test(`a connection that names a turn is heard as long as it runs, with its fence, ${generation}`, async (t) => {
      const s = await openGate(t, { engine })
      await s.ask()
      const { turn } = await s.mustClaim()
      const right = await s.open('main', { turn: turn.id, fence: turn.fence, generation })
      const unfenced = await s.open('main', { turn: turn.id, generation })
      const stale = await s.open('main', { turn: turn.id, fence: turn.fence + 1, generation })
      const foreign = await s.open('team', { turn: turn.id, fence: turn.fence, generation })
      const OVER = { isError: true, text: 'the turn is over, or somebody else has taken it', json: undefined }
      for (const tools of [right, unfenced]) assert.equal((await tools.call('refresh_groups')).isError, false)
      for (const tools of [stale, foreign]) assert.deepEqual(await tools.call('refresh_groups'), OVER)
      await s.end(turn)
      for (const tools of [right, unfenced, stale, foreign]) assert.deepEqual(await tools.call('refresh_groups'), OVER)
      const unnamed = await s.open('main', { generation })
      assert.equal((await unnamed.call('refresh_groups')).isError, false)
    })
  }
})

suite('what a connection says of its turn', () => {
  test('is refused where it makes no sense, and the connection goes on', async (t) => {
    const s = await openGate(t)
    const wire = await s.wire('main')
    for (const meta of [{ 'svc/turn': 5 }, { 'svc/turn': 'x'.repeat(257) }, { 'svc/turn': 'x', 'svc/fence': '1' }]) {
      wire.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { _meta: meta } })
      const answer = await wire.next()
      assert.equal(answer?.error?.code, -32602)
      assert.match(answer?.error?.message ?? '', /^invalid params: svc\/(turn|fence) /)
    }
    wire.send({ jsonrpc: '2.0', id: 2, method: 'tools/list' })
    assert.ok((await wire.next())?.result?.tools)
  })

  test('what is no call of a tool is refused in a sentence', async (t) => {
    const s = await openGate(t)
    const wire = await s.wire('main')
    for (const [params, message] of [
      [undefined, 'params must be an object with the name of a tool'],
      [{}, 'name must be the name of a tool'],
      [{ name: 5 }, 'name must be the name of a tool'],
      [{ name: 'send', arguments: 'x' }, 'arguments must be an object'],
      [{ name: 'send', arguments: [] }, 'arguments must be an object'],
      [{ name: 'send', arguments: null }, 'arguments must be an object'],
    ] as const) {
      wire.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', ...(params ? { params } : {}) })
      assert.deepEqual((await wire.next())?.error, { code: -32602, message: `invalid params: ${message}` })
    }
  })

  test('the server names itself with the version of the package', async (t) => {
    const s = await openGate(t)
    const wire = await s.wire('main')
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '0' } }
    wire.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params })
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    assert.deepEqual((await wire.next())?.result?.serverInfo, { name: 'svc', version })
  })

  test('a tool works without a handshake', async (t) => {
    const s = await openGate(t)
    const wire = await s.wire('team')
    wire.send({ jsonrpc: '2.0', id: 'a', method: 'tools/call', params: { name: 'refresh_groups' } })
    const answer = await wire.next()
    assert.equal(answer?.id, 'a')
    assert.match(JSON.stringify(answer?.result), /team\/sub/)
  })

  test('a call whose connection breaks is done once', async (t) => {
    const s = await openGate(t)
    const said = async (): Promise<number> => (await s.read((tx) => messages.list(tx, { direction: 'out' }))).length
    const wire = await s.wire('main')
    wire.send({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'send', arguments: { chatJid: 'web:main', text: 'once' } },
    })
    wire.socket.end()
    wire.socket.pause()
    await until(async () => (await said()) === 1)
    wire.socket.destroy()
    const again = await s.open('main')
    assert.equal((await again.call('refresh_groups')).isError, false)
    assert.equal(await said(), 1)
    assert.deepEqual(
      s.logged().filter(({ level }) => level === 'error'),
      [],
    )
  })
})
