// Rates of tasks that run once: of those that people's turns schedule, and of chains of tasks that schedule tasks.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { AGENT_LIMITS, type AgentLimits } from '../src/core/access/agent-limits.ts'
import type { Reach } from '../src/core/access/reach.ts'
import { lockMessageOrder } from '../src/core/messages/messages.ts'
import { fireDueTasks } from '../src/core/schedule/task-firing.ts'
import { leaseDueTasks } from '../src/core/schedule/task-leases.ts'
import { removeUnusedRates, taskRates } from '../src/core/schedule/task-rates.ts'
import type { Turn } from '../src/core/turns/turns.ts'
import { routeBatch } from '../src/daemons/routd/router.ts'
import { timestamp } from '../src/lib/clock.ts'
import { Refusal } from '../src/lib/refusal.ts'
import { callVerb } from '../src/registry/call.ts'
import { routesResource } from '../src/resources/routes.ts'
import { scheduledTasksResource } from '../src/resources/scheduled-tasks.ts'
import { type ConversationHost, openConversationHost } from './support/conversation-host.ts'
import { agent, type EngineName, onEveryEngine } from './support/host.ts'
import { run } from './support/sql.ts'

const { schedule, delete: cancel } = scheduledTasksResource.verbs
const MINUTE = 60_000
const BURST = 10

interface ScheduleOptions {
  readonly jid?: string
  readonly cron?: string
  readonly reach?: Reach
}

interface RateTest extends ConversationHost {
  /** A turn that a person started. */
  personTurn(jid?: string): Promise<Turn>
  add(turn: Turn, options?: ScheduleOptions): Promise<{ taskId: string; runsAt?: string | undefined }>
  /** Fires due tasks and returns their number. */
  fire(): Promise<number>
  /** Turns of tasks that have fired; each is ended. */
  taskTurns(during?: (turn: Turn) => Promise<void>): Promise<number>
}

async function open(t: TestContext, engine: EngineName, limits: Partial<AgentLimits> = {}): Promise<RateTest> {
  const on = await openConversationHost(t, engine)
  const { host, clock } = on
  await on.groups('main', 'team')
  Object.assign(host, { limits: { ...AGENT_LIMITS, ...limits } })
  await on.cli.call(routesResource.verbs.create, { match: 'platform=telegram', target: 'team' })
  await on.write((tx) => run(tx, 'delete from scheduled_tasks'))
  const firing = { dialect: host.engine.dialect, clock, random: host.random, timeZone: 'UTC' }
  const countRuns = async (): Promise<number> => {
    const { rows } = await on.read((tx) => run(tx, 'select count(*) as count from task_run_logs'))
    return Number(rows[0]?.count)
  }
  let number = 0
  return {
    ...on,
    personTurn: async (jid = 'web:team') => {
      await on.ask('schedule it', { folder: 'team', jid, conversation: jid, reach: 'chat' })
      const { turn } = await on.mustClaim({ turnsMax: 1000, turnsPerFolder: 1000 })
      return turn
    },
    add: (turn, { jid = turn.jid, cron, reach = 'chat' } = {}) => {
      const request = { host, caller: agent('team'), face: 'tool', reach, turn: { id: turn.id, fence: turn.fence } }
      const input = { targetJid: jid, prompt: `look ${number++}`, ...(cron === undefined ? {} : { cron }) }
      return callVerb({ ...request, face: 'tool' }, schedule, input)
    },
    fire: async () => {
      const before = await countRuns()
      for (let count = 1; count > 0; ) ({ count } = await on.write((tx) => fireDueTasks(tx, firing, 100)))
      return (await countRuns()) - before
    },
    taskTurns: async (during) => {
      for (let isMore = true; isMore; )
        ({ isMore } = await on.write((tx) => routeBatch(tx, { host, assistantName: 'svc' })))
      for (let count = 0; ; count++) {
        const claimed = await on.claim({ turnsMax: 1000, turnsPerFolder: 1000 })
        if (!claimed) return count
        assert.ok(claimed.turn.is_timed)
        await during?.(claimed.turn)
        await on.end(claimed.turn)
      }
    },
  }
}

onEveryEngine('the rate of tasks that run once', (engine) => {
  test(`lets a person's turn run ${BURST} tasks at once, and one more each minute`, async (t) => {
    const { personTurn, add, fire, clock } = await open(t, engine)
    const turn = await personTurn()
    const start = clock.now()
    const delays = []
    for (let count = 0; count < BURST + 2; count++) delays.push((await add(turn)).runsAt)
    assert.deepEqual(delays.slice(0, BURST), Array(BURST).fill(undefined))
    assert.deepEqual(delays.slice(BURST), [timestamp(start + MINUTE), timestamp(start + 2 * MINUTE)])
    assert.equal(await fire(), BURST)
    clock.advance(MINUTE - 1)
    assert.equal(await fire(), 0)
    clock.advance(1)
    assert.equal(await fire(), 1)
    clock.advance(MINUTE - 1)
    assert.equal(await fire(), 0)
    clock.advance(1)
    assert.equal(await fire(), 1)
  })

  test('is the same for times in the past and soon, and tasks for later do not delay others', async (t) => {
    const { personTurn, add, fire, clock } = await open(t, engine)
    const turn = await personTurn()
    const [start, tomorrow] = [clock.now(), clock.now() + 24 * 60 * MINUTE]
    for (let count = 0; count < BURST; count++) {
      await add(turn, { cron: timestamp(tomorrow) })
      assert.equal((await add(turn, { cron: timestamp(start - MINUTE + count) })).runsAt, undefined)
    }
    assert.equal((await add(turn, { cron: timestamp(start + 1) })).runsAt, timestamp(start + MINUTE))
    assert.equal(await fire(), BURST)
    clock.advance(tomorrow - start - 1)
    assert.equal(await fire(), 1)
    clock.advance(1)
    // One of the burst was used a millisecond ago.
    assert.equal(await fire(), BURST - 1)
    clock.advance(MINUTE)
    assert.equal(await fire(), 1)
  })

  test('does not let a chain of tasks run faster than one a minute, however many each of them schedules', async (t) => {
    const { personTurn, add, end, fire, taskTurns, clock } = await open(t, engine)
    const branch = async (turn: Turn): Promise<void> => {
      for (let count = 0; count < 2; count++)
        await add(turn).catch((error) => assert.ok(error instanceof Refusal && /active tasks/.test(error.message)))
    }
    const first = await personTurn()
    await branch(first)
    await end(first)
    let turns = 0
    const [minutes, step] = [10, 5000]
    for (let time = 0; time <= minutes * MINUTE; time += step) {
      await fire()
      turns += await taskTurns(branch)
      // Tasks for now that were scheduled meanwhile.
      await fire()
      turns += await taskTurns(branch)
      clock.advance(step)
    }
    // Two of the person's turn, then one at once and one a minute.
    assert.equal(turns, 2 + 1 + minutes)
  })

  test('tells the turn of a task when its task runs, and cancelling does not make it faster', async (t) => {
    const { personTurn, add, as, end, fire, taskTurns, clock } = await open(t, engine)
    const first = await personTurn()
    await add(first)
    await end(first)
    await fire()
    const start = clock.now()
    const seen: unknown[] = []
    await taskTurns(async (turn) => {
      const { taskId, runsAt } = await add(turn)
      seen.push(runsAt)
      await fire()
      await as(agent('team')).call(cancel, { id: taskId })
      seen.push((await add(turn)).runsAt)
    })
    assert.deepEqual(seen, [undefined, timestamp(start + MINUTE)])
    assert.equal(await fire(), 0)
  })

  test('belongs to a chat at reach chat, and to the folder for tasks of a chain with a larger reach', async (t) => {
    const { personTurn, add, end, fire, taskTurns, clock } = await open(t, engine)
    const [one, other] = [await personTurn('telegram:1'), await personTurn('telegram:2')]
    for (const turn of [one, other])
      for (let count = 0; count < BURST; count++) assert.equal((await add(turn)).runsAt, undefined)
    for (const turn of [one, other]) assert.notEqual((await add(turn)).runsAt, undefined)
    for (const turn of [one, other]) await end(turn)
    assert.equal(await fire(), 2 * BURST)
    const delays: (string | undefined)[] = []
    let isFirst = true
    await taskTurns(async (turn) => {
      if (!isFirst) return
      isFirst = false
      for (const jid of ['telegram:3', 'telegram:4', 'telegram:5'])
        delays.push((await add(turn, { jid, reach: 'all' })).runsAt)
      delays.push((await add(turn)).runsAt)
    })
    const now = clock.now()
    assert.deepEqual(delays, [undefined, timestamp(now + MINUTE), timestamp(now + 2 * MINUTE), undefined])
  })

  test('counts a turn that another agent started like one of a task', async (t) => {
    const { personTurn, add, delegate, mustClaim } = await open(t, engine)
    await delegate(await personTurn())
    const { turn } = await mustClaim({ turnsMax: 1000, turnsPerFolder: 1000 })
    const options = { jid: 'web:team', reach: 'all' } as const
    assert.equal((await add(turn, options)).runsAt, undefined)
    assert.notEqual((await add(turn, options)).runsAt, undefined)
  })

  test('also applies to schedulers that lease tasks', async (t) => {
    const { personTurn, add, write, clock, host } = await open(t, engine)
    const turn = await personTurn()
    for (let count = 0; count < BURST; count++) await add(turn)
    // As if they had been scheduled by an older version, all for now.
    for (let count = 0; count < 2; count++) await add(turn)
    await write((tx) => run(tx, `update scheduled_tasks set next_run = '${timestamp(clock.now())}'`))
    const lease = () =>
      write(async (tx) => {
        await lockMessageOrder(tx, host.engine.dialect)
        return (await leaseDueTasks(tx, { now: clock.now(), forMs: 10 * MINUTE, limit: 100 })).length
      })
    assert.equal(await lease(), BURST)
    assert.equal(await lease(), 0)
    clock.advance(MINUTE)
    assert.equal(await lease(), 1)
  })

  test('does not apply to the command line, nor with an interval of 0', async (t) => {
    const unlimited = await open(t, engine, { taskIntervalMs: 0 })
    const turn = await unlimited.personTurn()
    for (let count = 0; count < 2 * BURST; count++) await unlimited.add(turn)
    assert.equal(await unlimited.fire(), 2 * BURST)
    const { cli, fire } = await open(t, engine)
    for (let count = 0; count < 2 * BURST; count++)
      await cli.call(schedule, { targetJid: 'web:team', prompt: `look ${count}` })
    assert.equal(await fire(), 2 * BURST)
  })

  test('is forgotten when it is unused, and does not stop tasks after the clock was set back', async (t) => {
    const { personTurn, add, fire, read, write, clock } = await open(t, engine)
    const turn = await personTurn()
    for (let count = 0; count < BURST; count++) await add(turn)
    assert.equal(await fire(), BURST)
    clock.advance(-24 * 60 * MINUTE)
    await add(turn)
    clock.advance(MINUTE)
    assert.equal(await fire(), 1)
    clock.advance(MINUTE - 1)
    await write((tx) => removeUnusedRates(tx, clock.now()))
    assert.equal((await read((tx) => taskRates.list(tx))).length, 1)
    clock.advance(1)
    await write((tx) => removeUnusedRates(tx, clock.now()))
    assert.equal((await read((tx) => taskRates.list(tx))).length, 0)
  })
})
