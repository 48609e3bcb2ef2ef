import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { egressProxy } from '../../../test/support/egress-cli.ts'
import { fitted } from './state.ts'

const ENTRIES = [
  { ip: '10.0.0.2', id: 'job-1', allowlist: ['github.com', 'pypi.org'] },
  { ip: 'fd00::2', id: 'a longer name', allowlist: [] },
]
const DENIED = [
  {
    ip: '10.0.0.2',
    id: 'job-1',
    host: 'evil.example',
    port: 443,
    sni: 'worse.example',
    reason: 'blocked-by-allowlist',
    count: 3,
    first_at: '2026-01-02T03:04:05.000Z',
    last_at: '2026-01-02T03:04:06.000Z',
  },
  {
    ip: '10.0.0.9',
    host: 'x.example',
    port: 80,
    reason: 'unregistered-source',
    count: 1,
    first_at: '2026-01-02T03:04:05.000Z',
    last_at: '2026-01-02T03:04:05.000Z',
  },
]

/** An admin listener with this response; returns its URL. */
async function listener(t: TestContext, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  await once(server, 'listening')
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : address}`
}

function admin(t: TestContext, entries: unknown = ENTRIES): Promise<string> {
  return listener(t, (request, answer) => {
    const body = { '/v1/state': entries, '/v1/denied': DENIED }[request.url ?? '']
    answer.writeHead(body === undefined ? 404 : 200).end(JSON.stringify(body ?? {}))
  })
}

suite('state', () => {
  test('is tab-separated with whole lists in a pipe', async (t) => {
    assert.deepEqual(await egressProxy(['state', '--admin', await admin(t)]), {
      code: 0,
      stdout: 'IP\tID\tALLOWLIST\n10.0.0.2\tjob-1\tgithub.com,pypi.org\nfd00::2\ta longer name\t\n',
      stderr: '',
    })
  })
  test('is aligned on a terminal', async (t) => {
    const { stdout } = await egressProxy(['state', '--admin', await admin(t)], { terminal: true })
    assert.equal(
      stdout,
      [
        'IP        ID             ALLOWLIST',
        '10.0.0.2  job-1          github.com, pypi.org',
        'fd00::2   a longer name  (nothing)',
        '',
      ].join('\n'),
    )
  })
  test('keeps a long list on one line of a terminal, with how many more there are', async (t) => {
    const allowlist = Array.from({ length: 500 }, (_, at) => `host-${at}.example`)
    const url = await admin(t, [{ ip: '10.0.0.2', id: 'job', allowlist }])
    const { stdout } = await egressProxy(['state', '--admin', url], { terminal: true, width: 80 })
    const [, line = ''] = stdout.split('\n')
    assert.ok(line.length <= 80, line)
    assert.match(line, /host-0\.example, .*, … and 49\d more$/)
  })
  test('prints JSON with --json', async (t) => {
    const { stdout } = await egressProxy(['state', '--json', '--admin', await admin(t)])
    assert.deepEqual(JSON.parse(stdout), ENTRIES)
  })
  test('says that everything is denied if the registry is empty', async (t) => {
    assert.deepEqual(await egressProxy(['state', '--admin', await admin(t, [])]), {
      code: 0,
      stdout: '',
      stderr: 'no source is registered, so everything is denied\n',
    })
  })
  test('lists denials with --denied', async (t) => {
    const url = await admin(t)
    const { stdout } = await egressProxy(['state', '--denied', '--admin', url])
    assert.deepEqual(stdout.split('\n'), [
      'LAST\tIP\tID\tHOST\tPORT\tSNI\tCOUNT\tREASON',
      '2026-01-02T03:04:06.000Z\t10.0.0.2\tjob-1\tevil.example\t443\tworse.example\t3\tblocked-by-allowlist',
      '2026-01-02T03:04:05.000Z\t10.0.0.9\t-\tx.example\t80\t-\t1\tunregistered-source',
      '',
    ])
    assert.deepEqual(JSON.parse((await egressProxy(['state', '--denied', '--json', '--admin', url])).stdout), DENIED)
  })
  test('uses EGRESS_ADMIN unless the flag is given', async (t) => {
    const url = await admin(t)
    const dead = { EGRESS_ADMIN: 'http://127.0.0.1:1' }
    assert.equal((await egressProxy(['state'], { env: { EGRESS_ADMIN: url } })).code, 0)
    assert.equal((await egressProxy(['state'], { env: dead })).code, 1)
    assert.equal((await egressProxy(['state', '--admin', url], { env: dead })).code, 0)
  })
  test('accepts an address as for a listener, and a URL with a slash', async (t) => {
    const url = await admin(t)
    for (const typed of [`${url}/`, url.replace('http://', '')])
      assert.equal((await egressProxy(['state', '--admin', typed])).code, 0, typed)
  })
  test('escapes control characters in text from the server', async (t) => {
    const url = await admin(t, [{ ip: '10.0.0.2', id: '\u001b[2J', allowlist: [] }])
    const { stdout } = await egressProxy(['state', '--admin', url], { terminal: true })
    assert.match(stdout, /\\u001b\[2J/)
  })
})

suite('state of a proxy that', () => {
  const asked = async (url: string) => {
    const { code, stdout, stderr } = await egressProxy(['state', '--admin', url])
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, /^hint: egress-proxy proxy serve starts the proxy; --admin, or EGRESS_ADMIN, /m)
    return stderr.split('\n')[0]
  }
  test('is not running: says where it looked and how to start one', async () => {
    const server = createTcpServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : ''
    server.close()
    await once(server, 'close')
    const said = await asked(`http://user:s3cret@127.0.0.1:${port}`)
    assert.equal(said, `egress-proxy: nothing answers at http://127.0.0.1:${port}: the connection is refused`)
  })
  test('has another name', async () =>
    assert.match(
      (await asked('http://no-such-host.invalid:3129')) ?? '',
      /no such host|cannot be looked up|did not answer/,
    ))
  test('is another service', async (t) => {
    const url = await listener(t, (_, answer) => answer.end('<html>'))
    assert.equal(await asked(url), `egress-proxy: ${url} answered GET /v1/state with an unexpected body`)
  })
  test('lacks the path', async (t) => {
    const url = await listener(t, (_, answer) => answer.writeHead(404).end())
    assert.equal(await asked(url), `egress-proxy: ${url} answered 404 to GET /v1/state`)
  })
  test('ends in the middle', async (t) => {
    const url = await listener(t, (_, answer) => {
      answer.writeHead(200, { 'content-length': '100' }).write('[')
      setImmediate(() => answer.destroy())
    })
    assert.match((await asked(url)) ?? '', /nothing answers at .*: /)
  })
})

test('treats an invalid address as a usage error', async () => {
  for (const typed of ['', 'ftp://x', 'http://', 'http://a b', ':99999']) {
    const { code, stderr } = await egressProxy(['state', '--admin', typed])
    assert.equal(code, 1, typed)
    assert.match(stderr, /^egress-proxy: --admin must be a URL such as http:\/\/localhost:3129\n/)
  }
  const { code, stderr } = await egressProxy(['state'], { env: { EGRESS_ADMIN: 'ftp://x' } })
  assert.equal(code, 1)
  assert.match(stderr, /^egress-proxy: EGRESS_ADMIN must be a URL/)
})

test('cuts a list between names, and always shows the first', () => {
  const names = ['a.example', 'b.example', 'c.example']
  assert.equal(fitted(names, 80), 'a.example, b.example, c.example')
  assert.equal(fitted(names, 25), 'a.example, … and 2 more')
  assert.equal(fitted(names, 1), 'a.example, … and 2 more')
  assert.equal(fitted(['a.example'], 1), 'a.example')
})
