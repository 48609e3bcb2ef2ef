// Transparent mode in real network namespaces: what a workload can reach when its packets are redirected to the proxy.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer as createWebServer } from 'node:https'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { clientHello, type HelloOptions, record } from '../support/client-hello.ts'
import { makeCertificate } from '../support/egress-clients.ts'
import {
  ATTACKER,
  type EgressNetwork,
  GATEWAY,
  NAME_SERVER,
  ORIGIN,
  openEgressNetwork,
  serveWorkloads,
  suiteCleanup,
  TRANSPARENT_PORT,
  WORKLOAD,
} from '../support/egress-network.ts'
import { awaitEgressReady, type EgressProcess, openEgressWorkspace } from '../support/egress-process.ts'
import { Namespace } from '../support/namespace.ts'
import { needs } from '../support/needs.ts'
import { answerEach } from '../support/raw-http.ts'
import type { Peer } from '../support/raw-socket.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

/** Including its subdomains. */
const ALLOWED = 'allowed.test'
const SECURE = `secure.${ALLOWED}`
const CHILD = join(import.meta.dirname, '..', 'support', 'egress-child.ts')
/** The fatal TLS alert access_denied. */
const ALERT = Buffer.from([0x15, 3, 3, 0, 2, 2, 49]).toString('latin1')
/** Far below the timeout for a request head, and far above the delays of a busy machine. */
const PROMPT_MS = 5000
const SOURCES = [WORKLOAD.v4, WORKLOAD.v6].map((ip) => ({ ip, id: 'job', allowlist: [ALLOWED] }))

type Line = Record<string, unknown>
type Families = { readonly v4: string; readonly v6: string }

suite('transparent mode', needs('root', 'ip', 'iptables', 'openssl', 'curl'), () => {
  const folder = tempDir({ after })
  const { certificate, key } = makeCertificate(folder, [SECURE])
  const whole = suiteCleanup()
  let network: EgressNetwork
  let proxy: EgressProcess
  /** Connections to the allowed host with HTTP and with TLS, and to the attacker. */
  let web: Peer[]
  let tls: Peer[]
  let attacked: Peer[]

  before(async () => {
    network = await openEgressNetwork(whole)
    const { dns, serve, gateway, world } = network
    dns.tell(SECURE, { addresses: [ORIGIN.secure] })
    dns.tell('denied.test', { addresses: [ORIGIN.v4] })
    const all = async ({ v4, v6 }: Families, ports: readonly number[], answer?: (end: Peer) => void) => {
      const ends: Peer[] = []
      for (const host of [v4, v6])
        for (const port of ports) await serve(host, port, (end) => [ends.push(end), answer?.(end)])
      return ends
    }
    web = await all(ORIGIN, [80], (end) => answerEach(end, answerTo))
    tls = await all(ORIGIN, [443], (end) => void end.socket.pipe(end.socket))
    attacked = await all(ATTACKER, [80, 443])
    const secure = createWebServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (_, response) =>
      response.end('from a certain host\n'),
    )
    const listener = await world.listen(ORIGIN.secure, 443)
    listener.on('connection', (socket) => secure.emit('connection', socket))
    whole.after(() => {
      listener.close()
      secure.closeAllConnections()
    })
    proxy = await serveWorkloads(whole, gateway, SOURCES)
  })

  /** A new allowed name for one test. */
  const nameOf = (label: string, address = ORIGIN.v4): string => {
    const name = `${label}.${ALLOWED}`
    network.dns.tell(name, { addresses: [address] })
    return name
  }
  /** Sends these bytes to an address without a name and returns the response. */
  const sendTo = async (port: number, bytes: string | Buffer, host: string = ATTACKER.v4, from?: string) => {
    const client = await network.client(host, port, from)
    client.send(bytes)
    return client.over()
  }
  const get = (host: string, path = '/', fields = ''): string =>
    `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${fields}\r\n`
  const getAndClose = (host: string, path = '/'): string => get(host, path, 'Connection: close\r\n')
  const find = (expected: Line): Line[] =>
    proxy.logged().filter((line) => Object.entries(expected).every(([name, value]) => line[name] === value))
  const waitForLine = async (expected: Line): Promise<Line> => {
    await until(() => find(expected).length > 0)
    return find(expected)[0] ?? assert.fail()
  }
  /** Checks that a connection is reset at once, possibly before it is established. */
  const checkReset = async (from: Namespace, host: string, port: number): Promise<void> => {
    const socket = await from.connect(host, port).catch((error: Error) => error)
    const end = socket instanceof Error ? socket : (await once(socket.resume(), 'error'))[0]
    assert.match(`${end}`, /ECONNRESET/)
  }
  const hasRequested = (end: Peer, host: string): boolean => end.text.includes(`Host: ${host}\r\n`)

  suite('with HTTP', () => {
    test('X2: a request for an allowed Host goes to that host, not to the address of the attacker', async () => {
      const name = nameOf('x2')
      const before = await network.packets('attacker')
      assert.match(await sendTo(80, getAndClose(name)), /^HTTP\/1.1 200 OK\r\n.*you asked x2\.allowed\.test$/s)
      assert.equal(await network.packets('attacker'), before)
      assert.equal(network.dns.count(name, 'A'), 1)
      const line = await waitForLine({ host: name })
      const { mode, source, address, verdict, rule } = line
      assert.deepEqual(
        { mode, source, address, verdict, rule },
        { mode: 'transparent-http', source: WORKLOAD.v4, address: ORIGIN.v4, verdict: 'allow', rule: ALLOWED },
      )
    })

    test('a denied host is refused with the reason, without a lookup', async () => {
      const answer = await sendTo(80, getAndClose('denied.test'))
      assert.match(answer, /^HTTP\/1.1 403 Forbidden by egress-proxy \(host not in allowlist\)\r\n/)
      assert.match(answer, /\r\nX-Proxy-Error: blocked-by-allowlist\r\n/)
      assert.match(answer, /host "denied\.test" port 80 is not allowed for "job"/)
      assert.equal(network.dns.count('denied.test'), 0)
      await waitForLine({ mode: 'transparent-http', host: 'denied.test', port: 80, reason: 'blocked-by-allowlist' })
    })

    test('E1: an unregistered source reaches nothing', async () => {
      const name = nameOf('unregistered')
      const answer = await sendTo(80, getAndClose(name), ATTACKER.v4, WORKLOAD.unregistered)
      assert.match(answer, /^HTTP\/1.1 403 .*X-Proxy-Error: unregistered-source/s)
      assert.equal(network.dns.count(name), 0)
    })

    for (const [manner, gap] of [
      ['on a kept connection', true],
      ['in one packet', false],
    ] as const)
      test(`X3: a second and a third Host ${manner} are checked separately`, async () => {
        const name = nameOf(`x3-${gap}`)
        const client = await network.client(ATTACKER.v4, 80)
        const requests = [get(name, '/first'), get('denied.test', '/second'), getAndClose(name, '/third')]
        if (gap)
          for (const [at, request] of requests.entries()) {
            client.send(request)
            await until(() => client.text.split('HTTP/1.1 ').length > at + 1)
          }
        else client.send(requests.join(''))
        const statuses = [...(await client.over()).matchAll(/HTTP\/1.1 (\d+) /g)].map(([, status]) => status)
        assert.deepEqual(statuses, ['200', '403', '200'])
        const seen = web.filter((end) => hasRequested(end, name)).map(({ text }) => text)
        assert.match(seen.join(''), /GET \/first .*GET \/third /s)
        assert.doesNotMatch(seen.join(''), /denied|second/)
      })

    test('X4: an absolute target must match the Host; CONNECT is refused', async () => {
      const name = nameOf('x4')
      assert.match(await sendTo(80, getAndClose(name, `http://${name}/whole`)), /^HTTP\/1.1 200 /)
      assert.match(web.find((end) => hasRequested(end, name))?.text ?? '', /^GET \/whole HTTP\/1.1\r\n/)
      for (const [host, target] of [
        [name, 'http://denied.test/'],
        ['denied.test', `http://${name}/`],
        [name, `http://${name}:8080/`],
        [name, `https://${name}/`],
      ] as const)
        assert.match(await sendTo(80, getAndClose(host, target)), /^HTTP\/1.1 400 /, `${host} ${target}`)
      const connect = `CONNECT ${name}:443 HTTP/1.1\r\nHost: ${name}:443\r\n\r\n`
      assert.match(await sendTo(80, connect), /^HTTP\/1.1 400 .*Connection: close/s)
    })

    test('X5, E13: exactly one valid Host is required', async () => {
      const name = nameOf('x5')
      const refused = {
        none: 'GET / HTTP/1.1\r\n\r\n',
        'none, by HTTP/1.0': 'GET / HTTP/1.0\r\n\r\n',
        two: `GET / HTTP/1.1\r\nHost: ${name}\r\nHost: denied.test\r\n\r\n`,
        'the same twice': `GET / HTTP/1.1\r\nHost: ${name}\r\nHost: ${name}\r\n\r\n`,
        folded: `GET / HTTP/1.1\r\nHost:\r\n ${name}\r\n\r\n`,
        'a list': get(`${name}, denied.test`),
        'with a user': get(`user@${name}`),
        empty: get(''),
        'with an invalid port': get(`${name}:x`),
      }
      for (const [what, request] of Object.entries(refused))
        assert.match(await sendTo(80, request), /^HTTP\/1.1 400 .*Connection: close/s, what)
      assert.equal(web.filter((end) => hasRequested(end, name)).length, 0)
      for (const host of [`${name}:80`, `${name.toUpperCase()}`, `${name}.`])
        assert.match(await sendTo(80, getAndClose(host)), /^HTTP\/1.1 200 /, host)
      assert.match(await sendTo(80, `GET / HTTP/1.0\r\nHost: ${name}\r\n\r\n`), /^HTTP\/1.[01] 200 /)
      assert.match(await sendTo(80, getAndClose(ORIGIN.v4)), /^HTTP\/1.1 403 /)
    })

    test('X6: a short request gets a prompt response', async () => {
      const since = performance.now()
      const client = await network.client(ATTACKER.v4, 80)
      client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      assert.match(await client.says('403'), /^HTTP\/1.1 403 /)
      assert.ok(performance.now() - since < PROMPT_MS)
    })

    test('X14: other protocols on port 80 are refused', async () => {
      assert.match(await sendTo(80, clientHello({ sni: nameOf('x14') })), /^HTTP\/1.1 400 /)
      assert.match(await sendTo(80, 'SSH-2.0-client\r\n\r\n'), /^HTTP\/1.1 400 /)
    })
  })

  suite('with TLS', () => {
    test('X1: a hello with an allowed SNI goes to that host, not to the address of the attacker', async () => {
      const name = nameOf('x1')
      const before = await network.packets('attacker')
      const hello = clientHello({ sni: name })
      const client = await network.client(ATTACKER.v4, 443)
      client.send(hello)
      await until(() => client.received >= hello.length)
      client.socket.end()
      assert.equal(await client.over(), hello.toString('latin1'))
      assert.equal(await network.packets('attacker'), before)
      const { mode, source, address, verdict, port, bytes_up } = await waitForLine({ host: name })
      assert.deepEqual(
        { mode, source, address, verdict, port, bytes_up },
        {
          ...{ mode: 'transparent-tls', source: WORKLOAD.v4, address: ORIGIN.v4, verdict: 'allow', port: 443 },
          bytes_up: hello.length,
        },
      )
    })

    test('control: packets to the attacker are counted', async () => {
      const before = await network.packets('attacker')
      const direct = await network.gateway.connect(ATTACKER.v4, 80)
      direct.destroy()
      await until(() => attacked.length > 0)
      assert.ok((await network.packets('attacker')) > before)
    })

    test('X21: data right after the hello arrives once and in order', async () => {
      const name = nameOf('x21')
      const early = Buffer.from(Array.from({ length: 65_536 }, (_, at) => (at * 31) & 0xff))
      const bytes = Buffer.concat([clientHello({ sni: name }), early])
      const client = await network.client(ATTACKER.v4, 443)
      client.send(bytes)
      client.socket.end()
      const back = await client.over()
      assert.equal(back.length, bytes.length)
      assert.ok(back === bytes.toString('latin1'))
    })

    test('X7, X8, X9: fragmented and large hellos are read', async () => {
      const kinds: Record<string, HelloOptions> = {
        'in records of one byte': { recordBytes: 1 },
        'cut into records': { recordBytes: 64 },
        'with a post-quantum key': { keyShare: 'x25519mlkem768', grease: true, alpn: ['h2', 'http/1.1'] },
        'of 16 KiB': { sizeBytes: 16_384 },
        'with ECH, where the outer name decides': { ech: 'real' },
      }
      for (const [at, [what, options]] of Object.entries(kinds).entries()) {
        const hello = clientHello({ ...options, sni: nameOf(`cut-${at}`) })
        const client = await network.client(ATTACKER.v4, 443)
        client.send(hello)
        client.socket.end()
        assert.equal(await client.over(), hello.toString('latin1'), what)
        const denied = clientHello({ ...options, sni: 'denied.test' })
        assert.equal(await sendTo(443, denied), ALERT, `${what}, denied`)
      }
      const slow = await network.client(ATTACKER.v4, 443)
      slow.socket.setNoDelay(true)
      const hello = clientHello({ sni: nameOf('byte-by-byte') })
      for (const byte of hello) await new Promise((sent) => slow.socket.write(Buffer.of(byte), sent))
      await until(() => slow.received === hello.length)
      assert.equal(slow.text, hello.toString('latin1'))
      slow.socket.destroy()
    })

    const denied: Record<string, { hello: Buffer; reason: string; from?: string }> = {
      'a name that is not listed': { hello: clientHello({ sni: 'denied.test' }), reason: 'blocked-by-allowlist' },
      'an IP address as name': { hello: clientHello({ sni: '192.0.2.80' }), reason: 'ip-literal' },
      'no name at all': { hello: clientHello({ sni: null }), reason: 'sni-missing' },
      'two names': {
        hello: clientHello({ serverNames: [[{ name: ALLOWED }, { name: 'denied.test' }]] }),
        reason: 'sni-unreadable',
      },
      'another handshake message': { hello: clientHello({ sni: ALLOWED, messageType: 2 }), reason: 'sni-unreadable' },
      'an allowed name from an unregistered source': {
        ...{ hello: clientHello({ sni: ALLOWED }), reason: 'unregistered-source' },
        from: WORKLOAD.unregistered,
      },
    }
    for (const [what, { hello, reason, from }] of Object.entries(denied))
      test(`${what} is denied with the alert access_denied, without a lookup or dial`, async () => {
        const [lookups, connections] = [network.dns.asked.length, tls.length]
        const line = { mode: 'transparent-tls', reason, verdict: 'deny', source: from ?? WORKLOAD.v4 }
        const before = find(line).length
        assert.equal(await sendTo(443, hello, ATTACKER.v4, from), ALERT)
        await until(() => find(line).length > before)
        assert.deepEqual([network.dns.asked.length, tls.length], [lookups, connections])
      })

    test('X14: other protocols on port 443 are closed without a response', async () => {
      const sslv2 = Buffer.from([0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10])
      const connections = tls.length
      for (const bytes of ['SSH-2.0-client\r\n', getAndClose(ALLOWED), sslv2])
        assert.equal(await sendTo(443, bytes), '')
      assert.equal((await waitForLine({ reason: 'not-tls' })).port, 443)
      await until(() => proxy.logged().filter(({ reason }) => reason === 'not-tls').length === 3)
      assert.equal(await sendTo(443, record(Buffer.from('alert'), { type: 21 })), ALERT)
      assert.equal(tls.length, connections)
    })

    test('an allowed name that cannot be resolved or reached closes the connection without an alert', async () => {
      assert.equal(await sendTo(443, clientHello({ sni: `missing.${ALLOWED}` })), '')
      await waitForLine({ host: `missing.${ALLOWED}`, verdict: 'error', reason: 'dns-error' })
      // The gateway itself has nothing on port 443.
      const closed = nameOf('closed', '192.0.2.1')
      assert.equal(await sendTo(443, clientHello({ sni: closed })), '')
      await waitForLine({ host: closed, verdict: 'error', reason: 'connection-refused' })
    })

    test('real clients reach allowed hosts and report access denied for others', async () => {
      const { workload } = network
      const curl = (host: string) => {
        const to = ['--resolve', `${host}:443:${ATTACKER.v4}`, '--cacert', certificate]
        return workload.run('curl', '--silent', '--show-error', '--max-time', '60', ...to, `https://${host}/`)
      }
      assert.equal(await curl(SECURE), 'from a certain host\n')
      await assert.rejects(curl('denied.test'), /curl: \(35\) .*alert access denied/)
      const shake = async (servername: string) => {
        const socket = connectTls({
          ...{ socket: await workload.connect(ATTACKER.v4, 443), servername },
          ca: readFileSync(certificate),
        })
        whole.after(() => socket.destroy())
        await once(socket, 'secureConnect')
        return socket.getProtocol()
      }
      assert.equal(await shake(SECURE), 'TLSv1.3')
      await assert.rejects(shake('denied.test'), { code: /ALERT_ACCESS_DENIED$/ })
    })
  })

  suite('with both protocols', () => {
    test('X18: IPv6 and IPv4 clients reach hosts of both families', async () => {
      const [four, six] = [nameOf('to-four'), nameOf('to-six', ORIGIN.v6)]
      const before = await network.packets('attacker')
      for (const [host, source] of [
        [ATTACKER.v4, WORKLOAD.v4],
        [ATTACKER.v6, WORKLOAD.v6],
      ] as const)
        for (const name of [four, six]) {
          assert.match(await sendTo(80, getAndClose(name), host), /^HTTP\/1.1 200 /, `${source} ${name}`)
          const hello = clientHello({ sni: name })
          const client = await network.client(host, 443)
          client.send(hello)
          client.socket.end()
          assert.equal(await client.over(), hello.toString('latin1'), `${source} ${name}`)
          for (const mode of ['transparent-http', 'transparent-tls'])
            await waitForLine({ mode, source, host: name, verdict: 'allow' })
          assert.match(await sendTo(80, getAndClose('denied.test'), host), /^HTTP\/1.1 403 /)
          assert.equal(await sendTo(443, clientHello({ sni: 'denied.test' }), host), ALERT)
        }
      assert.equal(await network.packets('attacker'), before)
    })

    test('X15, E14: other ports are closed before reading, and the log contains the port', async () => {
      const [lookups, connections] = [network.dns.asked.length, web.length + tls.length]
      for (const host of [ATTACKER.v4, ATTACKER.v6])
        for (const port of [22, 8080, 8443, 3128]) {
          await checkReset(network.workload, host, port)
          const source = host === ATTACKER.v4 ? WORKLOAD.v4 : WORKLOAD.v6
          await waitForLine({ verdict: 'deny', reason: 'port-not-allowed', port, source, id: 'job' })
        }
      assert.deepEqual([network.dns.asked.length, web.length + tls.length], [lookups, connections])
    })

    test('X16: direct connections to the listener are reset', async () => {
      const count = (): number => proxy.logged().filter(({ reason }) => reason === 'not-redirected').length
      const before = count()
      const { gateway, workload } = network
      for (const host of [GATEWAY.v4, GATEWAY.v6]) await checkReset(workload, host, TRANSPARENT_PORT)
      for (const host of ['127.0.0.1', '::1', GATEWAY.v4]) await checkReset(gateway, host, TRANSPARENT_PORT)
      await until(() => count() === before + 5)
    })

    test('the forward listener applies the same lists to the same sources', async () => {
      const name = nameOf('forward')
      const target = (host: string): string =>
        `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
      assert.match(await sendTo(3128, target(name), GATEWAY.v4), /^HTTP\/1.1 200 /)
      assert.match(await sendTo(3128, target('denied.test'), GATEWAY.v6), /^HTTP\/1.1 403 /)
    })
  })

  suite('with limits', () => {
    const PORT = 3137
    const TO = '198.51.100.7'
    const HEAD_MS = 2000
    let limited: EgressProcess

    before(async () => {
      const { gateway } = network
      await gateway.run(
        ...['iptables', '-t', 'nat', '-I', 'PREROUTING', '-i', 'inner', '-p', 'tcp', '-d', TO],
        ...['-j', 'REDIRECT', '--to-ports', `${PORT}`],
      )
      const options = {
        transparent: { host: '::', port: PORT },
        dns: { servers: [NAME_SERVER] },
        limits: { headMs: HEAD_MS, maxPerSource: 2 },
      }
      const [program = '', ...args] = [
        ...gateway.inside,
        process.execPath,
        '--disable-warning=ExperimentalWarning',
        CHILD,
      ]
      const child = spawn(program, [...args, JSON.stringify(options), JSON.stringify(SOURCES)])
      whole.after(() => void child.kill('SIGKILL'))
      limited = await awaitEgressReady(child)
    })

    test('T14: a connection beyond the limit is refused with the reason, and others continue', async () => {
      const clients = await Promise.all([1, 2].map(() => network.client(TO, 443)))
      const hellos = clients.map((_, at) => clientHello({ sni: nameOf(`t14-${at}`) }))
      for (const [at, client] of clients.entries()) client.send(hellos[at] ?? '')
      await until(() => clients.every((client, at) => client.received === hellos[at]?.length))
      assert.equal(await sendTo(443, clientHello({ sni: ALLOWED }), TO), ALERT)
      assert.match(await sendTo(80, getAndClose(ALLOWED), TO), /^HTTP\/1.1 503 .*X-Proxy-Error: limit-reached/s)
      for (const mode of ['transparent-tls', 'transparent-http'])
        await until(() => limited.logged().some((line) => line.reason === 'limit-reached' && line.mode === mode))
      for (const client of clients) client.socket.end('more')
      for (const client of clients) assert.match(await client.over(), /more$/)
    })

    for (const port of [443, 80])
      test(`R2: a silent client of port ${port} times out`, async () => {
        const before = limited.logged().length
        const client = await network.client(TO, port)
        const since = performance.now()
        await client.over()
        // Far below the keep-alive timeout.
        assert.ok(performance.now() - since < 20 * HEAD_MS)
        await until(() =>
          limited
            .logged()
            .slice(before)
            .some(({ reason }) => reason === 'head-timeout'),
        )
      })

    for (const [port, bytes, answer] of [
      [443, clientHello({ sni: ALLOWED }), /^$/],
      [80, Buffer.from(getAndClose(ALLOWED)), /^HTTP\/1.1 408 /],
    ] as const)
      test(`X20: a client of port ${port} that sends single bytes slowly times out`, async () => {
        const client = await network.client(TO, port)
        const since = performance.now()
        let sent = 0
        // Each byte is in time, but all of them together are not.
        const trickle = setInterval(() => client.send(bytes.subarray(sent, ++sent)), HEAD_MS / 4)
        const text = await client.over()
        clearInterval(trickle)
        assert.match(text, answer)
        assert.ok(performance.now() - since >= HEAD_MS * 0.9)
        assert.ok(sent < bytes.length / 2)
        await until(() => limited.logged().some(({ reason }) => reason === 'head-timeout'))
      })
  })

  test('X17: without redirection every connection is reset and logged, and forward mode works', async (t) => {
    const namespace = await Namespace.open(t)
    const origin = await namespace.listen('127.0.0.1', 0)
    origin.on('connection', (socket) => socket.end('from the origin'))
    t.after(() => void origin.close())
    const statePath = join(tempDir(t), 'state.json')
    writeFileSync(statePath, JSON.stringify([{ ip: '127.0.0.1', id: 'job', allowlist: ['localhost'] }]))
    const workspace = openEgressWorkspace(t, { EGRESS_STATE_PATH: statePath }, namespace.inside)
    const lone = await workspace.serve('--transparent', '127.0.0.1:0')
    const portOf = (name: string): number => Number(lone.listeners.get(name)?.split(':').at(-1))
    await checkReset(namespace, '127.0.0.1', portOf('transparent'))
    await until(() => lone.logged().some(({ reason, verdict }) => reason === 'not-redirected' && verdict === 'deny'))
    const { port } = origin.address() as { port: number }
    const client = await namespace.connect('127.0.0.1', portOf('forward'))
    client.write(`CONNECT localhost:${port} HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`)
    let text = ''
    for await (const piece of client) text += piece
    assert.match(text, /^HTTP\/1.1 200 .*from the origin$/s)
  })
})

/** Responds with the requested host. */
function answerTo(request: string): string {
  const body = `you asked ${/^Host: (.*)\r$/m.exec(request)?.[1]}`
  return `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}
