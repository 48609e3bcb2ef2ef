// MCP with a bearer: messaging for people.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, testHost } from '../../../../test/support/host.ts'
import { type ServedHost, serveHost } from '../../../../test/support/served-host.ts'
import { GENERATIONS, type Generation, openHttpTools, type ToolSession } from '../../../../test/support/tools.ts'
import { until } from '../../../../test/support/until.ts'
import { messages } from '../../../core/messages/messages.ts'
import { routeTokensResource } from '../../../resources/route-tokens.ts'

interface Opened extends ServedHost {
  open(
    sub: string,
    options?: { generation?: Generation; folder?: string; through?: 'webd' | 'proxyd' },
  ): Promise<ToolSession>
}

async function opened(t: TestContext, engine: EngineName = 'sqlite', settings = {}): Promise<Opened> {
  const on = await testHost(t, engine)
  await on.groups('main', 'team', 'team/sub', 'other')
  const s = await serveHost(t, { on, daemons: ['proxyd', 'webd', 'routd', 'gated', 'runed'], settings })
  return {
    ...s,
    open: async (sub, { generation = 'handshake', folder, through = 'proxyd' } = {}) => {
      const headers = { Authorization: `Bearer ${await s.bearer({ sub, folder })}` }
      return openHttpTools(t, `${s.url(through)}/mcp`, { generation, headers })
    },
  }
}

interface History {
  messages: { role: string; content: string; sender: string; turn_id?: string }[]
  count: number
  folder: string
}

// The tests check the shape of the results.
const history = async (tools: ToolSession, args: Record<string, unknown>): Promise<History> =>
  (await tools.call('get_history', args)) as History

const SPEAKING_TOOLS = ['get_history', 'list_groups', 'send']

onEveryEngine('the tools of a person', (engine) => {
  for (const generation of GENERATIONS) {
    test(`a person’s message is answered through webd and proxyd (${generation})`, async (t) => {
      const s = await opened(t, engine)
      await s.grant('github:1', 'interact', 'team')
      for (const through of ['webd', 'proxyd'] as const) {
        const tools = await s.open('github:1', { generation, through })
        assert.deepEqual(await tools.names(), SPEAKING_TOOLS)
        assert.deepEqual(await tools.call('list_groups'), { groups: [{ folder: 'team', name: 'team' }] })
        const sent = await tools.call('send', { content: `by ${through}`, topic: through, folder: 'team' })
        assert.ok(typeof sent === 'object' && sent !== null && 'turn_id' in sent)
        assert.deepEqual({ ...sent, turn_id: '' }, { turn_id: '', topic: through, folder: 'team' })
        const read = (): Promise<History> => history(tools, { folder: 'team', topic: through })
        await until(async () => (await read()).count === 2)
        const [answer, question] = (await read()).messages
        assert.deepEqual([answer?.role, answer?.turn_id], ['assistant', sent.turn_id])
        assert.match(answer?.content ?? '', /from `github:1`/)
        assert.deepEqual([question?.role, question?.sender, question?.content], ['user', 'github:1', `by ${through}`])
      }
      const [row] = await s.host.engine.read((tx) => messages.list(tx, { sender: 'github:1' }))
      assert.deepEqual([row?.jid, row?.target_folder, row?.direction], ['web:team', 'team', 'in'])
    })
  }

  test('rights are read at every call', async (t) => {
    const s = await opened(t, engine)
    const tools = await s.open('github:1', { generation: 'stateless' })
    assert.deepEqual(await tools.call('list_groups'), { groups: [] })
    assert.equal(await tools.refusal('send', { content: 'x', folder: 'team' }), 'you may not interact with team')
    await s.grant('github:1', 'admin', 'team/**')
    const reached = [
      { folder: 'team', name: 'team' },
      { folder: 'team/sub', name: 'sub' },
    ]
    assert.deepEqual(await tools.call('list_groups'), { groups: reached })
    await tools.call('send', { content: 'x', folder: 'team/sub' })
    for (const folder of ['other', 'nowhere']) {
      const refused = `you may not interact with ${folder}`
      assert.equal(await tools.refusal('send', { content: 'x', folder }), refused)
      assert.equal(await tools.refusal('get_history', { folder }), refused)
    }
    assert.equal(await tools.refusal('send', { content: 'x', folder: 'team/none' }), 'there is no group team/none')
    await s.grant('github:1', 'interact', 'team/sub', 'deny')
    assert.deepEqual(await tools.call('list_groups'), { groups: reached.slice(0, 1) })
    assert.equal(await tools.refusal('get_history', { folder: 'team/sub' }), 'you may not interact with team/sub')
    const stored = await s.host.engine.read((tx) => messages.list(tx, { direction: 'in' }))
    assert.deepEqual(
      stored.map(({ jid, target_folder }) => [jid, target_folder]),
      [['web:team/sub', 'team/sub']],
    )
  })

  test('an operator has the tools of a link and no others, however they are called', async (t) => {
    const s = await opened(t, engine)
    await s.operator('github:9')
    const tools = await s.open('github:9')
    const { url } = await s.cli.call(routeTokensResource.verbs.issue_chat, { target_folder: 'team' })
    const atLink = await openHttpTools(t, `${s.url('webd')}${new URL(url).pathname}mcp`)
    assert.deepEqual(await tools.tools(), await atLink.tools())
    assert.deepEqual(await tools.names(), SPEAKING_TOOLS)
    const calls: [string, Record<string, unknown>][] = [
      ['proxyd_routes.list', {}],
      ['proxyd_routes.delete', { path: '/x/' }],
      ['proxyd_routes.create', { path: '/shop/', backend: 'http://127.0.0.1:9', auth: 'public' }],
      ['routes.list', { nonsense: true }],
    ]
    for (const [name, args] of calls)
      await assert.rejects(tools.client.callTool({ name, arguments: args }), new RegExp(`unknown tool: ${name}`))
  })

  test('messages to a folder are not visible at a link of another folder', async (t) => {
    const s = await opened(t, engine)
    await s.grant('github:1', 'interact', 'team/sub')
    const { jid } = await s.cli.call(routeTokensResource.verbs.issue_chat, { target_folder: 'team', jid_suffix: 'sub' })
    assert.equal(jid, 'web:team/sub')
    const tools = await s.open('github:1')
    assert.match(
      await tools.refusal('send', { content: 'x', folder: 'team/sub' }),
      /belongs to a link of another folder/,
    )
    assert.equal((await history(tools, { folder: 'team/sub' })).count, 0)
  })
})

const JSON_HEADERS = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }
const PING = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })

suite('access to the endpoint', () => {
  test('refuses requests without a bearer, without a redirect', async (t) => {
    const s = await opened(t)
    const tries: Record<string, string>[] = [
      {},
      { Authorization: 'Bearer a.b.c' },
      { Authorization: 'Basic eDp5' },
      { Accept: 'text/html' },
      { Cookie: 'session=1' },
    ]
    for (const through of ['webd', 'proxyd'] as const) {
      for (const headers of tries) {
        const init = {
          method: 'POST',
          headers: { ...JSON_HEADERS, ...headers },
          body: PING,
          redirect: 'manual' as const,
        }
        const answer = await fetch(`${s.url(through)}/mcp`, init)
        assert.equal(answer.status, 401)
        assert.equal(answer.headers.get('content-type'), 'application/problem+json')
        assert.match(
          answer.headers.get('www-authenticate') ?? '',
          /^Bearer .*resource_metadata="http:\/\/localhost:8080\/\.well-known\//,
        )
      }
    }
  })

  test('accepts people, not services', async (t) => {
    const s = await opened(t)
    const bearer = await s.bearer({ sub: 'service:runed', kind: 'service' })
    const answer = await s.ask('/mcp', bearer, { method: 'POST', headers: JSON_HEADERS, body: PING })
    assert.equal(answer.status, 403)
    assert.match(await answer.text(), /for people/)
  })

  test('refuses pages of other sites, sessions, other methods and large bodies', async (t) => {
    const s = await opened(t, 'sqlite', { TOKEN_BODY_MAX: '1000' })
    const bearer = await s.bearer({ sub: 'github:1' })
    const ask = async (init: RequestInit, headers: Record<string, string> = {}): Promise<[number, string]> => {
      const answer = await s.ask('/mcp', bearer, { ...init, headers: { ...JSON_HEADERS, ...headers } })
      const text = await answer.text()
      return [answer.status, text]
    }
    const post = { method: 'POST', body: PING }
    assert.equal((await ask(post))[0], 200)
    assert.equal((await ask(post, { Origin: new URL(s.url()).origin }))[0], 200)
    assert.equal((await ask(post, { Origin: 'http://localhost:8080' }))[0], 200)
    assert.equal((await ask(post, { Origin: 'http://evil.example' }))[0], 403)
    assert.equal((await ask(post, { Origin: 'null' }))[0], 403)
    assert.equal((await ask(post, { 'Mcp-Session-Id': 'x' }))[0], 404)
    assert.equal((await ask({ method: 'GET' }))[0], 405)
    assert.equal((await ask({ method: 'DELETE' }))[0], 405)
    const [status, text] = await ask({ method: 'POST', body: JSON.stringify({ x: 'y'.repeat(1000) }) })
    assert.deepEqual([status, JSON.parse(text).code], [413, 'too_large'])
    assert.equal((await ask({ method: 'POST', body: '{' }))[0], 400)
  })

  test('a folder is required unless the bearer names one', async (t) => {
    const s = await opened(t)
    await s.grant('github:1', 'interact', '**')
    const tools = await s.open('github:1')
    const hint = '\nhint: list_groups shows the groups'
    assert.equal(await tools.refusal('send', { content: 'x' }), `folder is required${hint}`)
    assert.equal(await tools.refusal('get_history'), `folder is required${hint}`)
    const named = await s.open('github:1', { folder: 'other' })
    const sent = await named.call('send', { content: 'x' })
    assert.ok(typeof sent === 'object' && sent !== null && 'folder' in sent)
    assert.equal(sent.folder, 'other')
  })
})
