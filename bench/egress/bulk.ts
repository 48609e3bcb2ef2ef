// Bytes through tunnels: processor time of the proxy for each GB (10⁹ bytes), down and up, in one tunnel and in many.

import { BenchScope } from '../bench-scope.ts'
import type { Result } from '../result.ts'
import { type Figures, ratioResult, runProxyRounds } from './proxy-rounds.ts'

const BYTES = 1_000_000_000
const MANY = 16

export function benchDownload(): Promise<Result[]> {
  return benchBulk('download through a tunnel', 'source', { tunnels: 1, up: 0 })
}

export function benchUpload(): Promise<Result[]> {
  return benchBulk('upload through a tunnel', 'sink', { tunnels: 1, up: 1 })
}

export function benchManyDownloads(): Promise<Result[]> {
  return benchBulk(`downloads through ${MANY} tunnels at once`, 'source', { tunnels: MANY, up: 0 })
}

async function benchBulk(
  what: string,
  kind: string,
  { tunnels, up }: { readonly tunnels: number; readonly up: number },
): Promise<Result[]> {
  await using stage = new BenchScope()
  const rounds = await runProxyRounds(stage, ['ours', 'squid', 'tinyproxy'], 'bulk', (origin) => ({
    origin: origin.ports(kind),
    bytes: BYTES,
    tunnels,
    up,
  }))
  const figure = ({ proxyMs, bytes }: Figures): number => proxyMs / (bytes / 1e9)
  const about = { figure, unit: 'ms/GB' }
  return [
    ratioResult(rounds, {
      name: `${what}: CPU for each GB over squid's`,
      over: ['ours', 'squid'],
      goal: 'at most 0.75',
      ...about,
    }),
    ratioResult(rounds, {
      name: `${what}: CPU for each GB over tinyproxy's`,
      over: ['ours', 'tinyproxy'],
      goal: 'at most 0.35',
      ...about,
    }),
  ]
}
