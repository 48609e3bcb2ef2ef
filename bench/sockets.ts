// Ten thousand groups with one socket each: time until all listen, memory of each, and processor time while idle.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { aclMembership } from '../src/core/access/acl.ts'
import { groups } from '../src/core/groups/groups.ts'
import { MEMBER_ROLE } from '../src/core/people/role-membership.ts'
import { defaultTasks } from '../src/core/schedule/default-tasks.ts'
import { nextRun } from '../src/core/schedule/schedule.ts'
import { scheduledTasks } from '../src/core/schedule/tasks.ts'
import type { OpenHost } from '../src/daemons/process/host.ts'
import { timestamp } from '../src/lib/clock.ts'
import { BenchScope } from './bench-scope.ts'
import { openBenchInstance } from './instance.ts'
import { median, type Result } from './result.ts'
import { untilQuiet } from './rounds.ts'
import { cpuOf, residentKiB, type Server } from './server.ts'

const MANY = 10_000
const FEW = 10
const WORLDS = 100
const STARTS = 3
const IDLE_MS = 10_000

interface Cost {
  readonly readyMs: number
  readonly kib: number
  /** Share of one processor used while idle. */
  readonly idle: number
}

export async function benchSockets(): Promise<Result[]> {
  await using scope = new BenchScope()
  const few = await measure(scope, FEW)
  const many = await measure(scope, MANY)
  const kib = (many.kib - few.kib) / (MANY - FEW)
  const allowed = 3 * few.readyMs + 2000
  return [
    {
      name: 'sockets: start to ready with 10,000 groups over three times that with 10, and 2 s',
      ratio: many.readyMs / allowed,
      goal: 'at most 1',
      detail: `${many.readyMs.toFixed(0)} ms; with 10 groups ${few.readyMs.toFixed(0)} ms`,
    },
    {
      name: 'sockets: memory of each of 10,000 groups over 20 KiB',
      ratio: kib / 20,
      goal: 'at most 1',
      detail: `${kib.toFixed(1)} KiB; in all ${(many.kib / 1024).toFixed(0)} MiB, with 10 groups ${(few.kib / 1024).toFixed(0)} MiB`,
    },
    {
      name: 'sockets: part of a processor that 10,000 idle groups take',
      ratio: many.idle,
      goal: 'near 0',
      detail: `${(many.idle * 100).toFixed(2)} %; with 10 groups ${(few.idle * 100).toFixed(2)} %`,
    },
  ]
}

async function measure(scope: BenchScope, count: number): Promise<Cost> {
  const instance = await openBenchInstance(join(scope.root, `${count}`))
  await instance.open((host) => addGroups(host, count))
  const ready: number[] = []
  for (let start = 1; start < STARTS; start++) {
    const { ms, server } = await timed(() => instance.serve())
    ready.push(ms)
    await server.stop()
  }
  const { ms, server } = await timed(() => instance.serve())
  scope.defer(() => server.stop())
  await untilQuiet(server)
  const before = cpuOf(server)
  await sleep(IDLE_MS)
  const idle = (cpuOf(server).all - before.all) / (IDLE_MS * 1000)
  const kib = residentKiB(server)
  await server.stop()
  return { readyMs: median([...ready, ms]), kib, idle }
}

async function timed(serve: () => Promise<Server>): Promise<{ readonly ms: number; readonly server: Server }> {
  const started = performance.now()
  const server = await serve()
  return { ms: performance.now() - started, server }
}

/** Adds groups as `svc group add` does, in one transaction. */
async function addGroups({ engine, clock }: OpenHost, count: number): Promise<void> {
  const [now, zone] = [timestamp(clock.now()), 'UTC']
  await engine.transaction(async (tx) => {
    for (let index = 0; index < count; index++) {
      const world = `w${index % WORLDS}`
      const folder = index < WORLDS ? world : `${world}/g${index}`
      await groups.insertIfMissing(tx, { folder, name: folder, product: 'assistant', open: true, added_at: now })
      if (index >= WORLDS)
        await aclMembership.insertIfMissing(tx, { subject: `folder:${folder}`, role: MEMBER_ROLE, added_at: now })
      for (const task of defaultTasks(folder)) {
        const next_run = nextRun(task.cron, clock.now(), zone)
        await scheduledTasks.insertIfMissing(tx, { ...task, next_run, status: 'active', created_at: now })
      }
    }
  })
}
