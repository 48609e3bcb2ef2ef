// Soak test: chat messages at a steady rate for a long time, answered by the demo, with all daemons on. Plots processor time
// per message, memory, size of the write-ahead log and latency in bench/out/soak.svg, and compares the end with minute two.
// Run it with `node bin/node.js bench/run.ts soak [<minutes>]`.
import { mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchScope } from './bench-scope.ts'
import { openChats, RATE } from './messages.ts'
import { PacedChats } from './paced-chats.ts'
import { type Panel, plot } from './plot.ts'
import { median, quantile, type Result } from './result.ts'
import { untilQuiet } from './rounds.ts'
import { type Server, useOfTree } from './server.ts'

const SAMPLE_MS = 10_000
const OUT = join(import.meta.dirname, 'out', 'soak.svg')
const WAL_MAX_MIB = 64

interface Sample {
  readonly minute: number
  readonly microsEach: number
  readonly residentMiB: number
  readonly walMiB: number
  readonly p50Ms: number
  readonly p99Ms: number
}

export async function benchSoak(minutes: number): Promise<Result[]> {
  await using scope = new BenchScope()
  const { instance, paths } = await openChats(join(scope.root, 'soak'))
  const svc = await scope.start(instance.serve())
  const chats = new PacedChats(paths.map((path) => `${svc.url}${path}`))
  scope.defer(() => chats.close())
  await untilQuiet(svc)
  const abort = new AbortController()
  const sampling = sample(svc, chats, { wal: `${instance.store}-wal`, signal: abort.signal })
  await chats.run(RATE, minutes * 60)
  abort.abort()
  const samples = await sampling
  mkdirSync(join(OUT, '..'), { recursive: true })
  writeFileSync(OUT, plot(`${RATE} messages a second for ${minutes} minutes`, 'minutes', panelsOf(samples)))
  return compareSamples(samples, minutes)
}

interface SamplingOptions {
  readonly wal: string
  readonly signal: AbortSignal
}

async function sample(svc: Server, chats: PacedChats, { wal, signal }: SamplingOptions): Promise<Sample[]> {
  const samples: Sample[] = []
  const started = performance.now()
  let before = useOfTree(svc)
  for (let n = 1; ; n++) {
    await sleep(Math.max(0, started + n * SAMPLE_MS - performance.now()), undefined, { signal }).catch(() => {})
    if (signal.aborted) return samples
    const [now, latencies] = [useOfTree(svc), chats.take()]
    samples.push({
      minute: (performance.now() - started) / 60_000,
      microsEach: (now.micros - before.micros) / Math.max(1, latencies.length),
      residentMiB: now.residentKiB / 1024,
      walMiB: (statSync(wal, { throwIfNoEntry: false })?.size ?? 0) / 1024 ** 2,
      p50Ms: median(latencies),
      p99Ms: quantile(latencies, 0.99),
    })
    before = now
  }
}

function panelsOf(samples: readonly Sample[]): Panel[] {
  const line = (name: string, figure: (sample: Sample) => number) => ({
    name,
    points: samples.map((sample) => [sample.minute, figure(sample)] as const),
  })
  return [
    { title: 'processor time a message, µs', lines: [line('', ({ microsEach }) => microsEach)] },
    { title: 'memory of all processes, MiB', lines: [line('', ({ residentMiB }) => residentMiB)] },
    { title: 'write-ahead log, MiB', lines: [line('', ({ walMiB }) => walMiB)] },
    {
      title: 'POST to the end of the round, ms',
      lines: [line('p50', ({ p50Ms }) => p50Ms), line('p99', ({ p99Ms }) => p99Ms)],
    },
  ]
}

/** Compares the last fifth, at most five minutes, with minute two, or with the first half of a run under three minutes. */
function compareSamples(samples: readonly Sample[], minutes: number): Result[] {
  const [from, to] = minutes < 3 ? [0, minutes / 2] : [1, 2]
  const early = samples.filter(({ minute }) => minute > from && minute <= to)
  const last = samples.filter(({ minute }) => minute > minutes - Math.min(5, minutes / 5))
  const result = (name: string, unit: string, figure: (sample: Sample) => number): Result => {
    const [before, after] = [median(early.map(figure)), median(last.map(figure))]
    return {
      name: `soak: ${name} in the last minutes over minute two`,
      ratio: after / before,
      goal: 'at most 1.1',
      detail: `${after.toFixed(1)} ${unit}, before ${before.toFixed(1)} ${unit}; ${relative(process.cwd(), OUT)}`,
    }
  }
  const wal = Math.max(...samples.map(({ walMiB }) => walMiB))
  return [
    result('processor time a message', 'µs', ({ microsEach }) => microsEach),
    result('memory', 'MiB', ({ residentMiB }) => residentMiB),
    result('p50 latency', 'ms', ({ p50Ms }) => p50Ms),
    result('p99 latency', 'ms', ({ p99Ms }) => p99Ms),
    {
      name: `soak: largest write-ahead log over ${WAL_MAX_MIB} MiB`,
      ratio: wal / WAL_MAX_MIB,
      goal: 'at most 1',
      detail: `${wal.toFixed(1)} MiB`,
    },
  ]
}
