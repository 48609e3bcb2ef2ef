import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { clientHello } from '../../../test/support/client-hello.ts'
import { type FakeDns, openFakeDns } from '../../../test/support/fake-dns.ts'
import { type HandoverChild, handOver, runInNamespace } from '../../../test/support/handover-child.ts'
import { needs } from '../../../test/support/needs.ts'
import { connectPeer, echo, openPeerServer, type Peer, portOf } from '../../../test/support/raw-socket.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import {
  type DeniedRequest,
  type EgressProxy,
  type ProxyOptions,
  type SocketSource,
  type SourceOptions,
  startProxy,
} from '../proxy.ts'
import { DENIALS_MAX } from '../reporting/denial-batch.ts'

const NEEDS = needs('kernel', 'python')
const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'

interface Stage {
  readonly proxy: EgressProxy
  readonly dns: FakeDns
  readonly lines: Readonly<Record<string, unknown>>[]
  readonly denied: DeniedRequest[]
}

async function openStage(t: TestContext, options: ProxyOptions = {}): Promise<Stage> {
  const dns = await openFakeDns(t)
  const hostsPath = join(tempDir(t), 'hosts')
  writeFileSync(hostsPath, '')
  const lines: Readonly<Record<string, unknown>>[] = []
  const denied: DeniedRequest[] = []
  const log = (text: string): void => {
    for (const line of text.trimEnd().split('\n')) lines.push(JSON.parse(line))
  }
  const onDenied = (batch: readonly DeniedRequest[]): void => void denied.push(...batch)
  const proxy = await startProxy({ dns: { servers: [dns.server], hostsPath }, log, onDenied, ...options })
  t.after(() => proxy.close())
  return { proxy, dns, lines, denied }
}

/** A source whose listener has been handed over. */
async function openSource(
  t: TestContext,
  proxy: EgressProxy,
  options: Partial<SourceOptions> = {},
): Promise<SocketSource & HandoverChild> {
  const source = await proxy.openSource({ id: 'team/job', allowlist: ['allowed.test'], ...options })
  const child = await handOver(t, source, 'listener')
  return Object.assign(source, child)
}

/** Sends a request and returns everything up to the end. */
async function ask(t: TestContext, port: number, request: string): Promise<string> {
  const client = await connectPeer(t, port)
  client.send(request)
  const answer = await client.over()
  client.socket.destroy()
  return answer
}

function connectTo(host: string): string {
  return `CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`
}

async function openTunnel(t: TestContext, port: number, host: string): Promise<Peer> {
  const client = await connectPeer(t, port)
  client.send(connectTo(host))
  assert.equal(await client.says('\r\n\r\n'), ESTABLISHED)
  return client
}

suite('a source with a handed-over listener', NEEDS, () => {
  test('reaches allowed hosts from a namespace that has only loopback', needs('root', 'ip', 'curl'), async (t) => {
    const { proxy, dns, lines } = await openStage(t, { denyMessage: 'Ask the operator.' })
    dns.tell('allowed.test', { addresses: ['127.0.0.1'] })
    const origin = createServer((request, response) => response.end(`${request.headers.host} ${request.url}\n`))
    t.after(() => origin.close())
    await once(origin.listen(0, '127.0.0.1'), 'listening')
    const port = portOf(origin)
    const source = await proxy.openSource({ id: 'team/job', allowlist: ['allowed.test'] })
    const output = await runInNamespace(
      source,
      [`curl -sS http://allowed.test:${port}/a`, `curl -sS -w "%{http_code}\\n" http://denied.test/`].join('; '),
    )
    assert.equal(
      output,
      '{"port": 3128}\n' +
        `allowed.test:${port} /a\n` +
        'egress-proxy: host "denied.test" port 80 is not allowed for "team/job". ' +
        'This is policy, not a network fault; do not retry another way. Ask the operator.\n403\n',
    )
    assert.equal(dns.count('denied.test'), 0)
    await source.close()
    await proxy.close()
    const told = lines.flatMap(({ verdict, source: key, id, host }) => (verdict ? [[verdict, key, id, host]] : []))
    assert.deepEqual(told, [
      ['allow', 'socket:1', 'team/job', 'allowed.test'],
      ['deny', 'socket:1', 'team/job', 'denied.test'],
    ])
  })

  test('is distinguished from another on the same machine by its listener alone', async (t) => {
    const { proxy, dns } = await openStage(t)
    dns.tell('*', { addresses: ['127.0.0.1'] })
    const { port } = await openPeerServer(t, { serve: echo })
    const first = await openSource(t, proxy, { id: 'first', allowlist: ['one.test'] })
    const second = await openSource(t, proxy, { id: 'second', allowlist: ['two.test'] })
    await openTunnel(t, first.port, `one.test:${port}`)
    await openTunnel(t, second.port, `two.test:${port}`)
    assert.match(await ask(t, first.port, connectTo('two.test:443')), /^HTTP\/1\.1 403 .* for "first"/s)
    assert.match(await ask(t, second.port, connectTo('one.test:443')), /^HTTP\/1\.1 403 .* for "second"/s)
  })

  test('loses an open tunnel when the new allowlist lacks its host, and keeps those to endpoints', async (t) => {
    const { proxy, dns, lines } = await openStage(t)
    dns.tell('*', { addresses: ['127.0.0.1'] })
    const { port } = await openPeerServer(t, { serve: echo })
    const endpoints = [{ host: 'model.test', port }]
    const source = await openSource(t, proxy, { allowlist: ['allowed.test', 'other.test'], endpoints })
    const [listed, other, endpoint] = [
      await openTunnel(t, source.port, `allowed.test:${port}`),
      await openTunnel(t, source.port, `other.test:${port}`),
      await openTunnel(t, source.port, `model.test:${port}`),
    ]
    await source.set(['other.test'])
    await listed.closed()
    other.send('still here')
    assert.equal(await other.says('here'), `${ESTABLISHED}still here`)
    await source.set([])
    await other.closed()
    endpoint.send('still here')
    assert.equal(await endpoint.says('here'), `${ESTABLISHED}still here`)
    assert.match(await ask(t, source.port, connectTo(`allowed.test:${port}`)), /^HTTP\/1\.1 403 /)
    await source.set(['ALLOWED.test'])
    await openTunnel(t, source.port, `allowed.test:${port}`)
    await proxy.close()
    assert.equal(lines.filter(({ reason }) => reason === 'revoked').length, 2)
  })

  test('reaches an endpoint only at its host and port, also a private one, and an address without a lookup', async (t) => {
    const { proxy, dns } = await openStage(t, { denyPrivate: true })
    dns.tell('*', { addresses: ['127.0.0.1'] })
    const { port } = await openPeerServer(t, { serve: echo })
    const { port: otherPort } = await openPeerServer(t)
    const endpoints = [
      { host: 'Model.test.', port },
      { host: '127.0.0.1', port },
    ]
    const source = await openSource(t, proxy, { endpoints })
    await openTunnel(t, source.port, `127.0.0.1:${port}`)
    assert.deepEqual(dns.asked, [])
    await openTunnel(t, source.port, `model.test:${port}`)
    const codeOf = async (host: string): Promise<string | undefined> =>
      /X-Proxy-Error: (\S+)/.exec(await ask(t, source.port, connectTo(host)))?.[1]
    assert.equal(await codeOf(`allowed.test:${port}`), 'destination-ip-prohibited')
    for (const host of [
      `model.test:${otherPort}`,
      `a.model.test:${port}`,
      `127.0.0.1:${otherPort}`,
      `127.0.0.2:${port}`,
      `[::1]:${port}`,
    ])
      assert.equal(await codeOf(host), 'blocked-by-allowlist', host)
    const plain = `GET http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`
    // An echoed request is an invalid response, and shows that it arrived.
    assert.match(await ask(t, source.port, plain), /X-Proxy-Error: bad-response/)
  })

  test('may use the name of the endpoint in a ClientHello, but no denied host', async (t) => {
    const { proxy, dns, denied } = await openStage(t)
    dns.tell('*', { addresses: ['127.0.0.1'] })
    const server = await openPeerServer(t)
    const endpoints = [{ host: 'model.test', port: server.port }]
    const source = await openSource(t, proxy, { allowlist: [], endpoints })
    const hello = clientHello({ sni: 'model.test' })
    const good = await openTunnel(t, source.port, `model.test:${server.port}`)
    good.send(hello)
    const peer = await server.peer()
    await peer.has(hello.length)
    assert.deepEqual(peer.bytes, hello)
    const bad = await openTunnel(t, source.port, `model.test:${server.port}`)
    bad.send(clientHello({ sni: 'other.test' }))
    await bad.over()
    await until(() => denied.length > 0)
    assert.deepEqual(
      denied.map(({ at, ...rest }) => rest),
      [{ id: 'team/job', host: 'model.test', port: server.port, sni: 'other.test', reason: 'sni-denied', count: 1 }],
    )
  })

  test('has its listener and every connection closed when it is closed', async (t) => {
    const { proxy, dns } = await openStage(t)
    dns.tell('*', { addresses: ['127.0.0.1'] })
    const { port } = await openPeerServer(t, { serve: echo })
    const source = await openSource(t, proxy)
    const silent = await connectPeer(t, source.port)
    const tunnel = await openTunnel(t, source.port, `allowed.test:${port}`)
    const refused = await connectPeer(t, source.port)
    refused.send(connectTo('denied.test:443'))
    await refused.says('\r\n\r\n')
    await until(async () => (await proxy.snapshot()).connections === 2)
    await source.close()
    await source.close()
    for (const client of [silent, tunnel, refused]) await client.over()
    assert.equal((await proxy.snapshot()).connections, 0)
    await source.set(['allowed.test'])
    await source.end()
    await assert.rejects(connectPeer(t, source.port), { code: 'ECONNREFUSED' })
  })

  test('gets no more connections than its limit and takes none from another source', async (t) => {
    const { proxy, dns } = await openStage(t, { limits: { maxPerSource: 2 } })
    dns.tell('*', { addresses: ['127.0.0.1'] })
    const { port } = await openPeerServer(t, { serve: echo })
    const [greedy, other] = [await openSource(t, proxy), await openSource(t, proxy)]
    const first = await openTunnel(t, greedy.port, `allowed.test:${port}`)
    await openTunnel(t, greedy.port, `allowed.test:${port}`)
    assert.match(await ask(t, greedy.port, ''), /^HTTP\/1\.1 503 .*limit-reached/s)
    await openTunnel(t, other.port, `allowed.test:${port}`)
    first.socket.destroy()
    await until(async () => (await proxy.snapshot()).connections === 2)
    await openTunnel(t, greedy.port, `allowed.test:${port}`)
  })
})

suite('denied requests', NEEDS, () => {
  test('are reported in batches, repeats as one entry, before the source is closed', async (t) => {
    const { proxy, denied } = await openStage(t)
    const source = await openSource(t, proxy)
    const from = Date.now()
    for (let times = 0; times < 3; times++) await ask(t, source.port, connectTo('denied.test:443'))
    await ask(t, source.port, connectTo('denied.test:80'))
    await source.close()
    const counts = Map.groupBy(denied, ({ host, port }) => `${host}:${port}`)
    const sum = (key: string): number => (counts.get(key) ?? []).reduce((total, { count }) => total + count, 0)
    assert.deepEqual([counts.size, sum('denied.test:443'), sum('denied.test:80')], [2, 3, 1])
    for (const { id, reason, at } of denied) {
      assert.deepEqual([id, reason], ['team/job', 'blocked-by-allowlist'])
      assert.ok(at >= from && at <= Date.now())
    }
  })

  test('of a flood are bounded per source', async (t) => {
    const { proxy, denied } = await openStage(t)
    const [loud, quiet] = [await openSource(t, proxy, { id: 'loud' }), await openSource(t, proxy, { id: 'quiet' })]
    const client = await connectPeer(t, loud.port)
    const asked = 5000
    const from = performance.now()
    let requests = ''
    for (let number = 0; number < asked; number++)
      requests += `GET http://h${number}.test/ HTTP/1.1\r\nHost: h${number}.test\r\n\r\n`
    client.send(requests)
    await until(async () => (await proxy.snapshot()).decisions.reduce((sum, { count }) => sum + count, 0) === asked)
    await ask(t, quiet.port, connectTo('denied.test:443'))
    const seconds = Math.ceil((performance.now() - from) / 1000) + 1
    await proxy.close()
    const loudly = denied.filter(({ id }) => id === 'loud').length
    assert.ok(loudly >= DENIALS_MAX && loudly <= seconds * DENIALS_MAX, `${loudly} in ${seconds} s`)
    assert.equal(denied.filter(({ id }) => id === 'quiet').length, 1)
  })
})

suite('opening a source', NEEDS, () => {
  test('is refused with an invalid allowlist, endpoint or id', async (t) => {
    const { proxy } = await openStage(t)
    const refused = (options: Partial<SourceOptions>, message: RegExp): Promise<void> =>
      assert.rejects(proxy.openSource({ id: 'a', allowlist: [], ...options }), { code: 'invalid', message })
    await refused({ allowlist: ['*.example.com'] }, /"\*\.example\.com" has a wildcard/)
    await refused({ allowlist: ['10.0.0.1'] }, /is an IP address/)
    await refused({ id: ' ' }, /id must not be empty/)
    await refused({ endpoints: [{ host: 'a b', port: 1 }] }, /host of an endpoint .* not "a b"/)
    for (const port of [0, 65_536, 1.5]) await refused({ endpoints: [{ host: 'a.test', port }] }, /port/)
    const source = await proxy.openSource({ id: 'a', allowlist: [], endpoints: [{ host: '::1', port: 65_535 }] })
    await assert.rejects(source.set(['*']), { code: 'invalid' })
    await source.close()
  })

  test('is refused after the proxy is closed, which also closes open sources', async (t) => {
    const { proxy } = await openStage(t)
    const waiting = await proxy.openSource({ id: 'waiting', allowlist: [] })
    const source = await openSource(t, proxy, { allowlist: ['localhost'] })
    const { port } = await openPeerServer(t, { serve: echo })
    const tunnel = await openTunnel(t, source.port, `localhost:${port}`)
    const from = performance.now()
    await proxy.close()
    // Draining would take ten seconds.
    assert.ok(performance.now() - from < 5000)
    await tunnel.closed()
    await waiting.close()
    await assert.rejects(proxy.openSource({ id: 'late', allowlist: [] }), { code: 'unavailable' })
  })
})

test('a proxy on Node’s own sockets refuses socket sources', async (t) => {
  const { proxy } = await openStage(t, { io: 'net' })
  await assert.rejects(proxy.openSource({ id: 'a', allowlist: [] }), {
    code: 'unsupported',
    message: 'socket sources need Linux, a Node with node:ffi, and io auto or epoll',
  })
})

suite('a process with a proxy without listeners', NEEDS, () => {
  for (const [name, then] of Object.entries({
    'ends when it has closed the proxy': 'await proxy.close()',
    'ends when it has nothing else to do': '',
  }))
    test(name, async (t) => {
      const program = `
        import { startProxy } from ${JSON.stringify(import.meta.resolve('../proxy.ts'))}
        const proxy = await startProxy({ denyPrivate: true, log: () => {}, onDenied: () => {} })
        const source = await proxy.openSource({ id: 'a', allowlist: ['example.com'] })
        await source.set([])
        await proxy.snapshot()
        ${then}
        console.log('done')`
      const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      t.after(() => child.kill('SIGKILL'))
      let output = ''
      child.stdout.on('data', (chunk) => {
        output += chunk
      })
      const [code] = await once(child, 'close')
      assert.deepEqual([code, output], [0, 'done\n'])
    })
})
