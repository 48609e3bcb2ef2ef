// The allowlist is chosen by the source address of a connection, and applies to every request and to open connections.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { connectPeer, echo, openPeerServer } from '../support/raw-socket.ts'
import { until } from '../support/until.ts'
import {
  ALLOWED,
  connectRequest,
  DENIED,
  getRequest,
  IO_MODES,
  type IoMode,
  type Lab,
  OTHER,
  openHttpOrigin,
  openLab,
  openTcpServer,
} from './lab.ts'

const LONG = { timeout: 15 * 60_000 }

for (const io of IO_MODES) {
  suite(`sources, ${io}`, () => {
    testIdentity(io)
    testChanges(io)
  })
}

function testIdentity(io: IoMode): void {
  test('S1: IPv4 sources on a dual-stack listener match in any registered notation', async (t) => {
    const lab = await openLab(t, { io, host: '::', allowlist: undefined })
    const origin = await openPeerServer(t, { serve: echo })
    for (const ip of ['127.0.0.1', '::ffff:127.0.0.1', '::FFFF:7f00:1']) {
      assert.match(
        await lab.ask(connectRequest(origin.port)),
        /^HTTP\/1.1 403 .*\r\n(.*\r\n)*X-Proxy-Error: unregistered-source\r\n/,
      )
      const entry = await lab.proxy.sources.set({ ip, id: 'job', allowlist: [ALLOWED] })
      assert.equal(entry.ip, '127.0.0.1')
      const client = await lab.tunnel(origin.port)
      client.sendLast('hello')
      assert.equal(await client.over(), 'hello')
      await lab.line({ source: '127.0.0.1', status: 200 })
      assert.equal(await lab.proxy.sources.remove(ip), true)
    }
  })

  test('S2, S5: invalid addresses and lists are refused and change nothing', async (t) => {
    const lab = await openLab(t, { io, admin: [{ host: '127.0.0.1', port: 0 }] })
    const at = lab.proxy.admin[0]
    const register = async (body: unknown): Promise<number> => {
      const options = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }
      return (await fetch(`http://${at?.address}:${at?.port}/v1/register`, options)).status
    }
    const before = lab.proxy.sources.list()
    for (const ip of [
      '010.0.0.5',
      '10.0.0.5 ',
      '10.0.0.5/32',
      'FE80::1%eth0',
      'fe80::1',
      '',
      'localhost',
      '__proto__',
      '10.0.0',
    ])
      assert.equal(await register({ ip, id: 'x', allowlist: [ALLOWED] }), 400, ip)
    for (const allowlist of [undefined, null, ALLOWED, [1], [null], [[ALLOWED]], { 0: ALLOWED }, [ALLOWED, '*']])
      assert.equal(await register({ ip: '127.0.0.1', id: 'x', allowlist }), 400, JSON.stringify(allowlist))
    assert.deepEqual(lab.proxy.sources.list(), before)
    assert.equal(await register({ ip: 'FD80:0::1', id: '__proto__', allowlist: [ALLOWED] }), 200)
    assert.deepEqual(lab.proxy.sources.find('fd80::1')?.id, '__proto__')
  })

  test('S3: an unregistered source reaches nothing and learns nothing about others', async (t) => {
    const lab = await openLab(t, { io, allowlist: undefined })
    await lab.proxy.sources.set({ ip: '127.0.0.9', id: 'secret-job', allowlist: ['secret.test'] })
    const origin = await openHttpOrigin(t)
    for (const request of [connectRequest(origin.port), getRequest(origin.port)]) {
      const answer = await lab.ask(request)
      assert.match(answer, /^HTTP\/1.1 403 .*\r\n(.*\r\n)*X-Proxy-Error: unregistered-source\r\n/)
      assert.doesNotMatch(answer, /secret|127\.0\.0/)
    }
    assert.equal(origin.connections.count, 0)
    assert.deepEqual(lab.dns.asked, [])
  })

  test('S4: an empty list allows nothing', async (t) => {
    const lab = await openLab(t, { io, allowlist: [] })
    const origin = await openHttpOrigin(t)
    for (const request of [connectRequest(origin.port), getRequest(origin.port)])
      assert.match(await lab.ask(request), /^HTTP\/1.1 403 .*\r\n(.*\r\n)*X-Proxy-Error: blocked-by-allowlist\r\n/)
    assert.equal(origin.connections.count, 0)
  })

  test('S6: claimed source addresses are ignored, and no such headers are added', async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openHttpOrigin(t)
    const spoof = 'X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\n'
    const spoofed = getRequest(origin.port).replace('Connection:', `${spoof}Connection:`)
    const from = { from: '127.0.0.2' }
    assert.match(await lab.ask(spoofed, from), /unregistered-source/)
    assert.match(
      await lab.ask(`PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n${getRequest(origin.port)}`, from),
      /^HTTP\/1.1 400 /,
    )
    const binary = Buffer.from('0d0a0d0a000d0a515549540a2111000c7f0000017f00000100010002', 'hex').toString('latin1')
    assert.match(await lab.ask(binary + getRequest(origin.port), from), /^HTTP\/1.1 400 /)
    assert.equal(origin.connections.count, 0)
    await lab.ask(getRequest(origin.port))
    const names = Object.keys(origin.requests[0]?.headers ?? {})
    assert.deepEqual(
      names.filter((name) => /forward|real-ip|client/.test(name)),
      [],
    )
  })

  test('S9: traffic through a relay counts for the workload that relays', async (t) => {
    const lab = await openLab(t, { io, allowlist: undefined })
    await lab.proxy.sources.set({ ip: '127.0.0.2', id: 'relay', allowlist: [OTHER] })
    const origin = await openHttpOrigin(t)
    const relay = await openTcpServer(t, (socket) => {
      void lab.client({ from: '127.0.0.2' }).then((onward) => socket.pipe(onward.socket).pipe(socket))
    })
    const ask = async (request: string): Promise<string> => {
      const client = await connectPeer(t, relay)
      client.send(request)
      return client.over()
    }
    assert.match(await ask(getRequest(origin.port)), /^HTTP\/1.1 403 /)
    assert.match(await ask(getRequest(origin.port, OTHER)), /^HTTP\/1.1 200 /)
    await lab.line({ id: 'relay', source: '127.0.0.2', status: 200 })
  })

  test('a thousand concurrent requests of three sources are each checked against their own list', LONG, async (t) => {
    const lab = await openLab(t, { io, host: '::', allowlist: undefined })
    const origin = await openHttpOrigin(t)
    const sources = [
      { ip: '127.0.0.2', allowlist: [ALLOWED], at: { host: '127.0.0.1', from: '127.0.0.2' } },
      { ip: '127.0.0.3', allowlist: [OTHER], at: { host: '127.0.0.1', from: '127.0.0.3' } },
      { ip: '::1', allowlist: [ALLOWED, OTHER], at: { host: '::1', from: '::1' } },
    ]
    for (const { ip, allowlist } of sources) await lab.proxy.sources.set({ ip, id: `job of ${ip}`, allowlist })
    const names = [ALLOWED, OTHER, DENIED]
    const ask = async (number: number): Promise<void> => {
      const source = sources[number % sources.length]
      const name = names[Math.floor(number / sources.length) % names.length] ?? ''
      const isAllowed = source?.allowlist.includes(name) ?? false
      const request =
        number % 2 === 0 ? getRequest(origin.port, name, `/${source?.ip}/${name}`) : connectRequest(origin.port, name)
      const client = await lab.client(source?.at)
      client.send(request)
      assert.match(await client.says('\r\n\r\n'), isAllowed ? /^HTTP\/1.1 200 / : /^HTTP\/1.1 403 /, request)
      client.socket.destroy()
    }
    let next = 0
    const worker = async (): Promise<void> => {
      while (next < 1000) await ask(next++)
    }
    await Promise.all(Array.from({ length: 24 }, worker))
    const reached = new Set(origin.requests.map(({ url }) => url))
    const expected = sources.flatMap(({ ip, allowlist }) => allowlist.map((name) => `/${ip}/${name}`))
    assert.deepEqual([...reached].sort(), expected.sort())
  })
}

/** Whether the source may open a tunnel now. */
async function mayReach(lab: Lab, port: number, name = ALLOWED): Promise<boolean> {
  const client = await lab.client()
  client.send(connectRequest(port, name))
  const answer = await client.says('\r\n\r\n')
  client.socket.destroy()
  return answer.startsWith('HTTP/1.1 200 ')
}

function testChanges(io: IoMode): void {
  test('a change applies to the next request, also on an open connection', async (t) => {
    const lab = await openLab(t, { io, allowlist: undefined })
    const { sources } = lab.proxy
    const origin = await openHttpOrigin(t)
    const client = await lab.client()
    const request = getRequest(origin.port).replace('Connection: close\r\n', '')
    const steps = [
      { change: () => sources.set({ ip: '127.0.0.1', id: 'a', allowlist: [] }), status: 403 },
      { change: () => sources.set({ ip: '127.0.0.1', id: 'a', allowlist: [ALLOWED] }), status: 200 },
      { change: () => sources.set({ ip: '127.0.0.1', id: 'b', allowlist: [OTHER] }), status: 403 },
      { change: () => sources.set({ ip: '127.0.0.1', id: 'b', allowlist: [OTHER, ALLOWED] }), status: 200 },
      { change: () => sources.remove('127.0.0.1'), status: 403 },
    ]
    const expected: number[] = []
    for (const { change, status } of steps) {
      await change()
      expected.push(status)
      assert.equal(await mayReach(lab, origin.port), status === 200)
      client.send(request)
      await until(() => (client.text.match(/HTTP\/1\.1 /g)?.length ?? 0) === expected.length || client.hasEnded)
      const statuses = [...client.text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, number]) => Number(number))
      assert.deepEqual(statuses, expected)
    }
  })

  test('S7, E24: removing a source ends its tunnels and no others', LONG, async (t) => {
    const lab = await openLab(t, { io })
    await lab.proxy.sources.set({ ip: '127.0.0.2', id: 'job-2', allowlist: [ALLOWED] })
    const origin = await openPeerServer(t, { serve: echo })
    const [mine, yours] = [await lab.tunnel(origin.port), await lab.tunnel(origin.port, { from: '127.0.0.2' })]
    mine.send('before')
    await mine.says('before')
    assert.equal(await lab.proxy.sources.remove('127.0.0.1'), true)
    await mine.closed()
    const line = await lab.line({ reason: 'revoked' })
    assert.deepEqual([line.verdict, line.id, line.bytes_up], ['deny', 'job-1', 6])
    yours.sendLast('alive')
    assert.equal(await yours.over(), 'alive')
    assert.equal(await mayReach(lab, origin.port), false)
    // The next source with this address has only its own list.
    await lab.proxy.sources.set({ ip: '127.0.0.1', id: 'job-3', allowlist: [OTHER] })
    assert.equal(await mayReach(lab, origin.port), false)
    assert.equal(await mayReach(lab, origin.port, OTHER), true)
  })

  test('S8: a smaller list ends only tunnels to removed hosts', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t, { serve: echo })
    const [gone, kept] = [await lab.tunnel(origin.port), await lab.tunnel(origin.port, { name: OTHER })]
    await lab.proxy.sources.set({ ip: '127.0.0.1', id: 'job-1', allowlist: [OTHER] })
    await gone.closed()
    kept.sendLast('alive')
    assert.equal(await kept.over(), 'alive')
    await lab.line({ host: ALLOWED, reason: 'revoked' })
    assert.equal(
      lab.lines.some(({ host, reason }) => host === OTHER && reason === 'revoked'),
      false,
    )
  })

  test('S8: a smaller list also ends transfers, upgraded connections and pending dials', LONG, async (t) => {
    const lab = await openLab(t, { io })
    lab.dns.tell('slow.allowed.test', { silent: true })
    const origin = await openHttpOrigin(t, (_, response) => {
      response.writeHead(200, { 'Content-Length': '1000000' })
      response.write('the beginning')
    })
    const upgrades = await openTcpServer(t, (socket) => {
      socket.once('data', () =>
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello'),
      )
    })
    const transfer = await lab.client()
    transfer.send(getRequest(origin.port))
    await transfer.says('the beginning')
    const upgraded = await lab.client()
    upgraded.send(getRequest(upgrades).replace('Connection: close', 'Connection: upgrade\r\nUpgrade: websocket'))
    await upgraded.says('hello')
    const trying = await lab.client()
    trying.send(connectRequest(443, 'slow.allowed.test'))
    await until(() => lab.dns.count('slow.allowed.test') > 0)
    await lab.proxy.sources.set({ ip: '127.0.0.1', id: 'job-1', allowlist: [OTHER] })
    for (const client of [transfer, upgraded, trying]) await client.closed()
    await until(async () => (await lab.proxy.snapshot()).connections === 0)
    await until(() => lab.lines.filter(({ reason }) => reason === 'revoked').length === 3)
  })
}
