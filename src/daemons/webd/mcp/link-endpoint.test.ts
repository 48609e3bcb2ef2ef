// MCP at a link, with the official client and with malformed requests.
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { suite, type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, testHost } from '../../../../test/support/host.ts'
import { type ServedHost, sendRaw, serveHost, statusOf } from '../../../../test/support/served-host.ts'
import { GENERATIONS, type Generation, openHttpTools, type ToolSession } from '../../../../test/support/tools.ts'
import { until } from '../../../../test/support/until.ts'
import { messages } from '../../../core/messages/messages.ts'
import { routeTokensResource } from '../../../resources/route-tokens.ts'

interface Opened extends ServedHost {
  mint(suffix?: string, folder?: string): Promise<{ token: string; jid: string; at: string }>
  at(token: string): string
}

async function opened(
  t: TestContext,
  { engine = 'sqlite', settings = {} }: { engine?: EngineName; settings?: Record<string, string> } = {},
): Promise<Opened> {
  const on = await testHost(t, engine)
  await on.groups('main', 'team')
  const s = await serveHost(t, { on, daemons: ['webd', 'routd', 'gated', 'runed'], settings })
  const at = (token: string): string => `${s.url('webd')}/chat/${token}/mcp`
  return {
    ...s,
    at,
    mint: async (jid_suffix, target_folder = 'team') => {
      const { token, jid } = await s.cli.call(routeTokensResource.verbs.issue_chat, {
        target_folder,
        ...(jid_suffix === undefined ? {} : { jid_suffix }),
      })
      return { token, jid, at: at(token) }
    },
  }
}

interface Turn {
  turn_id: string
  topic: string
  folder: string
}

interface History {
  messages: { id: string; role: string; content: string; sender: string; topic?: string; turn_id?: string }[]
  count: number
  folder: string
}

// The tests check the shape of the results.
const send = async (tools: ToolSession, args: Record<string, unknown>): Promise<Turn> =>
  (await tools.call('send', args)) as Turn
const history = async (tools: ToolSession, args: Record<string, unknown> = {}): Promise<History> =>
  (await tools.call('get_history', args)) as History

onEveryEngine('the tools at a link', (engine) => {
  for (const generation of GENERATIONS) {
    test(`a sent message is answered, and both can be read (${generation})`, async (t) => {
      const s = await opened(t, { engine })
      const { at, token } = await s.mint()
      const tools = await openHttpTools(t, at, { generation })
      assert.deepEqual(await tools.names(), ['get_history', 'list_groups', 'send'])
      assert.deepEqual(await tools.call('list_groups'), { groups: [{ folder: 'team', name: 'team' }] })
      assert.deepEqual(await history(tools), { messages: [], count: 0, folder: 'team' })

      const { turn_id, ...turn } = await send(tools, { content: 'hello', topic: 'greetings' })
      assert.deepEqual(turn, { topic: 'greetings', folder: 'team' })
      const [question] = (await history(tools, { topic: 'greetings' })).messages.slice(-1)
      const { sender = '', ...rest } = question ?? {}
      assert.match(sender, /^anon:[0-9a-f]{12}$/)
      const created_at = new Date(s.clock.now()).toISOString()
      assert.deepEqual(rest, { id: turn_id, role: 'user', content: 'hello', created_at, topic: 'greetings', turn_id })

      const poll = async (): Promise<{ status: string; frames: { content: string }[] }> =>
        JSON.parse(await (await fetch(`${s.url('webd')}/chat/${token}/${turn_id}`)).text())
      await until(async () => (await poll()).status === 'success')
      const answered = await history(tools)
      assert.deepEqual(
        answered.messages.map(({ role, turn_id }) => [role, turn_id]),
        [
          ['assistant', turn_id],
          ['user', turn_id],
        ],
      )
      assert.equal(answered.count, 2)
      assert.equal(answered.messages[0]?.content, (await poll()).frames.at(-1)?.content)
    })
  }

  test('links do not see each other’s messages', async (t) => {
    const s = await opened(t, { engine })
    const [one, two, other] = [await s.mint('one'), await s.mint('two'), await s.mint(undefined, 'main')]
    const [first, second, third] = [
      await openHttpTools(t, one.at),
      await openHttpTools(t, two.at),
      await openHttpTools(t, other.at),
    ]
    await send(first, { content: 'for your eyes alone' })
    assert.equal((await history(first)).messages.at(-1)?.content, 'for your eyes alone')
    assert.equal((await history(second)).count, 0)
    assert.equal((await history(third)).count, 0)
    assert.deepEqual(await third.call('list_groups'), { groups: [{ folder: 'main', name: 'main' }] })
  })

  test('a chat taken over from another folder does not show its messages', async (t) => {
    const s = await opened(t, { engine })
    await s.groups('team/sub')
    const before = await s.mint(undefined, 'team/sub')
    await send(await openHttpTools(t, before.at), { content: 'to the old folder' })
    await s.cli.call(routeTokensResource.verbs.revoke, { jid: before.jid })
    const after = await s.mint('sub', 'team')
    assert.equal(after.jid, before.jid)
    assert.equal((await history(await openHttpTools(t, after.at))).count, 0)
  })

  test('a revoked link is refused before anything else, and its stream ends', async (t) => {
    const s = await opened(t, { engine })
    const { at, jid } = await s.mint()
    const tools = await openHttpTools(t, at, { generation: 'stateless' })
    const stream = await fetch(at, { headers: { Accept: 'text/event-stream' } })
    assert.equal(stream.status, 200)
    assert.equal(stream.headers.get('content-type'), 'text/event-stream')
    await s.cli.call(routeTokensResource.verbs.revoke, { jid })
    assert.equal(await stream.text(), '')
    await assert.rejects(tools.call('send', { content: 'too late' }), /no such link/)
    await mustBeProblem(await post(at, call('list_groups')), 401, /no such link, or it was revoked/)
    const stored = await s.host.engine.read((tx) => messages.list(tx))
    assert.deepEqual(stored, [])
  })
})

const MODERN = {
  _meta: {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  },
}

function call(name: string, args: Record<string, unknown> = {}, id: unknown = 1): object {
  return { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args } }
}

function modernCall(name: string, args: Record<string, unknown> = {}): object {
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args, ...MODERN } }
}

const JSON_HEADERS = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }
const MODERN_HEADERS = { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'list_groups' }

function post(url: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  const text = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
  return fetch(url, { method: 'POST', headers: { ...JSON_HEADERS, ...headers }, body: text })
}

async function mustBeProblem(answer: Response, status: number, detail: RegExp): Promise<void> {
  assert.equal(answer.status, status)
  assert.equal(answer.headers.get('content-type'), 'application/problem+json')
  assert.match(JSON.parse(await answer.text()).detail, detail)
}

interface Rpc {
  id?: unknown
  result?: { content: { text: string }[]; isError?: boolean }
  error?: { code: number; message: string; data?: unknown }
}

/** The messages of a JSON or event-stream response. */
async function rpc(answer: Response): Promise<Rpc[]> {
  const text = await answer.text()
  if (!answer.headers.get('content-type')?.startsWith('text/event-stream')) return [JSON.parse(text)].flat()
  return [...text.matchAll(/^data: (.+)$/gm)].map(([, data = '']) => JSON.parse(data))
}

suite('through proxyd in another process', () => {
  for (const generation of GENERATIONS) {
    test(`both endpoints work (${generation})`, async (t) => {
      const s = await opened(t)
      const host = { ...s.host, close: async () => {} }
      const door = await serveHost(t, {
        on: { ...s, host },
        daemons: ['proxyd'],
        settings: { WEBD_URL: s.url('webd') },
      })
      const { token } = await s.mint()
      const link = `${door.url()}/chat/${token}/mcp`
      const tools = await openHttpTools(t, link, { generation })
      await send(tools, { content: 'hello' })
      assert.equal((await history(tools)).messages.at(-1)?.content, 'hello')
      const Origin = 'http://evil.example'
      assert.equal((await post(link, call('list_groups'), { Origin })).status, 403)
      await s.grant('github:1', 'interact', 'team')
      const headers = { Authorization: `Bearer ${await s.bearer({ sub: 'github:1' })}` }
      const account = await openHttpTools(t, `${door.url()}/mcp`, { generation, headers })
      assert.deepEqual(await account.call('list_groups'), { groups: [{ folder: 'team', name: 'team' }] })
      assert.equal((await post(`${door.url()}/mcp`, call('list_groups'), { Origin, ...headers })).status, 403)
    })
  }
})

suite('arguments of calls', () => {
  for (const generation of GENERATIONS) {
    test(`invalid arguments give an error result that names them (${generation})`, async (t) => {
      const s = await opened(t)
      const tools = await openHttpTools(t, (await s.mint()).at, { generation })
      assert.equal(await tools.refusal('send'), 'content is required')
      assert.equal(await tools.refusal('send', { content: 7 }), 'content must be text')
      assert.equal(await tools.refusal('send', { content: ' \n' }), 'content must not be empty')
      assert.equal(await tools.refusal('send', { content: 'x', urgent: true }), 'unknown field "urgent"')
      assert.equal(
        await tools.refusal('send', { content: 'x', topic: 'é'.repeat(129) }),
        'topic is longer than 128 characters',
      )
      assert.equal(await tools.refusal('send', { content: 'x', folder: 'main' }), 'this link is only for team')
      assert.equal(await tools.refusal('get_history', { folder: 'main' }), 'this link is only for team')
      assert.match(await tools.refusal('get_history', { folder: '../main' }), /^folder must be names/)
      assert.equal(await tools.refusal('get_history', { limit: '10' }), 'limit must be a number')
      assert.equal(await tools.refusal('list_groups', { all: true }), 'unknown field "all"')
      await assert.rejects(tools.client.callTool({ name: 'Send', arguments: {} }), /unknown tool: Send/)
      const stored = await s.host.engine.read((tx) => messages.list(tx))
      assert.deepEqual(stored, [])
    })
  }

  test('the folder of the link may be named, and an empty topic is the main topic', async (t) => {
    const s = await opened(t)
    const tools = await openHttpTools(t, (await s.mint()).at)
    const main = await send(tools, { content: 'one', folder: 'team' })
    assert.equal(main.topic, '')
    await send(tools, { content: 'two', topic: 'aside' })
    await send(tools, { content: 'three', topic: '' })
    const said = async (topic?: string): Promise<string[]> => {
      const { messages } = await history(tools, topic === undefined ? {} : { topic })
      return messages.filter(({ role }) => role === 'user').map(({ content }) => content)
    }
    assert.deepEqual(await said(), ['three', 'two', 'one'])
    assert.deepEqual(await said(''), ['three', 'one'])
    assert.deepEqual(await said('aside'), ['two'])
    assert.deepEqual(await said('nothing'), [])
  })

  test('a limit out of range is clamped', async (t) => {
    const s = await opened(t, { settings: { WEBHOOK_RATE_WEB: '0' } })
    const { at, token } = await s.mint()
    for (let n = 0; n < 110; n++) await fetch(`${s.url('webd')}/chat/${token}/`, { method: 'POST', body: `n${n}` })
    const tools = await openHttpTools(t, at)
    assert.equal((await history(tools)).count, 50)
    assert.equal((await history(tools, { limit: 1e9 })).count, 100)
    for (const limit of [0, -3]) assert.equal((await history(tools, { limit })).count, 1)
  })

  test('long messages in the history are truncated with the number of omitted characters', async (t) => {
    const s = await opened(t)
    const { at, token } = await s.mint()
    const body = 'x'.repeat(1_000_000)
    for (let n = 0; n < 5; n++) await fetch(`${s.url('webd')}/chat/${token}/`, { method: 'POST', body })
    const { messages } = await history(await openHttpTools(t, at))
    const questions = messages.filter(({ role }) => role === 'user')
    assert.equal(questions.length, 5)
    for (const { content } of questions) assert.match(content, /^x+… \[9\d{5} more characters\]$/)
    assert.ok(JSON.stringify(messages).length < 300_000)
  })
})

suite('the rate of a link', () => {
  test('is shared by posts and tool calls, and reading does not count', async (t) => {
    const s = await opened(t, { settings: { WEBHOOK_RATE_WEB: '3' } })
    const { at, token } = await s.mint()
    const tools = await openHttpTools(t, at)
    const chat = `${s.url('webd')}/chat/${token}/`
    for (let n = 0; n < 10; n++) await tools.call('list_groups')
    await send(tools, { content: 'one' })
    assert.equal((await fetch(chat, { method: 'POST', body: 'two' })).status, 200)
    await send(tools, { content: 'three' })
    const sentence = 'too many messages through this link'
    assert.equal(await tools.refusal('send', { content: 'four' }), `${sentence}\nhint: try again in 20 s`)
    await mustBeProblem(await fetch(chat, { method: 'POST', body: 'four' }), 429, new RegExp(sentence))
    await history(tools)
    s.clock.advance(20_000)
    await send(tools, { content: 'four' })
    assert.equal((await fetch(chat, { method: 'POST', body: 'five' })).status, 429)
    // Refused calls do not count.
    s.clock.advance(20_000)
    await tools.refusal('send', { content: '' })
    await send(tools, { content: 'five' })
  })
})

suite('the sender of a message', () => {
  test('is the person of the bearer', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    const headers = { Authorization: `Bearer ${await s.bearer({ sub: 'github:1' })}` }
    const tools = await openHttpTools(t, at, { headers })
    await send(tools, { content: 'it is me' })
    assert.equal((await history(tools)).messages.at(-1)?.sender, 'github:1')
    for (const Authorization of ['Bearer a.b.c', 'Basic dTpw']) {
      const other = await openHttpTools(t, at, { headers: { Authorization } })
      await send(other, { content: Authorization })
      const { messages } = await history(other)
      assert.match(messages.find(({ content }) => content === Authorization)?.sender ?? '', /^anon:/)
    }
  })

  test('is the source of a hook', async (t) => {
    const s = await opened(t)
    const { token } = await s.cli.call(routeTokensResource.verbs.issue_hook, {
      target_folder: 'team',
      source_label: 'ci',
    })
    const tools = await openHttpTools(t, s.at(token))
    await send(tools, { content: 'built' })
    assert.equal((await history(tools)).messages.at(-1)?.sender, 'ci')
  })

  test('a link for signed posts refuses messages from tools', async (t) => {
    const s = await opened(t)
    const { token } = await s.cli.call(routeTokensResource.verbs.issue_operator_hook, {
      target_folder: 'team',
      source_label: 'ci',
      verify: 'github',
      verify_secret: 'a secret of sixteen or more',
    })
    const tools = await openHttpTools(t, s.at(token))
    assert.match(await tools.refusal('send', { content: 'x' }), /this link accepts only signed posts/)
    assert.equal((await history(tools)).count, 0)
  })
})

suite('origin checks', () => {
  test('refuses pages of other sites and unknown host names', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    const { port } = new URL(at)
    const foreign = [
      'http://evil.example',
      'null',
      'http://localhost:1',
      'file://',
      'https://localhost:8080.evil.example',
    ]
    for (const Origin of foreign) {
      await mustBeProblem(await post(at, call('list_groups'), { Origin }), 403, /another site/)
      const stream = await fetch(at, { headers: { Origin, Accept: 'text/event-stream' } })
      await mustBeProblem(stream, 403, /another site/)
    }
    const own = [
      `http://127.0.0.1:${port}`,
      `http://localhost:${port}`,
      `http://[::1]:${port}`,
      'http://localhost:8080',
    ]
    for (const Origin of own) assert.equal((await post(at, call('list_groups'), { Origin })).status, 200)
    assert.equal(await statusAs(at, 'evil.example'), 403)
    assert.equal(await statusAs(at, `localhost:${port}`), 200)
    assert.equal(await statusAs(at, `127.0.0.1:${port}`), 200)
  })

  test('a preflight gets the same decision as the request', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    const preflight = (Origin: string) =>
      fetch(at, { method: 'OPTIONS', headers: { Origin, 'Access-Control-Request-Method': 'POST' } })
    const readers = ({ headers }: Response) => [headers.get('access-control-allow-origin'), headers.get('vary')]
    for (const Origin of ['http://evil.example', 'null']) {
      const refused = await preflight(Origin)
      assert.deepEqual(readers(refused), [null, 'Origin'])
      await mustBeProblem(refused, 403, /another site/)
      assert.deepEqual(readers(await post(at, call('list_groups'), { Origin })), [null, 'Origin'])
    }
    const Origin = 'http://localhost:8080'
    const allowed = await preflight(Origin)
    assert.deepEqual([allowed.status, ...readers(allowed)], [204, Origin, 'Origin'])
    assert.equal(allowed.headers.get('access-control-allow-methods'), 'GET, POST, OPTIONS')
    assert.deepEqual(readers(await post(at, call('list_groups'), { Origin })), [Origin, 'Origin'])
  })

  test('checks the token before the origin', async (t) => {
    const s = await opened(t)
    const answer = await post(s.at('x'.repeat(43)), call('list_groups'), { Origin: 'http://evil.example' })
    await mustBeProblem(answer, 401, /no such link/)
  })

  test('there are no sessions', async (t) => {
    const s = await opened(t)
    const [one, two] = [await s.mint('one'), await s.mint('two')]
    const initialize = {
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '0' } },
    }
    const hello = await post(one.at, initialize)
    assert.equal(hello.status, 200)
    assert.equal(hello.headers.get('mcp-session-id'), null)
    const stolen = await post(two.at, call('list_groups'), { 'Mcp-Session-Id': 'one' })
    await mustBeProblem(stolen, 404, /no such session/)
  })
})

/** Sends a request with another Host, as after DNS rebinding. */
function statusAs(url: string, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', headers: { ...JSON_HEADERS, Host: host } }, (answer) => {
      answer.resume()
      resolve(answer.statusCode ?? 0)
    })
    sent.on('error', reject)
    sent.end(JSON.stringify(call('list_groups')))
  })
}

suite('the protocol over HTTP', () => {
  test('the headers of the new protocol version must match the body', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    const body = modernCall('list_groups')
    assert.equal((await post(at, body, MODERN_HEADERS)).status, 200)
    const wrong: Record<string, string>[] = [
      { ...MODERN_HEADERS, 'Mcp-Name': 'send' },
      { ...MODERN_HEADERS, 'Mcp-Method': 'tools/list' },
      { ...MODERN_HEADERS, 'MCP-Protocol-Version': '2025-11-25' },
      { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Name': 'list_groups' },
      { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call' },
      { 'Mcp-Method': 'tools/call', 'Mcp-Name': 'list_groups' },
    ]
    for (const headers of wrong) {
      const answer = await post(at, body, headers)
      assert.equal(answer.status, 400, JSON.stringify(headers))
      assert.ok((await rpc(answer))[0]?.error)
    }
  })

  test('an unsupported version is refused with the supported ones', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    const old = await post(at, call('list_groups'), { 'MCP-Protocol-Version': '1999-01-01' })
    assert.equal(old.status, 400)
    assert.match(JSON.stringify(await rpc(old)), /2025-11-25/)
    const version = { 'io.modelcontextprotocol/protocolVersion': '2099-01-01' }
    const params = { name: 'list_groups', arguments: {}, _meta: { ...MODERN._meta, ...version } }
    const coming = await post(
      at,
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
      { ...MODERN_HEADERS, 'MCP-Protocol-Version': '2099-01-01' },
    )
    assert.equal(coming.status, 400)
    assert.match(JSON.stringify(await rpc(coming)), /2026-07-28/)
  })

  test('checks Accept, Content-Type and the method', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    assert.equal((await post(at, call('list_groups'), { Accept: 'text/plain' })).status, 406)
    assert.equal((await post(at, call('list_groups'), { 'Content-Type': 'text/plain' })).status, 415)
    const stateless = { Accept: 'text/event-stream', 'MCP-Protocol-Version': '2026-07-28' }
    for (const headers of [{}, { Accept: 'application/json' }, stateless]) {
      const answer = await fetch(at, { headers })
      assert.equal(answer.headers.get('allow'), 'GET, POST, OPTIONS')
      await mustBeProblem(answer, 405, /this path allows only POST/)
    }
    for (const method of ['DELETE', 'PUT', 'PATCH'])
      await mustBeProblem(await fetch(at, { method }), 405, /this path allows only GET, POST, OPTIONS/)
  })

  test('an invalid message is a protocol error', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    const code = async (body: unknown): Promise<number | undefined> => {
      const answer = await post(at, body)
      assert.equal(answer.status, 400, String(body))
      return (await rpc(answer))[0]?.error?.code
    }
    for (const body of ['', '{', 'hello', Buffer.from([0x22, 0xff, 0x22]), '['.repeat(100_000)])
      assert.equal(await code(body), -32700)
    for (const [body, message] of [
      [`{"a":${'['.repeat(64)}`, 'the body is nested deeper than 64 levels'],
      [`[${'{},'.repeat(600)}{}]`, 'the body has more than 1000 values'],
    ] as const)
      assert.deepEqual((await rpc(await post(at, body)))[0]?.error, { code: -32700, message })
    assert.equal(await code(Array.from({ length: 17 }, (_, id) => call('list_groups', {}, id))), -32600)
    for (const body of ['[]', '7', 'null', '"text"', '{}', '{"jsonrpc":"1.0","id":1,"method":"ping"}'])
      assert.ok([-32600, -32700].includes((await code(body)) ?? 0), body)
  })

  test('a malformed tool call is refused with a reason', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    const body = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 5 } })
    const [answer] = await rpc(await post(at, body))
    assert.deepEqual(answer?.error, { code: -32602, message: 'invalid params: name must be the name of a tool' })
  })

  test('hostile messages are answered or refused, and the next one is served', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    const hostile: unknown[] = [
      { jsonrpc: '2.0', id: 1 },
      { jsonrpc: '2.0', id: 1, method: '__proto__' },
      { jsonrpc: '2.0', id: 1, method: 'constructor', params: {} },
      { jsonrpc: '2.0', id: 1, method: 'x'.repeat(65_536) },
      { jsonrpc: '2.0', id: null, method: 'tools/list' },
      { jsonrpc: '2.0', id: { a: 1 }, method: 'tools/list' },
      { jsonrpc: '2.0', id: 'x'.repeat(500_000), method: 'tools/list' },
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params: [] },
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params: null },
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: '__proto__', arguments: {} } },
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'send', arguments: 'x' } },
      { jsonrpc: '2.0', method: 'tools/call', params: { name: 'send', arguments: { content: 'a notification' } } },
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","arguments":{"__proto__":{"content":"x"}}}}',
      { jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params: { notifications: {}, ...MODERN } },
    ]
    for (const body of hostile) {
      const answer = await post(at, body)
      assert.ok(answer.status < 500, JSON.stringify(body).slice(0, 100))
      await answer.text()
    }
    assert.equal((await post(at, call('list_groups'))).status, 200)
    assert.deepEqual(await s.host.engine.read((tx) => messages.list(tx)), [])
    assert.deepEqual(
      s.logged().filter(({ level }) => level === 'error'),
      [],
    )
  })

  test('a subscription ends at once, because there are no notifications', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    const params = { notifications: { toolsListChanged: true }, ...MODERN }
    const body = { jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params }
    const headers = { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'subscriptions/listen' }
    const said = await rpc(await post(at, body, headers))
    assert.ok(said.at(-1)?.result)
  })

  test('several messages in one request are handled separately', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    const both = [call('send', { content: 'one' }, 1), call('send', { content: 'two' }, 2)]
    const answers = await rpc(await post(at, both, { 'MCP-Protocol-Version': '2025-03-26' }))
    const turns = answers.map(({ result }) => JSON.parse(result?.content[0]?.text ?? '{}').turn_id)
    assert.equal(new Set(turns).size, 2)
    const stored = await s.host.engine.read((tx) => messages.list(tx, { direction: 'in' }))
    assert.deepEqual(stored.map(({ id }) => id).sort(), turns.sort())
  })

  test('a body over the limit is refused before and while it is read', async (t) => {
    const s = await opened(t, { settings: { TOKEN_BODY_MAX: '1000' } })
    const { at } = await s.mint()
    await mustBeProblem(await post(at, call('send', { content: 'x'.repeat(1000) })), 413, /larger than 1000 bytes/)
    const { pathname, host } = new URL(at)
    const head = `POST ${pathname} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n`
    const chunk = `${(2000).toString(16)}\r\n${'x'.repeat(2000)}\r\n0\r\n\r\n`
    const answer = await sendRaw(at, `${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n`, chunk)
    assert.equal(statusOf(answer), 413)
  })

  test('responses are not cacheable, and no log line contains the token', async (t) => {
    const s = await opened(t)
    const { at, token } = await s.mint()
    const answer = await post(at, call('list_groups'))
    await answer.text()
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff')
    assert.ok(answer.headers.get('x-request-id'))
    await (await post(at, '{')).text()
    await fetch(at, { headers: { Origin: 'http://evil.example' } })
    await until(() => s.logged().filter(({ path }) => String(path).endsWith('/mcp')).length === 3)
    const lines = JSON.stringify(s.logged())
    assert.ok(!lines.includes(token))
    assert.match(lines, /\/chat\/[0-9a-f]{8}\/mcp/)
  })

  test('a client that disconnects during the response affects no others', async (t) => {
    const s = await opened(t)
    const { at } = await s.mint()
    const leave = (generation: Generation): Promise<unknown> => {
      const abort = new AbortController()
      const body = JSON.stringify(generation === 'stateless' ? modernCall('list_groups') : call('list_groups'))
      const headers = { ...JSON_HEADERS, ...(generation === 'stateless' ? MODERN_HEADERS : {}) }
      const gone = fetch(at, { method: 'POST', headers, body, signal: abort.signal }).catch(() => {})
      setImmediate(() => abort.abort())
      return gone
    }
    await Promise.all(Array.from({ length: 40 }, (_, n) => leave(n % 2 === 0 ? 'stateless' : 'handshake')))
    assert.equal((await post(at, call('list_groups'))).status, 200)
    assert.deepEqual(
      s.logged().filter(({ level }) => level === 'error'),
      [],
    )
  })
})
