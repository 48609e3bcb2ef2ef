// Plain HTTP on keep-alive connections: requests per second and CPU time per request. Tinyproxy does not support keep-alive.
import { BenchScope } from '../bench-scope.ts'
import type { Result } from '../result.ts'
import { ratioResult, runProxyRounds } from './proxy-rounds.ts'

const CONNECTIONS = 32
const BURST_MS = 2000

export async function benchPlainHttp(): Promise<Result[]> {
  await using stage = new BenchScope()
  const rounds = await runProxyRounds(stage, ['ours', 'squid'], 'http', (origin) => ({
    origin: origin.ports('http'),
    flight: CONNECTIONS,
    ms: BURST_MS,
  }))
  return [
    ratioResult(rounds, {
      name: "plain HTTP, kept connections: requests a second over squid's",
      over: ['ours', 'squid'],
      goal: 'at least 1.2',
      figure: ({ count, ms }) => (count * 1000) / ms,
      unit: '/s',
    }),
    ratioResult(rounds, {
      name: "plain HTTP, kept connections: CPU for each request over squid's",
      over: ['ours', 'squid'],
      goal: 'none; watched',
      figure: ({ proxyMs, count }) => (proxyMs * 1000) / count,
      unit: 'µs',
    }),
  ]
}
