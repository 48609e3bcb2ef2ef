// What looking costs: the decision about a host among many entries, and the reading of a ClientHello.
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
  const entries = Array.from({ length: ENTRIES }, (_, entry) => [addressOf(entry), sourceOf(entry)] as const)
  const sources = new Map<string, CompiledSource>(entries)
  const hello = helloOf('downloads.example.com', HELLO_BYTES)
  return [
    against(
      'decide: from an allowed target in text to the verdict, 10,000 entries of 200 hosts, over 2 µs',
      DECISION_NS,
      deciding(sources, true),
    ),
    { ...against('decide: the same of a denied target', DECISION_NS, deciding(sources, false)), goal: 'none; watched' },
    against('decide: reading a ClientHello of 2 KiB, over 5 µs', HELLO_NS, () => {
      if (new ClientHelloReader().push(hello).kind !== 'hello') throw new Error('the ClientHello was not read')
    }),
  ]
}

function against(name: string, goalNs: number, run: (turn: number) => void): Result {
  const times = Array.from({ length: ROUNDS }, () => nsEach(run)).slice(1)
  const [low, high] = middleHalf(times)
  const ns = median(times)
  const detail = `${ns.toFixed(0)} ns; middle half ${low.toFixed(0)}–${high.toFixed(0)} ns`
  return { name, ratio: ns / goalNs, goal: 'at most 1.0', detail }
}

/** Time on a processor, of this thread: what others do on the machine does not count. */
function nsEach(run: (turn: number) => void): number {
  const [started, before] = [performance.now(), spentMicros()]
  let turns = 0
  for (; performance.now() - started < ROUND_MS; turns += 100) for (let turn = 0; turn < 100; turn++) run(turns + turn)
  return ((spentMicros() - before) * 1000) / turns
}

function spentMicros(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}

/** From the text of a CONNECT's target to the verdict, each time about another source and another of its hosts. */
function deciding(sources: ReadonlyMap<string, CompiledSource>, allowed: boolean): (turn: number) => void {
  const asked = Array.from({ length: ENTRIES }, (_, turn) => {
    const entry = (turn * 7919) % ENTRIES
    const host = `${allowed ? 'eu.' : 'not-'}${hostOf(entry, (turn * 31) % HOSTS)}`
    return { address: addressOf(entry), target: `${host}:443` }
  })
  return (turn) => {
    const { address, target } = asked[turn % ENTRIES] ?? { address: '', target: '' }
    const place = parseAuthority(target)
    if (!place || evaluatePolicy(sources.get(address), place.host).allow !== allowed) throw new Error(`about ${target}`)
  }
}

const addressOf = (entry: number): string => `10.${entry >> 16}.${(entry >> 8) & 255}.${entry & 255}`
const hostOf = (entry: number, host: number): string => `h${host}.group${entry}.example.com`

function sourceOf(entry: number): CompiledSource {
  const allowlist = Array.from({ length: HOSTS }, (_, host) => hostOf(entry, host))
  return compileSource({ ip: addressOf(entry), id: `e${entry}`, allowlist })
}

/** As a browser sends it: the name, a large key share, and padding up to the size. */
function helloOf(name: string, bytes: number): Buffer {
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
