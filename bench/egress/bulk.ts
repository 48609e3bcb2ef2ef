// Bulk transfer through tunnels: CPU time of the proxy per GB (10⁹ bytes), for downloads and uploads, with one tunnel and many.
import { BenchScope } from '../bench-scope.ts'
import type { Result } from '../result.ts'
import { type Figures, ratioResult, runProxyRounds } from './proxy-rounds.ts'

const BYTES = 1_000_000_000
const MANY_TUNNELS = 16

export function benchDownload(): Promise<Result[]> {
  return benchBulk('download through a tunnel', 'source', { tunnels: 1, up: 0 })
}

export function benchUpload(): Promise<Result[]> {
  return benchBulk('upload through a tunnel', 'sink', { tunnels: 1, up: 1 })
}

export function benchManyDownloads(): Promise<Result[]> {
  return benchBulk(`downloads through ${MANY_TUNNELS} tunnels at once`, 'source', { tunnels: MANY_TUNNELS, up: 0 })
}

async function benchBulk(
  title: string,
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
  const shared = { figure, unit: 'ms/GB' }
  return [
    ratioResult(rounds, {
      name: `${title}: CPU for each GB over squid's`,
      over: ['ours', 'squid'],
      goal: 'at most 0.75',
      ...shared,
    }),
    ratioResult(rounds, {
      name: `${title}: CPU for each GB over tinyproxy's`,
      over: ['ours', 'tinyproxy'],
      goal: 'at most 0.35',
      ...shared,
    }),
  ]
}
