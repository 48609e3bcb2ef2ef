// Idle cost of an instance: memory and processor time of `svc serve` with all daemons on.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchScope } from './bench-scope.ts'
import { openBenchInstance } from './instance.ts'
import { median, type Result } from './result.ts'
import { untilQuiet } from './rounds.ts'
import { cpuOf, residentKiB, useOfTree } from './server.ts'

const IDLE_MS = 60_000
/** V8 collects the garbage of the start after 20 idle seconds; memory is stable from then on. */
const SETTLE_MS = 30_000
const SAMPLES = 6
const GOAL_MB = 120
const GOAL_CPU = 0.003

export async function benchIdle(): Promise<Result[]> {
  await using scope = new BenchScope()
  const instance = await openBenchInstance(join(scope.root, 'idle'))
  // The first start compiles and caches the code, including modules loaded after `ready`. A single module that is not
  // cached makes Node load the TypeScript compiler, which permanently takes 25 MB.
  const first = await instance.serve()
  await untilQuiet(first)
  await first.stop()
  const svc = await scope.start(instance.serve())
  await untilQuiet(svc)
  await sleep(SETTLE_MS)
  const [before, started] = [cpuOf(svc).all, performance.now()]
  const sizes: number[] = []
  for (let sample = 0; sample < SAMPLES; sample++) {
    await sleep(IDLE_MS / SAMPLES)
    sizes.push((residentKiB(svc) * 1024) / 1e6)
  }
  const cpu = (cpuOf(svc).all - before) / ((performance.now() - started) * 1000)
  const children = (useOfTree(svc).residentKiB * 1024) / 1e6 - (sizes.at(-1) ?? 0)
  return [
    {
      name: `idle: memory over ${GOAL_MB} MB`,
      ratio: median(sizes) / GOAL_MB,
      goal: 'at most 1',
      detail: `${median(sizes).toFixed(0)} MB; agents that wait for a turn ${children.toFixed(0)} MB besides`,
    },
    {
      name: `idle: processor time over ${(GOAL_CPU * 100).toFixed(1)} % of a core`,
      ratio: cpu / GOAL_CPU,
      goal: 'at most 1',
      detail: `${(cpu * 100).toFixed(2)} % over ${IDLE_MS / 1000} s`,
    },
  ]
}
