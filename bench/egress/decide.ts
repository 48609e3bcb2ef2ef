// CPU time of a policy decision among many entries, and of parsing a ClientHello.
import { randomBytes } from 'node:crypto'
import { parseAuthority } from '../../src/egress/address/host-port.ts'
import { type CompiledSource, compileSource, evaluatePolicy } from '../../src/egress/policy/policy.ts'
import { ClientHelloReader } from '../../src/egress/tls/client-hello.ts'
import { median, middleHalf, type Result } from '../result.ts'

const ENTRIES = 10_000
const HOSTS = 200
const DECISION_NS = 2000
const HELLO_NS = 5000
const HELLO_BYTES = 2048
const ROUNDS = 15
const ROUND_MS = 100

export async function benchDecisions(): Promise<Result[]> {
  const entries = Array.from({ length: ENTRIES }, (_, entry) => [addressOf(entry), createSource(entry)] as const)
  const sources = new Map<string, CompiledSource>(entries)
  const hello = createHello('downloads.example.com', HELLO_BYTES)
  return [
    measureAgainst(
      'decide: from an allowed target in text to the verdict, 10,000 entries of 200 hosts, over 2 µs',
      DECISION_NS,
      createDecision(sources, true),
    ),
    {
      ...measureAgainst('decide: the same of a denied target', DECISION_NS, createDecision(sources, false)),
      goal: 'none; watched',
    },
    measureAgainst('decide: reading a ClientHello of 2 KiB, over 5 µs', HELLO_NS, () => {
      if (new ClientHelloReader().push(hello).kind !== 'hello') throw new Error('the ClientHello was not parsed')
    }),
  ]
}

function measureAgainst(name: string, goalNs: number, run: (turn: number) => void): Result {
  const times = Array.from({ length: ROUNDS }, () => measureNs(run)).slice(1)
  const [low, high] = middleHalf(times)
  const ns = median(times)
  const detail = `${ns.toFixed(0)} ns; middle half ${low.toFixed(0)}–${high.toFixed(0)} ns`
  return { name, ratio: ns / goalNs, goal: 'at most 1.0', detail }
}

/** CPU time of this thread, so that other processes do not count. */
function measureNs(run: (turn: number) => void): number {
  const [started, before] = [performance.now(), readCpuMicros()]
  let turns = 0
  for (; performance.now() - started < ROUND_MS; turns += 100) for (let turn = 0; turn < 100; turn++) run(turns + turn)
  return ((readCpuMicros() - before) * 1000) / turns
}

function readCpuMicros(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}

/** Parses the target of a CONNECT and decides about it, for another source and host each time. */
function createDecision(sources: ReadonlyMap<string, CompiledSource>, isAllowed: boolean): (turn: number) => void {
  const requests = Array.from({ length: ENTRIES }, (_, turn) => {
    const entry = (turn * 7919) % ENTRIES
    const host = `${isAllowed ? 'eu.' : 'not-'}${hostOf(entry, (turn * 31) % HOSTS)}`
    return { address: addressOf(entry), target: `${host}:443` }
  })
  return (turn) => {
    const { address, target } = requests[turn % ENTRIES] ?? { address: '', target: '' }
    const authority = parseAuthority(target)
    if (!authority || evaluatePolicy(sources.get(address), authority.host).allow !== isAllowed)
      throw new Error(`wrong decision about ${target}`)
  }
}

const addressOf = (entry: number): string => `10.${entry >> 16}.${(entry >> 8) & 255}.${entry & 255}`
const hostOf = (entry: number, host: number): string => `h${host}.group${entry}.example.com`

function createSource(entry: number): CompiledSource {
  const allowlist = Array.from({ length: HOSTS }, (_, host) => hostOf(entry, host))
  return compileSource({ ip: addressOf(entry), id: `e${entry}`, allowlist })
}

/** A ClientHello like that of a browser: server name, large key share, padding up to the size. */
function createHello(name: string, bytes: number): Buffer {
  const u16 = (value: number): Buffer => Buffer.from([value >> 8, value & 255])
  const extension = (type: number, body: Buffer): Buffer => Buffer.concat([u16(type), u16(body.length), body])
  const entry = Buffer.concat([Buffer.from([0]), u16(name.length), Buffer.from(name)])
  const serverName = extension(0, Buffer.concat([u16(entry.length), entry]))
  const keyShare = extension(51, Buffer.concat([u16(1220), u16(0x11ec), u16(1216), randomBytes(1216)]))
  const versions = extension(43, Buffer.from([2, 3, 4]))
  const start = Buffer.concat([
    u16(0x0303),
    randomBytes(32),
    Buffer.from([32]),
    randomBytes(32),
    u16(2),
    u16(0x1301),
    Buffer.from([1, 0]),
  ])
  const known = Buffer.concat([versions, keyShare, serverName])
  const padding = extension(21, Buffer.alloc(bytes - 9 - start.length - 2 - known.length - 4))
  const extensions = Buffer.concat([known, padding])
  const message = Buffer.concat([start, u16(extensions.length), extensions])
  const head = Buffer.concat([Buffer.from([1, 0]), u16(message.length)])
  return Buffer.concat([Buffer.from([22, 3, 1]), u16(head.length + message.length), head, message])
}
