// Three networks: a workload, the gateway as its only neighbour, and the outside world. The gateway does not forward packets and
// redirects every TCP connection of the workload to the proxy. Containers and virtual machines use transparent mode like this.
// Rules for local processes (OUTPUT) would need exceptions for the proxy, and a test with exceptions
// proves less.
import { writeFileSync } from 'node:fs'
import type { Server, Socket } from 'node:net'
import { join } from 'node:path'
import { after } from 'node:test'
import { type EgressProcess, openEgressWorkspace } from './egress-process.ts'
import { FakeDns, type ReceivedQuestion } from './fake-dns.ts'
import { Namespace } from './namespace.ts'
import { Peer } from './raw-socket.ts'
import { type CleanupScope, tempDir } from './temp.ts'

export const WORKLOAD = { v4: '10.77.0.2', v6: 'fd00:77::2', unregistered: '10.77.0.3' }
export const GATEWAY = { v4: '10.77.0.1', v6: 'fd00:77::1' }
/** The address of allowed names. */
export const ORIGIN = { v4: '192.0.2.80', v6: '2001:db8::80', secure: '192.0.2.81' }
/** An address that no name resolves to. */
export const ATTACKER = { v4: '203.0.113.5', v6: '2001:db8:bad::5' }
export const NAME_SERVER = '192.0.2.53'
export const TRANSPARENT_PORT = 3127

/** Packets that are counted when they arrive in the outside world. */
const COUNTED = { attacker: ['-d', ATTACKER], workload: ['-s', { v4: '10.77.0.0/24', v6: 'fd00:77::/64' }] } as const

/** For resources that are created in a hook: they live as long as the suite. */
export function suiteCleanup(): CleanupScope {
  const endings: (() => void)[] = []
  after(() => {
    for (const end of endings) end()
  })
  return { after: (work) => void endings.unshift(work) }
}

/** The proxy in the gateway, with the listeners that workloads are redirected to. */
export async function serveWorkloads(
  whole: CleanupScope,
  gateway: Namespace,
  sources: readonly object[],
): Promise<EgressProcess> {
  const statePath = join(tempDir(whole), 'state.json')
  writeFileSync(statePath, JSON.stringify(sources))
  const settings = { EGRESS_STATE_PATH: statePath, EGRESS_DNS_SERVERS: NAME_SERVER }
  const listeners = ['--listen', ':3128', '--transparent', `:${TRANSPARENT_PORT}`]
  return openEgressWorkspace(whole, settings, gateway.inside).serve(...listeners)
}

export interface EgressNetwork {
  readonly workload: Namespace
  readonly gateway: Namespace
  readonly world: Namespace
  readonly dns: FakeDns
  /** Number of IPv4 and IPv6 packets that reached the attacker or came directly from the workload. */
  packets(which: keyof typeof COUNTED): Promise<number>
  /** Connects a client in the workload. */
  client(host: string, port: number, from?: string): Promise<Peer>
  /** A server in the outside world, with its connections. */
  serve(host: string, port: number, answer?: (end: Peer) => void): Promise<Peer[]>
}

export async function openEgressNetwork(t: CleanupScope): Promise<EgressNetwork> {
  const [workload, gateway, world] = await Promise.all([Namespace.open(t), Namespace.open(t), Namespace.open(t)])
  await connectAll(workload, gateway, world)
  await Promise.all([redirect(gateway), count(world)])
  const dns = await serveNames(t, world)
  const client = async (host: string, port: number, from?: string): Promise<Peer> => {
    const socket = await workload.connect(host, port, from)
    t.after(() => socket.destroy())
    return new Peer(socket)
  }
  return {
    workload,
    gateway,
    world,
    dns,
    client,
    packets: (which) => countOf(world, COUNTED[which][1]),
    serve: async (host, port, answer) => record(t, await world.listen(host, port), answer),
  }
}

async function connectAll(workload: Namespace, gateway: Namespace, world: Namespace): Promise<void> {
  await gateway.configure(
    `link add name inner type veth peer name eth netns ${workload.pid}`,
    `link add name outer type veth peer name eth netns ${world.pid}`,
    ...addressed('inner', `${GATEWAY.v4}/24`, `${GATEWAY.v6}/64`),
    ...addressed('outer', '192.0.2.1/24', '2001:db8::1/64'),
  )
  const { v4, v6, unregistered } = WORKLOAD
  await Promise.all([
    workload.configure(
      ...addressed('eth', `${v4}/24`, `${unregistered}/24`, `${v6}/64`),
      `route add default via ${GATEWAY.v4}`,
      `route add ::/0 via ${GATEWAY.v6}`,
    ),
    world.configure(
      ...addressed('eth', `${NAME_SERVER}/24`, `${ORIGIN.v4}/24`, `${ORIGIN.secure}/24`, `${ORIGIN.v6}/64`),
      ...addressed('eth', `${ATTACKER.v4}/32`, `${ATTACKER.v6}/128`),
    ),
  ])
  // The route to the attacker is open, so only the proxy prevents connections.
  await gateway.configure(`route add default via ${ORIGIN.v4}`, `route add ::/0 via ${ORIGIN.v6}`)
  await setForwarding(gateway, false)
}

function addressed(device: string, ...addresses: readonly string[]): string[] {
  // Skip the duplicate address detection of IPv6, which takes seconds.
  const option = (address: string): string => (address.includes(':') ? ' nodad' : '')
  const lines = addresses.map((address) => `address add ${address} dev ${device}${option(address)}`)
  return [...lines, `link set dev ${device} up`]
}

/** Whether the gateway forwards packets. */
export async function setForwarding(gateway: Namespace, isOn: boolean): Promise<void> {
  const paths = ['ipv4/ip_forward', 'ipv6/conf/all/forwarding'].map((path) => `/proc/sys/net/${path}`)
  await gateway.run('sh', '-c', paths.map((path) => `echo ${isOn ? 1 : 0} > ${path}`).join('\n'))
}

async function redirect(gateway: Namespace): Promise<void> {
  const rule = (own: string): string[] => [
    ...['-t', 'nat', '-A', 'PREROUTING', '-i', 'inner', '-p', 'tcp', '!', '-d', own],
    ...['-j', 'REDIRECT', '--to-ports', `${TRANSPARENT_PORT}`],
  ]
  await gateway.run('iptables', ...rule(GATEWAY.v4))
  await gateway.run('ip6tables', ...rule(GATEWAY.v6))
}

/** A rule without an action only counts. */
async function count(world: Namespace): Promise<void> {
  for (const [flag, { v4, v6 }] of Object.values(COUNTED)) {
    await world.run('iptables', '-t', 'raw', '-A', 'PREROUTING', flag, v4)
    await world.run('ip6tables', '-t', 'raw', '-A', 'PREROUTING', flag, v6)
  }
}

async function countOf(world: Namespace, { v4, v6 }: { readonly v4: string; readonly v6: string }): Promise<number> {
  let packets = 0
  for (const [command, address] of [
    ['iptables', v4],
    ['ip6tables', v6],
  ] as const) {
    const rules = await world.run(command, '-t', 'raw', '-L', 'PREROUTING', '-v', '-n', '-x')
    const line = rules.split('\n').find((each) => each.includes(address))
    if (line === undefined) throw new Error(`no rule counts ${address}: ${rules}`)
    packets += Number(line.trim().split(/\s+/)[0])
  }
  return packets
}

async function serveNames(t: CleanupScope, world: Namespace): Promise<FakeDns> {
  const dns = new FakeDns(53)
  const socket = await world.datagrams(NAME_SERVER, 53)
  t.after(() => socket.close())
  const over: ReceivedQuestion['over'] = 'udp'
  socket.on('message', (message, from) =>
    dns.take(message, over, (answer) => socket.send(answer, from.port, from.address)),
  )
  return dns
}

/** Records all connections; `answer` is called for each. */
export function record(t: CleanupScope, server: Server, answer: (end: Peer) => void = () => {}): Peer[] {
  const ends: Peer[] = []
  server.on('connection', (socket: Socket) => {
    const end = new Peer(socket)
    ends.push(end)
    answer(end)
  })
  t.after(() => {
    for (const end of ends) end.socket.destroy()
    server.close()
  })
  return ends
}
