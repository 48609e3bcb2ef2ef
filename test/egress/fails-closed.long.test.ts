// P21: egress fails closed. Every kind of denial is tried with a sink that records all received bytes; a proxy that allows
// everything proves that the sink would notice.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { before, suite, type TestContext, test } from 'node:test'
import { type EgressProxy, startProxy } from '../../src/egress/proxy.ts'
import { openKernel } from '../../src/egress/transport/kernel.ts'
import { clientHello } from '../support/client-hello.ts'
import {
  ATTACKER,
  type EgressNetwork,
  GATEWAY,
  ORIGIN,
  openEgressNetwork,
  serveWorkloads,
  setForwarding,
  suiteCleanup,
  WORKLOAD,
} from '../support/egress-network.ts'
import type { EgressProcess } from '../support/egress-process.ts'
import { type FakeDns, openFakeDns } from '../support/fake-dns.ts'
import { needs } from '../support/needs.ts'
import { rawOrigin } from '../support/raw-http.ts'
import { connectPeer } from '../support/raw-socket.ts'
import { type CleanupScope, tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const SECRET = 'must not get out'
const NAME = 'allowed.test'

/** One kind of denial. */
interface DenialCase {
  /** The requested host. */
  readonly host?: string
  /** The allowlist of the source; without one it is not registered. */
  readonly allowlist?: readonly string[]
  /** The content of the state file, if there is one. */
  readonly state?: string
  readonly denyPrivate?: boolean
  readonly dnsMs?: number
  /** Sent into the tunnel instead of the secret. */
  readonly hello?: Buffer
  /** Runs before the first connection. */
  prepare?(proxy: EgressProxy): Promise<unknown>
  readonly reason: string
}

const LISTED = { allowlist: [NAME] }
const REGISTRY = JSON.stringify([{ ip: '127.0.0.1', id: 'job', allowlist: [NAME] }])

const CASES: Record<string, DenialCase> = {
  'an unregistered source': { reason: 'unregistered-source' },
  'a source that is no longer registered': {
    ...LISTED,
    prepare: ({ sources }) => sources.remove('127.0.0.1'),
    reason: 'unregistered-source',
  },
  'an empty list': { allowlist: [], reason: 'blocked-by-allowlist' },
  'a host that is not listed': { ...LISTED, host: 'denied.test', reason: 'blocked-by-allowlist' },
  'a host whose name ends with a listed one': { ...LISTED, host: `not${NAME}`, reason: 'blocked-by-allowlist' },
  'a host whose name starts with a listed one': {
    ...LISTED,
    host: `${NAME}.evil.test`,
    reason: 'blocked-by-allowlist',
  },
  'a state file that is not JSON': { state: 'not { JSON', reason: 'unregistered-source' },
  'a truncated state file': { state: REGISTRY.slice(0, -4), reason: 'unregistered-source' },
  'an empty state file': { state: '', reason: 'unregistered-source' },
  'a state file of another shape': { state: `{"entries":${REGISTRY}}`, reason: 'unregistered-source' },
  // None of these proxies has an admin listener: its absence must not allow anything.
  'a host that is not in the state file, without an admin listener': {
    ...{ state: REGISTRY, host: 'denied.test' },
    reason: 'blocked-by-allowlist',
  },
  'a name that does not exist': { ...LISTED, host: `gone.${NAME}`, reason: 'dns-error' },
  'a failing name server': { ...LISTED, host: `failing.${NAME}`, reason: 'dns-error' },
  'a silent name server': { ...LISTED, host: `silent.${NAME}`, dnsMs: 300, reason: 'dns-timeout' },
  'a name without addresses': { ...LISTED, host: `bare.${NAME}`, reason: 'dns-error' },
  'an IP address': { ...LISTED, host: '127.0.0.1', reason: 'ip-literal' },
  'an IP address as one number': { ...LISTED, host: '2130706433', reason: 'ip-literal' },
  'an IP address in hexadecimal': { ...LISTED, host: '0x7f.1', reason: 'ip-literal' },
  'an IPv4-mapped IPv6 address': { ...LISTED, host: '[::ffff:127.0.0.1]', reason: 'ip-literal' },
  'a private address of a listed name': { ...LISTED, denyPrivate: true, reason: 'destination-ip-prohibited' },
  'another name in the TLS hello': { ...LISTED, hello: clientHello({ sni: 'denied.test' }), reason: 'sni-denied' },
  'an unreadable TLS hello': {
    ...LISTED,
    hello: clientHello({ sni: NAME, messageType: 2 }),
    reason: 'sni-unreadable',
  },
}

type Form = 'CONNECT' | 'GET'

function formsOf({ hello }: DenialCase): readonly Form[] {
  return hello ? ['CONNECT'] : ['CONNECT', 'GET']
}

/** What reached the sink. */
interface Leak {
  readonly connections: number
  readonly bytes: number
}

/** Requests the host from the proxy on this port and sends the secret at once. */
async function attempt(t: TestContext, port: number, form: Form, tried: DenialCase): Promise<Leak> {
  const sink = await rawOrigin(t, ({ socket }) => {
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\n\r\n'))
    socket.once('end', () => socket.end())
  })
  const client = await connectPeer(t, port)
  const authority = `${tried.host ?? NAME}:${sink.port}`
  const target = form === 'CONNECT' ? authority : `http://${authority}/${encodeURIComponent(SECRET)}`
  client.send(`${form} ${target} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`)
  client.send(tried.hello ?? SECRET)
  client.socket.end()
  await client.over()
  const bytes = sink.peers.reduce((sum, end) => sum + end.received, 0)
  return { connections: sink.peers.length, bytes }
}

async function openNames(t: CleanupScope): Promise<FakeDns> {
  const dns = await openFakeDns(t)
  for (const name of [NAME, 'denied.test', `not${NAME}`, `${NAME}.evil.test`])
    dns.tell(name, { addresses: ['127.0.0.1'] })
  dns.tell(`failing.${NAME}`, { rcode: 'SERVFAIL' })
  dns.tell(`silent.${NAME}`, { silent: true })
  dns.tell(`bare.${NAME}`, {})
  return dns
}

interface RunningProxy {
  readonly port: number
  logged(): Record<string, unknown>[]
  close(): Promise<void>
}

async function open(t: TestContext, dns: FakeDns, io: 'epoll' | 'net', tried: DenialCase): Promise<RunningProxy> {
  const statePath = join(tempDir(t), 'state.json')
  if (tried.state !== undefined) writeFileSync(statePath, tried.state)
  let log = ''
  const proxy = await startProxy({
    listen: { host: '127.0.0.1', port: 0 },
    ...(tried.state !== undefined && { statePath }),
    denyPrivate: tried.denyPrivate,
    dns: { servers: [dns.server] },
    limits: { drainMs: 0, ...(tried.dnsMs !== undefined && { dnsMs: tried.dnsMs }) },
    io,
    log: (lines) => {
      log += lines
    },
  })
  t.after(() => proxy.close())
  if (tried.allowlist) await proxy.sources.set({ ip: '127.0.0.1', id: 'job', allowlist: tried.allowlist })
  await tried.prepare?.(proxy)
  const logged = () => log.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
  return { port: proxy.forward?.port ?? 0, logged, close: () => proxy.close() }
}

/** A proxy without rules: forwards everything to the requested port of this machine. */
async function openRelay(t: TestContext): Promise<number> {
  const sockets: Socket[] = []
  const relay = createServer({ allowHalfOpen: true }, (client) => {
    sockets.push(client)
    client.once('data', (head: Buffer) => {
      const [, method, port] = /^(\w+) \S*?:(\d+)(?:\/\S*)? HTTP/.exec(head.toString('latin1')) ?? []
      const server = connect({ port: Number(port), host: '127.0.0.1', allowHalfOpen: true })
      sockets.push(server)
      if (method === 'CONNECT') client.write('HTTP/1.1 200 OK\r\n\r\n')
      server.write(method === 'CONNECT' ? head.subarray(head.indexOf('\r\n\r\n') + 4) : head)
      client.pipe(server).pipe(client)
    })
  })
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    relay.close()
  })
  relay.listen(0, '127.0.0.1')
  await once(relay, 'listening')
  const at = relay.address()
  if (at === null || typeof at === 'string') throw new Error('a listener without a port')
  return at.port
}

const IO_MODES = openKernel() ? (['epoll', 'net'] as const) : (['net'] as const)

// Concurrent, because each test mostly waits for the log.
suite('P21: egress fails closed', { concurrency: 4 }, () => {
  for (const io of IO_MODES)
    for (const [what, tried] of Object.entries(CASES))
      test(`${what}: nothing reaches the host, and the log has the reason (${io})`, async (t) => {
        const dns = await openNames(t)
        const proxy = await open(t, dns, io, tried)
        const forms = formsOf(tried)
        for (const form of forms) {
          const { connections, bytes } = await attempt(t, proxy.port, form, tried)
          // A hello is checked after the dial; none of its bytes is forwarded.
          assert.deepEqual({ connections, bytes }, { connections: tried.hello ? 1 : 0, bytes: 0 }, form)
        }
        const isLogged = (form: Form): boolean =>
          proxy.logged().some(({ mode, reason, verdict, bytes_up }) => {
            const isSameRequest = mode === (form === 'CONNECT' ? 'connect' : 'http') && reason === tried.reason
            return isSameRequest && verdict !== 'allow' && bytes_up === 0
          })
        await until(() => forms.every(isLogged))
        if (tried.state !== undefined && tried.state !== REGISTRY)
          assert.ok(proxy.logged().some(({ level, msg }) => level === 'warn' && `${msg}`.includes('state')))
      })

  for (const io of IO_MODES)
    test(`control: allowed requests reach the host (${io})`, async (t) => {
      const dns = await openNames(t)
      for (const tried of [
        { ...LISTED, reason: '' },
        { state: REGISTRY, reason: '' },
      ])
        for (const form of ['CONNECT', 'GET'] as const) {
          const { port } = await open(t, dns, io, tried)
          const { connections, bytes } = await attempt(t, port, form, tried)
          assert.ok(connections === 1 && bytes >= SECRET.length, `${form}: ${connections} connections, ${bytes} bytes`)
        }
    })

  test('control: every case detects a proxy that allows everything', async (t) => {
    const port = await openRelay(t)
    for (const [what, tried] of Object.entries(CASES))
      for (const form of formsOf(tried)) assert.ok((await attempt(t, port, form, tried)).bytes > 0, `${what}, ${form}`)
  })

  test('a stopped proxy forwards nothing', async (t) => {
    const proxy = await open(t, await openNames(t), 'net', { ...LISTED, reason: '' })
    await proxy.close()
    await assert.rejects(attempt(t, proxy.port, 'CONNECT', { reason: '' }), { code: 'ECONNREFUSED' })
  })
})

suite('P21: a workload whose only neighbour is the proxy', needs('root', 'ip', 'iptables'), () => {
  const whole = suiteCleanup()
  let network: EgressNetwork
  let proxy: EgressProcess
  /** Connections and datagrams that reached the outside. */
  const reached: string[] = []

  before(async () => {
    network = await openEgressNetwork(whole)
    const { serve, world, gateway, dns } = network
    dns.tell(NAME, { addresses: [ORIGIN.v4] })
    for (const host of [ORIGIN.v4, ATTACKER.v4, ATTACKER.v6])
      for (const port of [22, 53, 80, 443, 8443])
        await serve(host, port, ({ socket }) => {
          reached.push(`tcp ${host} ${port}`)
          socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\n\r\n'))
        })
    for (const host of [ATTACKER.v4, ATTACKER.v6])
      for (const port of [53, 443]) {
        const sink = await world.datagrams(host, port)
        sink.on('message', () => reached.push(`udp ${host} ${port}`))
        whole.after(() => sink.close())
      }
    const entries = [WORKLOAD.v4, WORKLOAD.v6].map((ip) => ({ ip, id: 'job', allowlist: [NAME] }))
    proxy = await serveWorkloads(whole, gateway, entries)
  })

  /** Sends these bytes and returns the response, or the error code of the system. */
  const sendTo = async (host: string, port: number, bytes: string | Buffer): Promise<string> => {
    try {
      const client = await network.client(host, port)
      client.send(bytes)
      client.socket.end()
      return (await client.over()) || 'nothing'
    } catch (error) {
      return error instanceof Error ? error.message : assert.fail()
    }
  }
  /** Tries every way past the proxy. */
  const tryAll = async (): Promise<void> => {
    const { workload } = network
    for (const host of [ATTACKER.v4, ATTACKER.v6]) {
      for (const port of [22, 53, 80, 443, 8443]) await sendTo(host, port, SECRET)
      const from = await workload.datagrams(host.includes(':') ? '::' : '0.0.0.0', 0)
      for (const port of [53, 443]) await new Promise((sent) => from.send(SECRET, port, host, sent))
      from.close()
    }
  }
  const request = `GET / HTTP/1.1\r\nHost: ${NAME}\r\nConnection: close\r\n\r\n`

  test('control: allowed requests reach the host', async () => {
    assert.match(await sendTo(ATTACKER.v4, 80, request), /^HTTP\/1.1 200 /)
    assert.deepEqual(reached.splice(0), [`tcp ${ORIGIN.v4} 80`])
  })

  test('E14: other ports are denied', async () => {
    assert.match(await sendTo(ORIGIN.v4, 8443, clientHello({ sni: NAME })), /nothing|ECONNRESET|EPIPE/)
    await until(() => proxy.logged().some(({ reason, port }) => reason === 'port-not-allowed' && port === 8443))
    assert.deepEqual(reached, [])
  })

  test('E28: no packet gets out by IP address, UDP, DNS or IPv6', async () => {
    await tryAll()
    assert.equal(await network.packets('workload'), 0)
    assert.equal(await network.packets('attacker'), 0)
    assert.deepEqual(reached, [])
  })

  test('E29: the workload cannot reach the admin listener', async () => {
    const port = Number(proxy.listeners.get('admin')?.split(':').at(-1))
    for (const host of [GATEWAY.v4, GATEWAY.v6]) assert.equal(await sendTo(host, port, request), 'ECONNREFUSED')
  })

  test('E27: after the proxy is killed every connection is refused and no packet gets out', async () => {
    proxy.child.kill('SIGKILL')
    await proxy.ended()
    for (const host of [ORIGIN.v4, ATTACKER.v4, ATTACKER.v6])
      for (const port of [80, 443]) assert.equal(await sendTo(host, port, request), 'ECONNREFUSED')
    const connect = `CONNECT ${NAME}:443 HTTP/1.1\r\nHost: ${NAME}:443\r\n\r\n`
    assert.equal(await sendTo(GATEWAY.v4, 3128, connect), 'ECONNREFUSED')
    await tryAll()
    assert.equal(await network.packets('workload'), 0)
    assert.deepEqual(reached, [])
  })

  test('control: packets forwarded by the gateway are detected', async () => {
    const { gateway, world } = network
    await gateway.run('iptables', '-t', 'nat', '-F')
    await gateway.run('ip6tables', '-t', 'nat', '-F')
    await world.configure('route add 10.77.0.0/24 via 192.0.2.1', 'route add fd00:77::/64 via 2001:db8::1')
    await setForwarding(gateway, true)
    await tryAll()
    await until(() => new Set(reached).size === 14)
    assert.ok((await network.packets('workload')) > 14)
    assert.ok((await network.packets('attacker')) > 14)
  })
})
