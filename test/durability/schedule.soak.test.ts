// A scheduled slot fires exactly once, with any number of schedulers, kills and clock jumps (P8).
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { groups } from '../../src/core/groups/groups.ts'
import { envelopes } from '../../src/core/messages/envelopes.ts'
import { decodeContent, messages } from '../../src/core/messages/messages.ts'
import { nextRun } from '../../src/core/schedule/schedule.ts'
import { scheduledTasks, taskRunLogs } from '../../src/core/schedule/tasks.ts'
import { type OpenHost, openHost } from '../../src/daemons/process/host.ts'
import { timestamp } from '../../src/lib/clock.ts'
import type { StoreAddress } from '../../src/store/index.ts'
import { type EngineName, freshStore, onEveryEngine } from '../support/host.ts'
import { needs } from '../support/needs.ts'
import { type RepeatableRandom, repeatableRandom } from '../support/repeatable-random.ts'
import { until } from '../support/until.ts'

const CHILD = join(import.meta.dirname, 'schedule-child.ts')
const TASKS = 30
const EVERY_MS = 1000
const SCHEDULERS = 3
const LONG_MS = 6_000
const KILL_EVERY_MS = 2000

interface Slot {
  readonly slot: number
  readonly firedAt: number
}

interface Schedulers {
  readonly host: OpenHost
  /** Kills a scheduler and starts another one. */
  replace(at: number): Promise<void>
  stop(): Promise<void>
}

async function start(t: TestContext, engine: EngineName, mode: string): Promise<Schedulers> {
  const store = await freshStore(t, engine)
  const host = await openHost({ instance: 'test', store, webBase: 'http://localhost' })
  t.after(() => host.close())
  await addTasks(host)
  const began = Date.now()
  const running = await Promise.all(Array.from({ length: SCHEDULERS }, () => startOne(t, mode, store, began)))
  return {
    host,
    replace: async (at) => {
      await kill(running[at])
      running[at] = await startOne(t, mode, store, began)
    },
    stop: async () => {
      await Promise.all(running.map(kill))
    },
  }
}

async function startOne(t: TestContext, mode: string, store: StoreAddress, began: number): Promise<ChildProcess> {
  const child = spawn(process.execPath, [CHILD, mode, JSON.stringify(store), String(began)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.after(() => void child.kill('SIGKILL'))
  const [output] = await Promise.race([once(child.stdout, 'data'), once(child, 'exit')])
  assert.equal(String(output), 'ready\n')
  return child
}

async function kill(child: ChildProcess | undefined): Promise<void> {
  if (!child) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

async function addTasks({ engine }: OpenHost): Promise<void> {
  const now = timestamp(Date.now())
  await engine.transaction(async (tx) => {
    await groups.insert(tx, { folder: 'main', name: 'main', product: 'assistant', open: true, added_at: now })
    for (let at = 0; at < TASKS; at++)
      await scheduledTasks.insert(tx, {
        id: `task-${at}`,
        owner: 'main',
        chat_jid: 'main',
        prompt: 'tick',
        cron: String(EVERY_MS),
        next_run: now,
        status: 'active',
        context_mode: 'group',
        created_at: now,
      })
  })
}

/** The fired slots of each task, in the order of their messages. */
function firedSlots({ engine }: OpenHost): Promise<Map<string, Slot[]>> {
  return engine.read(async (tx) => {
    const logs = new Map((await taskRunLogs.list(tx)).map((log) => [log.id, log]))
    const slots = new Map<string, Slot[]>()
    const stored = await messages.list(tx)
    for (const { seq, id } of stored) {
      const { task_id = '', platform_id = '' } = (await envelopes.find(tx, { message_seq: seq })) ?? {}
      const log = logs.get(id) ?? assert.fail(`${platform_id} has no run log`)
      const slot = { slot: Number(platform_id.split('-').at(-1)), firedAt: Date.parse(log.run_at) }
      slots.set(task_id, [...(slots.get(task_id) ?? []), slot])
    }
    assert.equal(logs.size, stored.length)
    return slots
  })
}

function spanOf(fired: readonly Slot[]): number {
  const times = fired.map(({ slot }) => slot)
  return Math.max(...times) - Math.min(...times)
}

function killRepeatedly(schedulers: Schedulers, by: RepeatableRandom) {
  return async (untilAt: number): Promise<number> => {
    let kills = 0
    while (Date.now() < untilAt) {
      await pause(KILL_EVERY_MS)
      await schedulers.replace(by.below(SCHEDULERS))
      kills++
    }
    return kills
  }
}

onEveryEngine('three schedulers with repeated kills', (engine) => {
  test('fire every slot once and skip only missed slots', async (t) => {
    const schedulers = await start(t, engine, 'real')
    const kills = await killRepeatedly(schedulers, repeatableRandom(t))(Date.now() + LONG_MS)
    // A busy machine may have fired fewer slots by now.
    const { engine: store } = schedulers.host
    await until(async () => (await store.read((tx) => messages.count(tx))) > TASKS * 3)
    await schedulers.stop()
    const slots = await firedSlots(schedulers.host)
    assert.equal(slots.size, TASKS)
    let [fires, missed] = [0, 0]
    for (const fired of slots.values()) {
      fires += fired.length
      for (const [at, { slot, firedAt }] of fired.entries()) {
        assert.ok(firedAt >= slot)
        const next = fired[at + 1]?.slot
        if (next === undefined) continue
        // Missed slots collapse into one.
        assert.equal(timestamp(next), nextRun(String(EVERY_MS), firedAt, 'UTC', slot))
        missed += (next - slot) / EVERY_MS - 1
      }
    }
    t.diagnostic(`${fires} fires and ${missed} missed slots of ${TASKS} tasks, ${kills} kills`)
    const left = await schedulers.host.engine.read((tx) => scheduledTasks.list(tx))
    assert.deepEqual([...new Set(left.map(({ status }) => status))], ['active'])
  })

  test('fire no slot twice when the clock jumps by an hour, and continue at the corrected time', async (t) => {
    const schedulers = await start(t, engine, 'jumping')
    await killRepeatedly(schedulers, repeatableRandom(t))(Date.now() + LONG_MS)
    const wentBack = (times: readonly number[]): boolean =>
      times.some((slot, at) => slot < Math.max(...times.slice(0, at)))
    // How many slots of the hour ahead have fired, and whether any after it, depends on when the schedulers started.
    await until(async () => {
      const fired = [...(await firedSlots(schedulers.host)).values()]
      const isComplete = (slots: (typeof fired)[number]): boolean =>
        spanOf(slots) >= 3_500_000 && wentBack(slots.map(({ slot }) => slot))
      return fired.length === TASKS && fired.every(isComplete)
    })
    await schedulers.stop()
    for (const fired of (await firedSlots(schedulers.host)).values()) {
      const times = fired.map(({ slot }) => slot)
      assert.equal(new Set(times).size, times.length)
    }
  })
})

suite('the scheduler test itself', () => {
  for (const engine of ['sqlite', 'postgres'] as const) {
    test(
      `detects schedulers that read and claim in separate transactions, on ${engine}`,
      engine === 'postgres' ? needs('postgres') : {},
      async (t) => {
        const schedulers = await start(t, engine, 'careless')
        const fired = async (): Promise<string[]> =>
          (await schedulers.host.engine.read((tx) => messages.list(tx))).map(({ content }) => decodeContent(content))
        await until(async () => {
          const all = await fired()
          return [...Map.groupBy(all, (slot) => slot).values()].some((same) => same.length > TASKS)
        })
        await schedulers.stop()
      },
    )
  }
})
