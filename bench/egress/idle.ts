// Memory of ten thousand idle tunnels: the growth of the process per tunnel. The memory of the kernel for the sockets is about
// the same for every proxy.
import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchScope } from '../bench-scope.ts'
import { median, type Result } from '../result.ts'
import { residentKiB } from '../server.ts'
import { holdTunnels } from './load.ts'
import { ADDRESSES } from './ours.ts'
import type { Peer } from './peers.ts'
import { type Loader, type Name, openLoader, PEERS } from './proxy-rounds.ts'

const TUNNELS_MAX = 10_000
const FLIGHT = 64
const STARTS = 3
const SETTLE_MS = 1000
const GOAL_KIB = 40
/** Open files of the proxy besides the two of each tunnel. */
const SPARE_FILES = 1000

export async function benchIdle(): Promise<Result[]> {
  const count = Math.min(TUNNELS_MAX, Math.floor((readOpenFileLimit() - SPARE_FILES) / 2))
  const kib: Record<Name, number[]> = { ours: [], squid: [], tinyproxy: [] }
  for (let start = 0; start < STARTS; start++)
    for (const name of ['ours', 'squid', 'tinyproxy'] as const) kib[name].push(await measureGrowth(name, count))
  const [ours, squid, tinyproxy] = [median(kib.ours), median(kib.squid), median(kib.tinyproxy)]
  return [
    {
      name: `idle tunnels: memory of each over ${GOAL_KIB} KiB`,
      ratio: ours / GOAL_KIB,
      goal: 'at most 1.0',
      detail: `${count} tunnels${count < TUNNELS_MAX ? ', limited by the open files' : ''}: ${ours.toFixed(1)} KiB each; squid ${squid.toFixed(1)} KiB, tinyproxy ${tinyproxy.toFixed(1)} KiB and a thread (resident memory of the process)`,
    },
  ]
}

function readOpenFileLimit(): number {
  const limit = execFileSync('sh', ['-c', 'ulimit -n 65536 2>/dev/null; ulimit -H -n'], { encoding: 'utf8' }).trim()
  return limit === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(limit)
}

/** Measures a new process: free memory from an earlier load would hide the growth. */
async function measureGrowth(name: Name, count: number): Promise<number> {
  await using stage = new BenchScope()
  const loader = await openLoader(stage)
  const peer = await PEERS[name](stage.root)
  stage.defer(() => peer.stop())
  // The first tunnels load code and caches.
  await measureWithTunnels(loader, peer, FLIGHT)
  const before = residentKiB({ pid: peer.pid })
  return ((await measureWithTunnels(loader, peer, count)) - before) / count
}

function measureWithTunnels({ origin, program }: Loader, { pid, port }: Peer, count: number): Promise<number> {
  const options = {
    proxy: port,
    sources: ADDRESSES,
    origin: origin.ports('echo'),
    count,
    flight: Math.min(FLIGHT, count),
  }
  return holdTunnels(program, options, async () => {
    await sleep(SETTLE_MS)
    return residentKiB({ pid })
  })
}
