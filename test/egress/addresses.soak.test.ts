// From an allowed name to its addresses: which are refused, which are dialled, and which names are never looked up.
import assert from 'node:assert/strict'
import { networkInterfaces } from 'node:os'
import { suite, test } from 'node:test'
import { addressClassOf } from '../../src/egress/address/address-class.ts'
import { Dialer, type DialFailure, type DialSuccess } from '../../src/egress/connection/dialer.ts'
import { DEFAULT_PROXY_LIMITS } from '../../src/egress/connection/limits.ts'
import { openNodeTransport } from '../../src/egress/transport/node-transport.ts'
import type { TcpTransport } from '../../src/egress/transport/transport.ts'
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
  type LogLine,
  openBlackHole,
  openHttpOrigin,
  openLab,
} from './lab.ts'

const LONG = { timeout: 15 * 60_000 }

for (const io of IO_MODES) {
  suite(`addresses, ${io}`, () => {
    testProhibitedAddresses(io)
    testLookups(io)
    testLoops(io)
    testSchemes(io)
  })
}

/** One address of each range that is not public. */
const PROHIBITED: Readonly<Record<string, string>> = {
  '127.0.0.1': 'loopback',
  '0.0.0.0': 'unspecified',
  '10.1.2.3': 'private',
  '172.31.255.255': 'private',
  '192.168.0.1': 'private',
  '100.64.0.0': 'shared',
  '169.254.1.1': 'link-local',
  '169.254.169.254': 'metadata',
  '168.63.129.16': 'metadata',
  '224.0.0.1': 'multicast',
  '255.255.255.255': 'broadcast',
  '198.18.0.1': 'reserved',
  '::1': 'loopback',
  '::': 'unspecified',
  'fe80::1': 'link-local',
  'fd00::1': 'private',
  'ff02::1': 'multicast',
  '2001:db8::1': 'reserved',
  // D4: IPv4 addresses embedded in IPv6.
  '::ffff:127.0.0.1': 'loopback',
  '::127.0.0.1': 'loopback',
  '64:ff9b::7f00:1': 'loopback',
  '64:ff9b::a9fe:a9fe': 'metadata',
  '2002:7f00:1::': 'loopback',
  '2002:a00:1::': 'private',
  '::ffff:0:10.0.0.1': 'private',
}

function statusOf(answer: string): number {
  return Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])
}

function codeOf(answer: string): string | undefined {
  return /\r\nX-Proxy-Error: (.*)\r\n/.exec(answer)?.[1]
}

function testProhibitedAddresses(io: IoMode): void {
  test(
    'D1, D4, E7: a name with a non-public address is refused, and the response shows only the class of the address',
    LONG,
    async (t) => {
      const lab = await openLab(t, { io, usesDns: true, denyPrivate: true })
      const origin = await openPeerServer(t)
      for (const [at, [address, kind]] of Object.entries(PROHIBITED).entries()) {
        const name = `h${at}.${ALLOWED}`
        lab.dns.tell(name, { addresses: [address] })
        const request = at % 2 === 0 ? connectRequest(origin.port, name) : getRequest(origin.port, name)
        const answer = await lab.ask(request)
        assert.deepEqual([statusOf(answer), codeOf(answer)], [403, 'destination-ip-prohibited'], address)
        assert.match(answer, /\r\nProxy-Status: egress-proxy; error=destination_ip_prohibited\r\n/)
        assert.match(answer.split('\r\n\r\n')[1] ?? '', new RegExp(`: ${kind}\\.`), address)
        if (address.length > 3) assert.ok(!answer.includes(address), answer)
      }
      const isRefusal = ({ reason }: LogLine): boolean => reason === 'destination-ip-prohibited'
      await until(() => lab.lines.filter(isRefusal).length === Object.keys(PROHIBITED).length)
      for (const line of lab.lines) assert.deepEqual([line.verdict, line.address], ['deny', undefined])
      assert.equal(origin.peers.length, 0)
    },
  )

  test('without denyPrivate a name may have a private address', async (t) => {
    const lab = await openLab(t, { io, usesDns: true })
    lab.dns.tell(ALLOWED, { addresses: ['127.0.0.1'] })
    const origin = await openHttpOrigin(t)
    assert.equal(statusOf(await lab.ask(getRequest(origin.port))), 200)
  })

  test('D2, E8: a name is looked up once per connection, and exactly that address is dialled', async (t) => {
    const lab = await openLab(t, { io, usesDns: true })
    const [first, second] = [await openPeerServer(t, { host: '127.0.0.5', serve: echo }), { address: '127.0.0.6' }]
    lab.dns.tell(ALLOWED, (_, nth) => ({ addresses: [nth === 0 ? '127.0.0.5' : second.address], ttl: 0 }))
    const client = await lab.tunnel(first.port)
    client.sendLast('hello')
    assert.equal(await client.over(), 'hello')
    assert.deepEqual([lab.dns.count(ALLOWED, 'A'), lab.dns.count(ALLOWED, 'AAAA')], [1, 1])
    assert.equal((await lab.line({ status: 200 })).address, '127.0.0.5')
  })

  test('D2: a name whose first answer is private is refused, even if the next one is public', async (t) => {
    const lab = await openLab(t, { io, usesDns: true, denyPrivate: true })
    lab.dns.tell(ALLOWED, (_, nth) => ({ addresses: [nth === 0 ? '10.0.0.1' : '192.0.2.1'] }))
    assert.equal(codeOf(await lab.ask(connectRequest(443))), 'destination-ip-prohibited')
    assert.equal(lab.dns.count(ALLOWED, 'A'), 1)
  })
}

function testLookups(io: IoMode): void {
  test('every address has its own timeout, including the last after refusals', LONG, async (t) => {
    const lab = await openLab(t, { io, usesDns: true, limits: { connectMs: 400, dialMs: 100_000 } })
    const hole = await openBlackHole(t)
    // The first address refuses, and the second never answers.
    lab.dns.tell(ALLOWED, { addresses: ['127.0.0.77', '127.0.0.1'] })
    assert.equal(codeOf(await lab.ask(connectRequest(hole))), 'connection-timeout')
  })

  test('when an address does not answer, the next one is tried in parallel', LONG, async (t) => {
    const lab = await openLab(t, { io, usesDns: true, limits: { connectMs: 100_000, dialMs: 100_000 } })
    const hole = await openBlackHole(t)
    const origin = await openPeerServer(t, { host: '127.0.0.78', port: hole, serve: echo })
    lab.dns.tell(ALLOWED, { addresses: ['127.0.0.1', '127.0.0.78'] })
    const client = await lab.tunnel(origin.port)
    client.sendLast('hello')
    assert.equal(await client.over(), 'hello')
    assert.equal((await lab.line({ status: 200 })).address, '127.0.0.78')
  })

  test('D8: a denied name is never looked up', async (t) => {
    const lab = await openLab(t, { io, usesDns: true })
    for (const name of [
      DENIED,
      'secret.data.evil.test',
      '127.0.0.1',
      '[::1]',
      '2130706433',
      '0x7f.1',
      'allowed.test.evil.test',
    ])
      assert.equal(statusOf(await lab.ask(connectRequest(443, name))), 403, name)
    assert.equal(statusOf(await lab.ask(getRequest(80, DENIED))), 403)
    for (const name of ['a b', 'a..b', '[::1%x.allowed.test]', '[allowed.test]', 'x@allowed.test', 'exa%6dple.com'])
      assert.equal(statusOf(await lab.ask(connectRequest(443, name))), 400, name)
    assert.equal(statusOf(await lab.ask(connectRequest(443, ALLOWED), { from: '127.0.0.2' })), 403)
    assert.deepEqual(lab.dns.asked, [])
  })

  test('D9, E9: hanging lookups time out and do not delay other requests', LONG, async (t) => {
    const lab = await openLab(t, { io, usesDns: true, limits: { dnsMs: 2000 } })
    const origin = await openHttpOrigin(t)
    lab.dns.tell(ALLOWED, { addresses: ['127.0.0.1'] })
    const hanging = Array.from({ length: 8 }, (_, at) => `hang${at}.${ALLOWED}`)
    for (const name of hanging) lab.dns.tell(name, { silent: true })
    const answers = hanging.map((name) => lab.ask(connectRequest(443, name)))
    assert.equal(statusOf(await lab.ask(getRequest(origin.port))), 200)
    // None of the others has a response by then.
    assert.equal(lab.lines.filter(({ reason }) => reason === 'dns-timeout').length, 0)
    for (const answer of await Promise.all(answers)) {
      assert.deepEqual([statusOf(answer), codeOf(answer)], [504, 'dns-timeout'])
      assert.match(answer, /error=dns_timeout\r\n/)
    }
  })

  test('D10, E9: handles empty answers, a hundred addresses, aliases, alias loops and a TTL of 0', LONG, async (t) => {
    const lab = await openLab(t, { io, usesDns: true })
    const origin = await openHttpOrigin(t)
    const tell = (label: string, told: Parameters<Lab['dns']['tell']>[1]): string => {
      lab.dns.tell(`${label}.${ALLOWED}`, told)
      return `${label}.${ALLOWED}`
    }
    const many = Array.from({ length: 100 }, (_, at) => `127.0.1.${at}`)
    const good = [
      tell('short', { addresses: ['127.0.0.1'], ttl: 0 }),
      tell('long', { addresses: ['127.0.0.1'], ttl: 2 ** 31 - 1 }),
      // The policy applies to the requested name.
      tell('alias', { cname: DENIED }),
    ]
    lab.dns.tell(DENIED, { addresses: ['127.0.0.1'] })
    for (const name of good) assert.equal(statusOf(await lab.ask(getRequest(origin.port, name))), 200, name)
    const bad = [
      tell('empty', {}),
      tell('circle', { cname: `circle.${ALLOWED}` }),
      tell('broken', { rcode: 'SERVFAIL' }),
      `nobody.${ALLOWED}`,
    ]
    for (const name of bad) {
      const answer = await lab.ask(getRequest(origin.port, name))
      assert.deepEqual([statusOf(answer), codeOf(answer)], [502, 'dns-error'], name)
    }
    assert.equal(
      codeOf(await lab.ask(getRequest(origin.port, tell('many', { addresses: many })))),
      'connection-refused',
    )
  })

  test('D11: a name is looked up as given, without a search domain', async (t) => {
    const lab = await openLab(t, { io, usesDns: true, allowlist: ['intranet'] })
    lab.dns.tell('intranet', { rcode: 'NXDOMAIN' })
    assert.equal(codeOf(await lab.ask(connectRequest(443, 'intranet'))), 'dns-error')
    assert.deepEqual([...new Set(lab.dns.asked.map(({ name }) => name))], ['intranet'])
  })

  test('D12: an address in the hosts file is dialled without a lookup and checked like any other', async (t) => {
    const origin = await openHttpOrigin(t)
    const lab = await openLab(t, { io })
    lab.dns.tell(ALLOWED, { addresses: ['192.0.2.1'] })
    assert.equal(statusOf(await lab.ask(getRequest(origin.port))), 200)
    const { address } = await lab.line({ host: ALLOWED, verdict: 'allow' })
    const strict = await openLab(t, { io, denyPrivate: true })
    assert.equal(codeOf(await strict.ask(getRequest(origin.port))), 'destination-ip-prohibited')
    assert.deepEqual([address, origin.requests.length], ['127.0.0.1', 1])
    assert.deepEqual([...lab.dns.asked, ...strict.dns.asked], [])
  })

  test('D13: any port of an allowed host is allowed and logged', async (t) => {
    const lab = await openLab(t, { io })
    assert.equal(codeOf(await lab.ask(connectRequest(25))), 'connection-refused')
    assert.equal((await lab.line({ port: 25 })).verdict, 'error')
  })
}

function testLoops(io: IoMode): void {
  test('D5, A2: a name with an address of the proxy itself is refused, for any of its ports and addresses', async (t) => {
    const lab = await openLab(t, { io, host: '::', usesDns: true, admin: [{ host: '127.0.0.1', port: 0 }] })
    const own = Object.values(networkInterfaces()).flatMap((all) => all ?? [])
    const addresses = [
      '127.0.0.1',
      '127.9.9.9',
      '0.0.0.0',
      '::1',
      ...own.filter(({ scopeid }) => !scopeid).map(({ address }) => address),
    ]
    for (const [at, address] of addresses.entries()) {
      const name = `own${at}.${ALLOWED}`
      lab.dns.tell(name, { addresses: [address] })
      for (const port of [lab.port, lab.proxy.admin[0]?.port ?? 0]) {
        for (const request of [connectRequest(port, name), getRequest(port, name, '/v1/state')]) {
          const answer = await lab.ask(request)
          assert.deepEqual([statusOf(answer), codeOf(answer)], [502, 'proxy-loop'], address)
        }
      }
    }
  })

  test('D6: a request that has already passed through the proxy is refused', async (t) => {
    const lab = await openLab(t, { io })
    const other = await openLab(t, { io })
    const origin = await openHttpOrigin(t)
    const [, name = ''] = /\r\nVia: 1\.1 (\S+)\r\n/.exec(await lab.ask(getRequest(origin.port))) ?? []
    const around = getRequest(origin.port).replace('Connection:', `Via: 1.0 somebody, 1.1 ${name}\r\nConnection:`)
    assert.equal(codeOf(await lab.ask(around)), 'proxy-loop')
    // Through another proxy: the second request carries a Via of this one.
    const client = await connectPeer(t, lab.port)
    client.send(getRequest(other.port))
    assert.match(await client.over(), /^HTTP\/1\.1 (400|502) /)
    assert.equal(origin.requests.length, 1)
  })

  test('D7: a redirect is passed on and not followed', async (t) => {
    const lab = await openLab(t, { io })
    const location = 'http://169.254.169.254/latest/meta-data/'
    const origin = await openHttpOrigin(t, (_, response) => response.writeHead(302, { location }).end())
    const answer = await lab.ask(getRequest(origin.port))
    assert.equal(statusOf(answer), 302)
    assert.match(answer, /\r\nlocation: http:\/\/169\.254\.169\.254\/latest\/meta-data\/\r\n/i)
    assert.deepEqual([origin.requests.length, lab.dns.asked.length], [1, 0])
    assert.equal(
      lab.lines.some(({ host }) => host === '169.254.169.254'),
      false,
    )
  })
}

function testSchemes(io: IoMode): void {
  test('D14, D15: only http URLs are forwarded; the refusal of https suggests CONNECT', async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t)
    for (const scheme of ['ftp', 'gopher', 'file', 'ws', 'https', 'HTTPS', 'javascript']) {
      const answer = await lab.ask(getRequest(origin.port).replace('GET http:', `GET ${scheme}:`))
      assert.equal(statusOf(answer), 400, scheme)
      if (scheme === 'https') assert.match(answer, /CONNECT/)
    }
    assert.equal(origin.peers.length, 0)
  })
}

/** Records which of these addresses are dialled. */
async function recordDials(
  addresses: readonly string[],
): Promise<{ tried: string[]; result: DialSuccess | DialFailure }> {
  const tried: string[] = []
  const net = openNodeTransport()
  const transport: TcpTransport = {
    ...net,
    connect: ({ address }, owner) => {
      tried.push(address)
      setImmediate(() => owner.closed('ECONNREFUSED'))
      return net.connect({ address: '127.0.0.1', port: 1 }, { ...owner, connected() {}, closed() {} })
    },
  }
  const dialer = new Dialer(transport, { denyPrivate: true, limits: DEFAULT_PROXY_LIMITS }, () => {})
  const result = await new Promise<DialSuccess | DialFailure>((resolve) => {
    dialer.dial('127.0.0.1', { host: { kind: 'name', text: ALLOWED }, port: 443 }, resolve)
    dialer.completeLookup(ALLOWED, { kind: 'addresses', addresses, ttlMs: 1000 })
  })
  return { tried, result }
}

test('D3: only the public addresses of a mixed answer are dialled, in any order', async () => {
  const mixed = ['10.0.0.1', '8.8.8.8', '::1', '64:ff9b::a00:1', '2606:4700::1', '169.254.169.254']
  for (const addresses of [mixed, mixed.toReversed()]) {
    const expected = addresses.filter((address) => addressClassOf(address) === 'public')
    assert.equal(expected.length, 2)
    const { tried, result } = await recordDials(addresses)
    assert.deepEqual(tried, expected)
    assert.deepEqual(result, { code: 'connection-refused' })
  }
})
