// Links through proxyd, with webd in the same process and in another one.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { connect } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { testHost } from '../../../test/support/host.ts'
import { type ServedHost, sendRaw, serveHost, statusOf } from '../../../test/support/served-host.ts'
import { hashToken } from '../../core/links/link-token.ts'
import { routeTokens } from '../../core/links/route-tokens.ts'
import { proxydRoutesResource } from '../../resources/proxyd-routes.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'

interface ServedLinks extends ServedHost {
  readonly chat: string
  readonly hook: string
}

type Shape = (t: TestContext, settings?: Record<string, string>) => Promise<ServedHost>

const SHAPES: Record<string, Shape> = {
  'in one process': (t, settings = {}) => serveHost(t, { settings }),
  'in two processes': async (t, settings = {}) => {
    const on = await testHost(t)
    const others = ['routd', 'webd', 'gated', 'runed', 'authd', 'onbod', 'timed', 'dashd']
    const back = await serveHost(t, { on, daemons: others, settings })
    return serveHost(t, { on, daemons: ['proxyd'], settings: { ...settings, WEBD_URL: back.url('webd') } })
  },
}

async function mint(front: ServedHost): Promise<ServedLinks> {
  await front.groups('main', 'team')
  const { issue_chat, issue_hook } = routeTokensResource.verbs
  const chat = await front.cli.call(issue_chat, { target_folder: 'team', jid_suffix: 'x' })
  const hook = await front.cli.call(issue_hook, { target_folder: 'team', source_label: 'ci' })
  return { ...front, chat: chat.token, hook: hook.token }
}

for (const [shape, open] of Object.entries(SHAPES)) {
  suite(`links ${shape}`, () => {
    test('hooks are accepted; chats are answered, polled and streamed', async (t) => {
      const front = await mint(await open(t))
      assert.equal((await fetch(`${front.url()}/hook/${front.hook}`, { method: 'POST', body: 'hello' })).status, 204)
      const posted = await fetch(`${front.url()}/chat/${front.chat}/`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ content: 'hello' }),
      })
      assert.equal(posted.status, 200)
      const { turn_id, status } = JSON.parse(await posted.text())
      assert.equal(status, 'pending')
      const stream = await fetch(`${front.url()}/chat/${front.chat}/${turn_id}/sse`)
      assert.match(stream.headers.get('content-type') ?? '', /^text\/event-stream/)
      assert.match(await stream.text(), /event: round_done\n/)
      const polled = JSON.parse(await (await fetch(`${front.url()}/chat/${front.chat}/${turn_id}`)).text())
      assert.equal(polled.status, 'success')
    })

    test('a client that expects 100 is told to send its form', async (t) => {
      const front = await mint(await open(t))
      const body = '--b\r\nContent-Disposition: form-data; name=f; filename=a.txt\r\n\r\ntext\r\n--b--\r\n'
      const head = [
        `POST /chat/${front.chat}/ HTTP/1.1`,
        'Host: a',
        'Content-Type: multipart/form-data; boundary=b',
        `Content-Length: ${body.length}`,
        'Expect: 100-continue',
        'Connection: close',
      ]
      const socket = connect(Number(new URL(front.url()).port), '127.0.0.1')
      t.after(() => void socket.destroy())
      socket.write([...head, '', ''].join('\r\n'))
      const [first] = await once(socket, 'data')
      assert.equal(String(first), 'HTTP/1.1 100 Continue\r\n\r\n')
      socket.end(body)
      assert.equal(statusOf(Buffer.concat(await socket.toArray()).toString()), 200)
    })

    test('each event is forwarded while the stream is open', async (t) => {
      const front = await mint(await open(t))
      const gone = new AbortController()
      t.after(() => gone.abort())
      const { body } = await fetch(`${front.url()}/chat/${front.chat}/events`, { signal: gone.signal })
      const reader = body?.pipeThrough(new TextDecoderStream()).getReader()
      await fetch(`${front.url()}/chat/${front.chat}/`, { method: 'POST', body: 'are you there?' })
      let text = ''
      while (!text.includes('are you there?')) text += (await reader?.read())?.value ?? assert.fail('the stream ended')
    })

    test('an unknown token is 401, also as a page, without a redirect', async (t) => {
      const front = await mint(await open(t))
      for (const path of [`/chat/${'A'.repeat(43)}/`, `/hook/${'A'.repeat(43)}`, '/hook/x', '/chat/%00/'])
        for (const headers of [{}, { Accept: 'text/html' }]) {
          const init = { method: path.startsWith('/hook') ? 'POST' : 'GET', headers, redirect: 'manual' } as const
          assert.equal((await fetch(front.url() + path, init)).status, 401, path)
        }
    })

    test('another spelling of a link path is not a link', async (t) => {
      const front = await mint(await open(t))
      const { hook } = front
      for (const path of [
        `/hook//${hook}`,
        `//hook/${hook}`,
        `/./hook/${hook}`,
        `/hook/./${hook}`,
        `/hook/../hook/${hook}`,
        `/x/../hook/${hook}`,
        `/x/%2e%2e/hook/${hook}`,
        `/hook/%2e%2e/hook/${hook}`,
        `/%2e/hook/${hook}`,
        `/Hook/${hook}`,
        `/HOOK/${hook}`,
        `/hook%2f${hook}`,
        `/%48ook/${hook}`,
        `/hook/${hook}//`,
        `/hook/${hook}/extra`,
        `/hook/${hook}%2f`,
        `\\hook\\${hook}`,
        `/hook\\${hook}`,
        `/hook/x/../${hook}`,
      ]) {
        const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx`
        const status = statusOf(await sendRaw(front.url(), head))
        assert.ok([400, 401, 404].includes(status), `${path}: ${status}`)
      }
      // Only well-formed requests arrived. Escaped letters are the same letters.
      for (const name of ['hook', '%68ook'])
        assert.equal((await fetch(`${front.url()}/${name}/${hook}`, { method: 'POST', body: 'x' })).status, 204)
      assert.ok(!JSON.stringify(front.logged()).includes(hook))
      const { rows } = await front.host.engine.read((tx) =>
        tx.executeQuery({
          sql: `select count(*) as n from messages where jid = 'hook:team/ci'`,
          parameters: [],
        }),
      )
      assert.equal(Number(rows[0]?.n), 2)
    })

    test('ambiguous requests are refused, and nothing after them is read', async (t) => {
      const front = await mint(await open(t))
      const tail = `POST /hook/${front.hook} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx`
      const HEADS: Record<string, string[]> = {
        'two lengths': ['Content-Length: 1', 'Content-Length: 2'],
        'a list of lengths': ['Content-Length: 5, 5'],
        'a negative length': ['Content-Length: -1'],
        'a length with a sign': ['Content-Length: +5'],
        'a length in hex': ['Content-Length: 0x10'],
        'a length of 20 digits': ['Content-Length: 99999999999999999999'],
        'a length and chunks': ['Content-Length: 5', 'Transfer-Encoding: chunked'],
        'an unknown coding': ['Transfer-Encoding: xchunked'],
        'two codings': ['Transfer-Encoding: chunked, identity'],
        'a coding twice': ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'],
        'a folded header': ['X-A: 1', ' X-B: 2'],
        'a space in a name': ['X A: 1'],
        'a space before the colon': ['Content-Length : 1'],
        'two hosts': ['Host: b'],
        'a large header': [`X-A: ${'a'.repeat(17_000)}`],
        'many headers': Array.from({ length: 101 }, (_, at) => `X-${at}: 1`),
      }
      for (const [what, lines] of Object.entries(HEADS)) {
        const head = `POST /hook/${front.hook} HTTP/1.1\r\nHost: a\r\n${lines.join('\r\n')}\r\n\r\n`
        const answer = await sendRaw(front.url(), `${head}${tail}`)
        assert.ok([400, 431].includes(statusOf(answer)), `${what}: ${answer}`)
        assert.equal(answer.match(/^HTTP\/1\.1 /gm)?.length, 1, what)
      }
      for (const line of ['GET /hook/x', 'POST / HTTP/1.9', 'PRI * HTTP/2.0', '\u0016\u0003\u0001\u0002']) {
        const answer = await sendRaw(front.url(), `${line}\r\nHost: a\r\nConnection: close\r\n\r\n${tail}`)
        assert.ok([0, 400].includes(statusOf(answer)), `${line}: ${answer}`)
      }
      const { rows } = await front.host.engine.read((tx) =>
        tx.executeQuery({ sql: 'select count(*) as n from messages', parameters: [] }),
      )
      assert.equal(Number(rows[0]?.n), 0)
    })

    test('the client address comes from a trusted proxy, otherwise from the socket', async (t) => {
      const senders = async (settings: Record<string, string>): Promise<number> => {
        const front = await mint(await open(t, settings))
        for (const address of ['198.51.100.1', '198.51.100.2']) {
          const headers = { 'X-Forwarded-For': address }
          await fetch(`${front.url()}/chat/${front.chat}/`, { method: 'POST', body: 'x', headers })
        }
        const { rows } = await front.host.engine.read((tx) =>
          tx.executeQuery({
            sql: `select count(distinct sender) as n from messages where direction = 'in'`,
            parameters: [],
          }),
        )
        return Number(rows[0]?.n)
      }
      assert.equal(await senders({}), 1)
      assert.equal(await senders({ TRUSTED_PROXIES: '127.0.0.1' }), 2)
    })

    test('MCP works with a bearer, and without one gets a problem document', async (t) => {
      const front = await open(t)
      for (const headers of [{}, { Accept: 'text/html' }]) {
        const answer = await fetch(`${front.url()}/mcp`, { method: 'POST', body: '{}', headers, redirect: 'manual' })
        assert.deepEqual([answer.status, answer.headers.get('content-type')], [401, 'application/problem+json'])
      }
      const initialize = {
        jsonrpc: '2.0',
        id: 1,
        method: 'initialize',
        params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'a', version: '1' } },
      }
      const answer = await front.ask('/mcp', await front.bearer({ sub: 'github:1' }), {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
        body: JSON.stringify(initialize),
      })
      assert.equal(answer.status, 200)
      assert.match(await answer.text(), /"serverInfo"/)
    })

    test('OpenAI clients work with a bearer, and with a link without one', async (t) => {
      const front = await mint(await open(t))
      await front.grant('github:1', 'interact', 'team')
      assert.equal((await fetch(`${front.url()}/openai/v1/models`)).status, 401)
      const listed = await front.ask('/openai/v1/models', await front.bearer({ sub: 'github:1' }))
      const atLink = await fetch(`${front.url()}/chat/${front.chat}/v1/models`)
      for (const answer of [listed, atLink]) {
        assert.equal(answer.status, 200)
        assert.match(await answer.text(), /"data":\[\{"id":"team","object":"model"/)
      }
    })

    test('links work with rows of earlier versions', async (t) => {
      const front = await mint(await open(t))
      // Rows of an earlier version without hooks, one of which is a catch-all.
      await front.host.engine.transaction(async (tx) => {
        for (const path of ['/', '/hook/'])
          await proxydRoutesResource.table.insert(tx, { path, redirect_to: '/pub/', auth: 'public' })
      })
      const posted = await fetch(`${front.url()}/hook/${front.hook}`, { method: 'POST', body: 'x', redirect: 'manual' })
      assert.equal(posted.status, 204)
    })
  })
}

suite('links forwarded to another process', () => {
  interface ForwardedLinks extends ServedLinks {
    readonly requests: IncomingMessage[]
  }

  async function serveForwarded(t: TestContext, answer: RequestListener): Promise<ForwardedLinks> {
    const requests: IncomingMessage[] = []
    const webd = createServer((request, response) => {
      requests.push(request)
      answer(request, response)
    }).listen(0, '127.0.0.1')
    await once(webd, 'listening')
    t.after(() => {
      webd.close()
      webd.closeAllConnections()
    })
    const bound = webd.address()
    const port = bound !== null && typeof bound === 'object' ? bound.port : 0
    const front = await serveHost(t, { daemons: ['proxyd'], settings: { WEBD_URL: `http://127.0.0.1:${port}/base` } })
    return { ...(await mint(front)), requests }
  }

  test('carry the folder of the token and the identity, set only by proxyd', async (t) => {
    const front = await serveForwarded(t, (_, response) => response.end())
    const bearer = await front.bearer({ sub: 'github:1' })
    const service = await front.bearer({ sub: 'service:routd', kind: 'service' })
    const old = 'A'.repeat(43)
    await front.host.engine.transaction((tx) =>
      routeTokens.insert(tx, {
        token_hash: hashToken(old),
        jid: 'hook:team/old',
        owner_folder: 'main',
        created_at: '2026-01-01T00:00:00.000Z',
      }),
    )
    const forged = { 'X-Folder': 'main', 'X-User-Sub': 'github:9', 'X-Chat-Token': 'x', 'X-Forwarded-For': '8.8.8.8' }
    const ask = (path: string, headers = {}) =>
      fetch(front.url() + path, { method: 'POST', body: 'x', headers: { ...forged, ...headers } })
    await ask(`/chat/${front.chat}/?x=1`, { Authorization: `Bearer ${bearer}` })
    await ask(`/hook/${front.hook}`, { Authorization: `Bearer ${service}` })
    await ask(`/hook/${old}`)
    await ask(`/hook/${'B'.repeat(42)}A`)
    await ask('/chat/team/')
    assert.deepEqual(
      front.requests.map(({ url = '', headers }) => [url.slice(0, 10), headers['x-folder'], headers['x-user-sub']]),
      [
        ['/base/chat', 'team', 'github:1'],
        ['/base/hook', 'team', undefined],
        ['/base/hook', 'team', undefined],
        ['/base/hook', undefined, undefined],
        ['/base/chat', undefined, undefined],
      ],
    )
    for (const { headers } of front.requests) {
      assert.equal(headers['x-forwarded-for'], '127.0.0.1')
      assert.equal(headers['x-chat-token'], undefined)
      assert.match(String(headers['x-request-id']), /^[0-9a-f-]{36}$/)
    }
  })

  test('keep body, status and headers, and are logged once without the token', async (t) => {
    const front = await serveForwarded(t, (request, response) => {
      response.writeHead(207, ['Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'Connection', 'X-Hop', 'X-Hop', '1'])
      request.pipe(response)
    })
    const body = Buffer.alloc(300_000, 'y')
    const answer = await fetch(`${front.url()}/hook/${front.hook}`, { method: 'POST', body })
    assert.deepEqual(
      [answer.status, answer.headers.getSetCookie(), answer.headers.get('x-hop')],
      [207, ['a=1', 'b=2'], null],
    )
    assert.ok(body.equals(Buffer.from(await answer.arrayBuffer())))
    const line = front.logged().at(-1)
    assert.deepEqual([line?.status, line?.method, line?.daemon], [207, 'POST', 'proxyd'])
    assert.match(String(line?.path), /^\/hook\/[0-9a-f]{8}$/)
    assert.ok(!JSON.stringify(front.logged()).includes(front.hook))
  })

  test('a client that does not read pauses the upstream', async (t) => {
    const total = 64 * 1024 * 1024
    let written = 0
    const front = await serveForwarded(t, async (_, response) => {
      const chunk = Buffer.alloc(65_536, 'x')
      for (; written < total; written += chunk.length) if (!response.write(chunk)) await once(response, 'drain')
      response.end()
    })
    const { hostname, port } = new URL(front.url())
    const socket = connect(Number(port), hostname)
    t.after(() => socket.destroy())
    socket.pause().write(`GET /chat/${front.chat}/events HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    // No event announces the end of writing, so wait until the count is stable.
    for (let same = 0, last = -1; same < 10; same = written > 0 && written === last ? same + 1 : 0) {
      last = written
      await setTimeout(20)
    }
    assert.ok(written < total / 2, `${written} bytes were read for a client that reads none`)
    let read = 0
    socket.on('data', (chunk) => {
      read += chunk.length
    })
    await once(socket.resume(), 'close')
    assert.ok(read > total)
  })

  test('a client that disconnects closes its stream', async (t) => {
    const { promise: closed, resolve: close } = Promise.withResolvers<void>()
    const front = await serveForwarded(t, (request, response) => {
      request.socket.once('close', () => close())
      response.write('retry: 1\n\n')
    })
    const gone = new AbortController()
    const { body } = await fetch(`${front.url()}/chat/${front.chat}/events`, { signal: gone.signal })
    await body?.getReader().read()
    gone.abort()
    await closed
  })

  test('an unreachable webd is 503, as a problem document and as a page', async (t) => {
    const at = await testHost(t)
    const lost = await serveHost(t, { on: at, daemons: ['proxyd'], settings: { WEBD_URL: 'http://127.0.0.1:1' } })
    const alone = await serveHost(t, { on: at, daemons: ['proxyd'] })
    const DETAILS = new Map([
      [lost, 'webd cannot be reached (ECONNREFUSED)'],
      [alone, 'webd does not run in this process and WEBD_URL is not set'],
    ])
    for (const [front, reason] of DETAILS) {
      const answer = await fetch(`${front.url()}/hook/x`, { method: 'POST', body: 'x' })
      assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '5'])
      assert.equal(JSON.parse(await answer.text()).detail, 'the service is not available at the moment')
      const page = await fetch(`${front.url()}/chat/x/`, { headers: { Accept: 'text/html' } })
      assert.equal(page.status, 503)
      const shown = await page.text()
      assert.match(shown, /<h1>Unavailable<\/h1>/)
      assert.doesNotMatch(shown, /webd|WEBD|ECONN/)
      assert.equal(front.logged().at(-1)?.reason, reason)
    }
  })

  test('errors at OpenAI paths have the shape that their clients read', async (t) => {
    const front = await serveHost(t, { daemons: ['proxyd'], settings: { WEBD_URL: 'http://127.0.0.1:1' } })
    const unavailable = {
      message: 'the service is not available at the moment; try again in a moment',
      ...{ type: 'server_error', param: null, code: 'unavailable' },
    }
    const nothing = {
      message: 'there is nothing at this path',
      ...{ type: 'invalid_request_error', param: null, code: 'not_found' },
    }
    const cases: [string, number, object][] = [
      ['/openai/v1/models', 503, unavailable],
      ['/chat/x/v1/models', 503, unavailable],
      ['/chat/x/v1//models', 404, nothing],
    ]
    for (const [path, status, error] of cases) {
      const answer = await fetch(front.url() + path, { headers: { Accept: 'text/html' } })
      assert.deepEqual([answer.status, answer.headers.get('content-type')], [status, 'application/json'], path)
      assert.deepEqual(JSON.parse(await answer.text()), { error })
    }
  })
})
