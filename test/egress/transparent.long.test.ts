// Transparent mode in real networks: what a workload reaches whose packets are turned around to the proxy, whatever it says
// and wherever it sends it.
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

/** With every name below it. */
const ALLOWED = 'allowed.test'
const SECURE = `secure.${ALLOWED}`
const CHILD = join(import.meta.dirname, '..', 'support', 'egress-child.ts')
/** A fatal alert: access denied. */
const ALERT = Buffer.from([0x15, 3, 3, 0, 2, 2, 49]).toString('latin1')
/** Far below what a client may take to say what it wants, and far above what a busy machine takes. */
const AT_ONCE_MS = 5000
const SOURCES = [WORKLOAD.v4, WORKLOAD.v6].map((ip) => ({ ip, id: 'job', allowlist: [ALLOWED] }))

type Line = Record<string, unknown>
type Families = { readonly v4: string; readonly v6: string }

suite('transparent mode', needs('root', 'ip', 'iptables', 'openssl', 'curl'), () => {
  const folder = tempDir({ after })
  const { certificate, key } = makeCertificate(folder, [SECURE])
  const whole = suiteCleanup()
  let network: EgressNetwork
  let proxy: EgressProcess
  /** Who came to the allowed host by HTTP and by TLS, and to the attacker by either. */
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

  /** An allowed name of the test's own. */
  const nameOf = (label: string, address = ORIGIN.v4): string => {
    const name = `${label}.${ALLOWED}`
    network.dns.tell(name, { addresses: [address] })
    return name
  }
  /** All that comes back for these bytes, sent to an address that no name leads to. */
  const say = async (port: number, bytes: string | Buffer, host: string = ATTACKER.v4, from?: string) => {
    const client = await network.client(host, port, from)
    client.send(bytes)
    return client.over()
  }
  const get = (host: string, path = '/', fields = ''): string =>
    `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${fields}\r\n`
  const last = (host: string, path = '/'): string => get(host, path, 'Connection: close\r\n')
  const find = (expected: Line): Line[] =>
    proxy.logged().filter((line) => Object.entries(expected).every(([name, value]) => line[name] === value))
  const logged = async (expected: Line): Promise<Line> => {
    await until(() => find(expected).length > 0)
    return find(expected)[0] ?? assert.fail()
  }
  /** A connection that is reset at once, also where that is seen before it is made. */
  const turnedAway = async (from: Namespace, host: string, port: number): Promise<void> => {
    const socket = await from.connect(host, port).catch((error: Error) => error)
    const end = socket instanceof Error ? socket : (await once(socket.resume(), 'error'))[0]
    assert.match(`${end}`, /ECONNRESET/)
  }
  const hasAsked = (end: Peer, host: string): boolean => end.text.includes(`Host: ${host}\r\n`)

  suite('by HTTP', () => {
    test('X2: with the Host of an allowed name, the packets of an attacker reach that name and not him', async () => {
      const name = nameOf('x2')
      const before = await network.packets('attacker')
      assert.match(await say(80, last(name)), /^HTTP\/1.1 200 OK\r\n.*you asked x2\.allowed\.test$/s)
      assert.equal(await network.packets('attacker'), before)
      assert.equal(network.dns.count(name, 'A'), 1)
      const line = await logged({ host: name })
      const { mode, source, address, verdict, rule } = line
      assert.deepEqual(
        { mode, source, address, verdict, rule },
        { mode: 'transparent-http', source: WORKLOAD.v4, address: ORIGIN.v4, verdict: 'allow', rule: ALLOWED },
      )
    })

    test('a denied host is answered with the reason, and is not even looked up', async () => {
      const answer = await say(80, last('denied.test'))
      assert.match(answer, /^HTTP\/1.1 403 Forbidden by egress-proxy \(host not in allowlist\)\r\n/)
      assert.match(answer, /\r\nX-Proxy-Error: blocked-by-allowlist\r\n/)
      assert.match(answer, /host "denied\.test" port 80 is not allowed for "job"/)
      assert.equal(network.dns.count('denied.test'), 0)
      await logged({ mode: 'transparent-http', host: 'denied.test', port: 80, reason: 'blocked-by-allowlist' })
    })

    test('E1: a source that nobody registered reaches nothing', async () => {
      const name = nameOf('unregistered')
      const answer = await say(80, last(name), ATTACKER.v4, WORKLOAD.unregistered)
      assert.match(answer, /^HTTP\/1.1 403 .*X-Proxy-Error: unregistered-source/s)
      assert.equal(network.dns.count(name), 0)
    })

    for (const [manner, gap] of [
      ['on a connection that is kept', true],
      ['in one packet', false],
    ] as const)
      test(`X3: a second Host ${manner} is judged on its own, and so is a third`, async () => {
        const name = nameOf(`x3-${gap}`)
        const client = await network.client(ATTACKER.v4, 80)
        const requests = [get(name, '/first'), get('denied.test', '/second'), last(name, '/third')]
        if (gap)
          for (const [at, request] of requests.entries()) {
            client.send(request)
            await until(() => client.text.split('HTTP/1.1 ').length > at + 1)
          }
        else client.send(requests.join(''))
        const statuses = [...(await client.over()).matchAll(/HTTP\/1.1 (\d+) /g)].map(([, status]) => status)
        assert.deepEqual(statuses, ['200', '403', '200'])
        const seen = web.filter((end) => hasAsked(end, name)).map(({ text }) => text)
        assert.match(seen.join(''), /GET \/first .*GET \/third /s)
        assert.doesNotMatch(seen.join(''), /denied|second/)
      })

    test('X4: an absolute target must say what the Host says; CONNECT is refused', async () => {
      const name = nameOf('x4')
      assert.match(await say(80, last(name, `http://${name}/whole`)), /^HTTP\/1.1 200 /)
      assert.match(web.find((end) => hasAsked(end, name))?.text ?? '', /^GET \/whole HTTP\/1.1\r\n/)
      for (const [host, target] of [
        [name, 'http://denied.test/'],
        ['denied.test', `http://${name}/`],
        [name, `http://${name}:8080/`],
        [name, `https://${name}/`],
      ] as const)
        assert.match(await say(80, last(host, target)), /^HTTP\/1.1 400 /, `${host} ${target}`)
      const connect = `CONNECT ${name}:443 HTTP/1.1\r\nHost: ${name}:443\r\n\r\n`
      assert.match(await say(80, connect), /^HTTP\/1.1 400 .*Connection: close/s)
    })

    test('X5, E13: only one plain Host names a host', async () => {
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
        'with no port': get(`${name}:x`),
      }
      for (const [what, request] of Object.entries(refused))
        assert.match(await say(80, request), /^HTTP\/1.1 400 .*Connection: close/s, what)
      assert.equal(web.filter((end) => hasAsked(end, name)).length, 0)
      for (const host of [`${name}:80`, `${name.toUpperCase()}`, `${name}.`])
        assert.match(await say(80, last(host)), /^HTTP\/1.1 200 /, host)
      assert.match(await say(80, `GET / HTTP/1.0\r\nHost: ${name}\r\n\r\n`), /^HTTP\/1.[01] 200 /)
      assert.match(await say(80, last(ORIGIN.v4)), /^HTTP\/1.1 403 /)
    })

    test('X6: a short request is answered at once', async () => {
      const since = performance.now()
      const client = await network.client(ATTACKER.v4, 80)
      client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      assert.match(await client.says('403'), /^HTTP\/1.1 403 /)
      assert.ok(performance.now() - since < AT_ONCE_MS)
    })

    test('X14: what is no HTTP is no request', async () => {
      assert.match(await say(80, clientHello({ sni: nameOf('x14') })), /^HTTP\/1.1 400 /)
      assert.match(await say(80, 'SSH-2.0-client\r\n\r\n'), /^HTTP\/1.1 400 /)
    })
  })

  suite('by TLS', () => {
    test('X1: with the SNI of an allowed name, the packets of an attacker reach that name and not him', async () => {
      const name = nameOf('x1')
      const before = await network.packets('attacker')
      const hello = clientHello({ sni: name })
      const client = await network.client(ATTACKER.v4, 443)
      client.send(hello)
      await until(() => client.received >= hello.length)
      client.socket.end()
      assert.equal(await client.over(), hello.toString('latin1'))
      assert.equal(await network.packets('attacker'), before)
      const { mode, source, address, verdict, port, bytes_up } = await logged({ host: name })
      assert.deepEqual(
        { mode, source, address, verdict, port, bytes_up },
        {
          ...{ mode: 'transparent-tls', source: WORKLOAD.v4, address: ORIGIN.v4, verdict: 'allow', port: 443 },
          bytes_up: hello.length,
        },
      )
    })

    test('control: packets to the attacker are counted when there are some', async () => {
      const before = await network.packets('attacker')
      const direct = await network.gateway.connect(ATTACKER.v4, 80)
      direct.destroy()
      await until(() => attacked.length > 0)
      assert.ok((await network.packets('attacker')) > before)
    })

    test('X21: what follows the hello at once arrives once and in order', async () => {
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

    test('X7, X8, X9: a hello is read however it is cut, and also where it is large', async () => {
      const kinds: Record<string, HelloOptions> = {
        'in records of one byte': { recordBytes: 1 },
        'cut into records': { recordBytes: 64 },
        'with a post-quantum key': { keyShare: 'x25519mlkem768', grease: true, alpn: ['h2', 'http/1.1'] },
        'of 16 KiB': { sizeBytes: 16_384 },
        'with ECH, the outer name deciding': { ech: 'real' },
      }
      for (const [at, [what, options]] of Object.entries(kinds).entries()) {
        const hello = clientHello({ ...options, sni: nameOf(`cut-${at}`) })
        const client = await network.client(ATTACKER.v4, 443)
        client.send(hello)
        client.socket.end()
        assert.equal(await client.over(), hello.toString('latin1'), what)
        const denied = clientHello({ ...options, sni: 'denied.test' })
        assert.equal(await say(443, denied), ALERT, `${what}, denied`)
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
      'an address for a name': { hello: clientHello({ sni: '192.0.2.80' }), reason: 'ip-literal' },
      'no name at all': { hello: clientHello({ sni: null }), reason: 'sni-missing' },
      'two names': {
        hello: clientHello({ serverNames: [[{ name: ALLOWED }, { name: 'denied.test' }]] }),
        reason: 'sni-unreadable',
      },
      'a message that is no hello': { hello: clientHello({ sni: ALLOWED, messageType: 2 }), reason: 'sni-unreadable' },
      'an allowed name from a source that nobody registered': {
        ...{ hello: clientHello({ sni: ALLOWED }), reason: 'unregistered-source' },
        from: WORKLOAD.unregistered,
      },
    }
    for (const [what, { hello, reason, from }] of Object.entries(denied))
      test(`${what} is denied by the alert "access denied", and nothing is looked up or dialled`, async () => {
        const [asked, came] = [network.dns.asked.length, tls.length]
        const line = { mode: 'transparent-tls', reason, verdict: 'deny', source: from ?? WORKLOAD.v4 }
        const before = find(line).length
        assert.equal(await say(443, hello, ATTACKER.v4, from), ALERT)
        await until(() => find(line).length > before)
        assert.deepEqual([network.dns.asked.length, tls.length], [asked, came])
      })

    test('X14: what is no TLS on port 443 is closed without an answer', async () => {
      const sslv2 = Buffer.from([0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10])
      const came = tls.length
      for (const bytes of ['SSH-2.0-client\r\n', last(ALLOWED), sslv2]) assert.equal(await say(443, bytes), '')
      assert.equal((await logged({ reason: 'not-tls' })).port, 443)
      await until(() => proxy.logged().filter(({ reason }) => reason === 'not-tls').length === 3)
      assert.equal(await say(443, record(Buffer.from('alert'), { type: 21 })), ALERT)
      assert.equal(tls.length, came)
    })

    test('a name that cannot be resolved or reached is a broken line, not a denial', async () => {
      assert.equal(await say(443, clientHello({ sni: `missing.${ALLOWED}` })), '')
      await logged({ host: `missing.${ALLOWED}`, verdict: 'error', reason: 'dns-error' })
      // The gateway itself has nothing on port 443.
      const closed = nameOf('closed', '192.0.2.1')
      assert.equal(await say(443, clientHello({ sni: closed })), '')
      await logged({ host: closed, verdict: 'error', reason: 'connection-refused' })
    })

    test('real clients get through where they may, and read "access denied" where they may not', async () => {
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

  suite('by either', () => {
    test('X18: IPv6 is served as IPv4 is, to hosts of either family', async () => {
      const [four, six] = [nameOf('to-four'), nameOf('to-six', ORIGIN.v6)]
      const before = await network.packets('attacker')
      for (const [host, source] of [
        [ATTACKER.v4, WORKLOAD.v4],
        [ATTACKER.v6, WORKLOAD.v6],
      ] as const)
        for (const name of [four, six]) {
          assert.match(await say(80, last(name), host), /^HTTP\/1.1 200 /, `${source} ${name}`)
          const hello = clientHello({ sni: name })
          const client = await network.client(host, 443)
          client.send(hello)
          client.socket.end()
          assert.equal(await client.over(), hello.toString('latin1'), `${source} ${name}`)
          for (const mode of ['transparent-http', 'transparent-tls'])
            await logged({ mode, source, host: name, verdict: 'allow' })
          assert.match(await say(80, last('denied.test'), host), /^HTTP\/1.1 403 /)
          assert.equal(await say(443, clientHello({ sni: 'denied.test' }), host), ALERT)
        }
      assert.equal(await network.packets('attacker'), before)
    })

    test('X15, E14: other ports are closed before a byte is read, and the log names the port', async () => {
      const [asked, came] = [network.dns.asked.length, web.length + tls.length]
      for (const host of [ATTACKER.v4, ATTACKER.v6])
        for (const port of [22, 8080, 8443, 3128]) {
          await turnedAway(network.workload, host, port)
          const source = host === ATTACKER.v4 ? WORKLOAD.v4 : WORKLOAD.v6
          await logged({ verdict: 'deny', reason: 'port-not-allowed', port, source, id: 'job' })
        }
      assert.deepEqual([network.dns.asked.length, web.length + tls.length], [asked, came])
    })

    test('X16: who connects to the listener itself is turned away', async () => {
      const count = (): number => proxy.logged().filter(({ reason }) => reason === 'not-redirected').length
      const before = count()
      const { gateway, workload } = network
      for (const host of [GATEWAY.v4, GATEWAY.v6]) await turnedAway(workload, host, TRANSPARENT_PORT)
      for (const host of ['127.0.0.1', '::1', GATEWAY.v4]) await turnedAway(gateway, host, TRANSPARENT_PORT)
      await until(() => count() === before + 5)
    })

    test('the forward listener beside it serves the same sources by the same lists', async () => {
      const name = nameOf('forward')
      const target = (host: string): string =>
        `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
      assert.match(await say(3128, target(name), GATEWAY.v4), /^HTTP\/1.1 200 /)
      assert.match(await say(3128, target('denied.test'), GATEWAY.v6), /^HTTP\/1.1 403 /)
    })
  })

  suite('within limits', () => {
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
      const [program = '', ...args] = [...gateway.inside, process.execPath, CHILD]
      const child = spawn(program, [...args, JSON.stringify(options), JSON.stringify(SOURCES)])
      whole.after(() => void child.kill('SIGKILL'))
      limited = await awaitEgressReady(child)
    })

    test('T14: one connection too many is refused with the reason, and the others go on', async () => {
      const held = await Promise.all([1, 2].map(() => network.client(TO, 443)))
      const hellos = held.map((_, at) => clientHello({ sni: nameOf(`t14-${at}`) }))
      for (const [at, client] of held.entries()) client.send(hellos[at] ?? '')
      await until(() => held.every((client, at) => client.received === hellos[at]?.length))
      assert.equal(await say(443, clientHello({ sni: ALLOWED }), TO), ALERT)
      assert.match(await say(80, last(ALLOWED), TO), /^HTTP\/1.1 503 .*X-Proxy-Error: limit-reached/s)
      for (const mode of ['transparent-tls', 'transparent-http'])
        await until(() => limited.logged().some((line) => line.reason === 'limit-reached' && line.mode === mode))
      for (const client of held) client.socket.end('more')
      for (const client of held) assert.match(await client.over(), /more$/)
    })

    for (const port of [443, 80])
      test(`R2: a client of port ${port} that says nothing is not waited for longer`, async () => {
        const before = limited.logged().length
        const client = await network.client(TO, port)
        const since = performance.now()
        await client.over()
        // Far below what a client may take between two requests.
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
      [80, Buffer.from(last(ALLOWED)), /^HTTP\/1.1 408 /],
    ] as const)
      test(`X20: a client of port ${port} that sends a byte now and then is not waited for longer`, async () => {
        const client = await network.client(TO, port)
        const since = performance.now()
        let sent = 0
        // Each byte comes well within the limit; all of them never would.
        const trickle = setInterval(() => client.send(bytes.subarray(sent, ++sent)), HEAD_MS / 4)
        const text = await client.over()
        clearInterval(trickle)
        assert.match(text, answer)
        assert.ok(performance.now() - since >= HEAD_MS * 0.9)
        assert.ok(sent < bytes.length / 2)
        await until(() => limited.logged().some(({ reason }) => reason === 'head-timeout'))
      })
  })

  test('X17: where nothing is redirected every connection is turned away with a clear line, and forward mode goes on', async (t) => {
    const namespace = await Namespace.open(t)
    const origin = await namespace.listen('127.0.0.1', 0)
    origin.on('connection', (socket) => socket.end('from the origin'))
    t.after(() => void origin.close())
    const statePath = join(tempDir(t), 'state.json')
    writeFileSync(statePath, JSON.stringify([{ ip: '127.0.0.1', id: 'job', allowlist: ['localhost'] }]))
    const desk = openEgressWorkspace(t, { EGRESS_STATE_PATH: statePath }, namespace.inside)
    const lone = await desk.serve('--transparent', '127.0.0.1:0')
    const portOf = (name: string): number => Number(lone.listeners.get(name)?.split(':').at(-1))
    await turnedAway(namespace, '127.0.0.1', portOf('transparent'))
    await until(() => lone.logged().some(({ reason, verdict }) => reason === 'not-redirected' && verdict === 'deny'))
    const { port } = origin.address() as { port: number }
    const client = await namespace.connect('127.0.0.1', portOf('forward'))
    client.write(`CONNECT localhost:${port} HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`)
    let text = ''
    for await (const piece of client) text += piece
    assert.match(text, /^HTTP\/1.1 200 .*from the origin$/s)
  })
})

/** Says which host was asked for. */
function answerTo(request: string): string {
  const body = `you asked ${/^Host: (.*)\r$/m.exec(request)?.[1]}`
  return `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}
