// Short tunnels: CPU time of each, and the latency of CONNECT at a fixed rate. Without tinyproxy, whose thread per connection
// would take most of the time.
import { BenchScope } from '../bench-scope.ts'
import type { Result } from '../result.ts'
import { ratioResult, runProxyRounds } from './proxy-rounds.ts'

const COUNT = 6000
const FLIGHT = 32
const RATE = 200
const PACED_COUNT = 1000

/** Each tunnel: connect, CONNECT, echo a ClientHello of 1 KiB, close. */
export async function benchTunnels(): Promise<Result[]> {
  await using stage = new BenchScope()
  const rounds = await runProxyRounds(stage, ['ours', 'squid'], 'tunnels', (origin) => ({
    origin: origin.ports('echo'),
    count: COUNT,
    flight: FLIGHT,
  }))
  return [
    ratioResult(rounds, {
      name: "tunnels: CPU for each over squid's",
      over: ['ours', 'squid'],
      goal: 'at most 1.0',
      figure: ({ proxyMs, count }) => (proxyMs * 1000) / count,
      unit: 'µs',
    }),
    ratioResult(rounds, {
      name: "tunnels: tunnels a second over squid's",
      over: ['ours', 'squid'],
      goal: 'none; watched',
      figure: ({ count, ms }) => (count * 1000) / ms,
      unit: '/s',
    }),
  ]
}

export async function benchConnectLatency(): Promise<Result[]> {
  await using stage = new BenchScope()
  const rounds = await runProxyRounds(stage, ['ours', 'squid'], 'paced', (origin) => ({
    origin: origin.ports('echo'),
    count: PACED_COUNT,
    rate: RATE,
  }))
  return [
    ratioResult(rounds, {
      name: `CONNECT at ${RATE} a second: p99 over squid's`,
      over: ['ours', 'squid'],
      goal: 'at most 1.0',
      figure: ({ p99Ms }) => p99Ms,
      unit: 'ms',
      digits: 2,
    }),
    ratioResult(rounds, {
      name: `CONNECT at ${RATE} a second: p50 over squid's`,
      over: ['ours', 'squid'],
      goal: 'none; watched',
      figure: ({ p50Ms }) => p50Ms,
      unit: 'ms',
      digits: 2,
    }),
  ]
}
