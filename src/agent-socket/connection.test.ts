// A folder's socket used by the official MCP client in both protocol generations.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/server'
import { openGatedHost } from '../../test/support/gated-host.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { GENERATIONS } from '../../test/support/tools.ts'
import { until } from '../../test/support/until.ts'
import { messages } from '../core/messages/messages.ts'

onEveryEngine('the tools of a folder', (engine) => {
  for (const generation of GENERATIONS) {
    test(`the official client lists and calls them, ${generation}`, async (t) => {
      const s = await openGatedHost(t, { engine })
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

  test('the caller is the folder that owns the socket', async (t) => {
    const s = await openGatedHost(t, { engine })
    const shown = async (folder: string): Promise<number> => (await (await s.open(folder)).list()).length
    const [root, inner] = [await shown('main'), await shown('team/sub')]
    assert.ok(root > inner && inner > 0, `${root} and ${inner} tools`)
    const tools = await s.open('team/sub')
    const { json } = await tools.call('refresh_groups')
    assert.deepEqual(json, [{ folder: 'team/sub', name: 'sub', parent: 'team' }])
  })

  test('a revoked right is gone at the next call of an open connection', async (t) => {
    const s = await openGatedHost(t, { engine })
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
    test(`a connection acts for its turn while the turn runs with the same fence, ${generation}`, async (t) => {
      const s = await openGatedHost(t, { engine })
      await s.ask()
      const { turn } = await s.mustClaim()
      const right = await s.open('main', { turn: turn.id, fence: turn.fence, generation })
      const unfenced = await s.open('main', { turn: turn.id, generation })
      const stale = await s.open('main', { turn: turn.id, fence: turn.fence + 1, generation })
      const foreign = await s.open('team', { turn: turn.id, fence: turn.fence, generation })
      const OVER = { isError: true, text: 'the turn is over, or another process has claimed it', json: undefined }
      for (const tools of [right, unfenced]) assert.equal((await tools.call('refresh_groups')).isError, false)
      for (const tools of [stale, foreign]) assert.deepEqual(await tools.call('refresh_groups'), OVER)
      await s.end(turn)
      for (const tools of [right, unfenced, stale, foreign]) assert.deepEqual(await tools.call('refresh_groups'), OVER)
      const unnamed = await s.open('main', { generation })
      assert.equal((await unnamed.call('refresh_groups')).isError, false)
    })
  }
})

suite('the turn in _meta', () => {
  test('is refused when malformed, and the connection stays open', async (t) => {
    const s = await openGatedHost(t)
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

  test('malformed tool calls get an error that names the problem', async (t) => {
    const s = await openGatedHost(t)
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

  test('serverInfo has the version of the package', async (t) => {
    const s = await openGatedHost(t)
    const wire = await s.wire('main')
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '0' } }
    wire.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params })
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    assert.deepEqual((await wire.next())?.result?.serverInfo, { name: 'svc', version })
  })

  test('a tool works without a handshake', async (t) => {
    const s = await openGatedHost(t)
    const wire = await s.wire('team')
    wire.send({ jsonrpc: '2.0', id: 'a', method: 'tools/call', params: { name: 'refresh_groups' } })
    const answer = await wire.next()
    assert.equal(answer?.id, 'a')
    assert.match(JSON.stringify(answer?.result), /team\/sub/)
  })

  test('a simple call gets the same response as from the official package', async (t) => {
    const s = await openGatedHost(t)
    const wire = await s.wire('team')
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '0' } }
    wire.send({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
    await wire.next()
    const calls: Record<string, unknown>[] = [
      { name: 'refresh_groups' },
      { name: 'send', arguments: { chatJid: 'web:team', text: 'hello' } },
      { name: 'refresh_groups', _meta: { progressToken: 7, 'vendor/key': { any: 'thing' } } },
      { name: 'schedule_task', arguments: { prompt: '' } },
      { name: 'send', arguments: { chatJid: 'web:other', text: 'hello' } },
      { name: 'no_such_tool' },
      { name: 'set_group_config', arguments: {} },
      { name: 'refresh_groups', _meta: { 'svc/turn': 'gone' } },
    ]
    for (const call of calls) {
      wire.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call })
      const direct = await wire.next()
      // Calls with other members are handled by the package.
      wire.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { ...call, task: {} } })
      assert.deepEqual(direct, await wire.next())
      assert.ok(direct?.result ?? direct?.error, JSON.stringify(call))
    }
  })

  test('a simple handshake and later requests get the same responses as from the official package', async (t) => {
    const s = await openGatedHost(t)
    const [plain, official] = [await s.wire('team'), await s.wire('team')]
    const client = { name: 'test', version: '0' }
    // Clients that send more are handled by the package.
    const clients = [
      [plain, client],
      [official, { ...client, title: 'A test' }],
    ] as const
    const both = async (method: string, params: object): Promise<unknown[]> => {
      const answers: unknown[] = []
      for (const [wire, clientInfo] of clients) {
        wire.send({
          jsonrpc: '2.0',
          id: 1,
          method,
          params: method === 'initialize' ? { ...params, clientInfo } : params,
        })
        answers.push(await wire.next())
        if (method === 'initialize') wire.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
      }
      return answers
    }
    for (const protocolVersion of [...SUPPORTED_PROTOCOL_VERSIONS, '2020-01-01', 7, undefined]) {
      const [direct, handled] = await both('initialize', { protocolVersion, capabilities: {} })
      assert.deepEqual(direct, handled)
    }
    for (const method of ['tools/list', 'ping', 'prompts/list', 'no/such']) {
      const [direct, handled] = await both(method, {})
      assert.deepEqual(direct, handled)
    }
  })

  test('a call whose connection breaks runs once', async (t) => {
    const s = await openGatedHost(t)
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
