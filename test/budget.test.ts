// The budget (docs/decisions.md#budgets): which turns may start, what `svc budget show` prints, and the notices in the chat (P24).
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import fc from 'fast-check'
import { recordInbound } from '../src/core/messages/inbound.ts'
import { inbox } from '../src/core/messages/inbox.ts'
import { checkBudget, takeBudgetNotice } from '../src/core/turns/budget.ts'
import { conversations } from '../src/core/turns/conversations.ts'
import { budgetStatus, costLog, sumSpentToday, users } from '../src/core/turns/costs.ts'
import { type ClaimedTurn, claimTurn } from '../src/core/turns/turn-claim.ts'
import { DEFAULT_TURN_RULES } from '../src/core/turns/turn-rules.ts'
import { endTurn, retryTurn, turns } from '../src/core/turns/turns.ts'
import { timestamp } from '../src/lib/clock.ts'
import type { InstanceHost } from '../src/registry/context.ts'
import { groupsResource } from '../src/resources/groups.ts'
import { usersResource } from '../src/resources/users.ts'
import type { Tx } from '../src/store/engine.ts'
import { type EngineName, freshStore, onEveryEngine, type TestHost, testHost } from './support/host.ts'
import { needs } from './support/needs.ts'
import { run } from './support/sql.ts'

const PERSON = 'github:42'
const RULES = { ...DEFAULT_TURN_RULES, turnsMax: 100, turnsPerFolder: 100 }
const LEASE_MS = 60_000

interface BudgetHost extends TestHost {
  cap(cents: number, who?: { folder?: string; sub?: string }): Promise<void>
  spend(cents: number, row?: { folder?: string; user_sub?: string; turn_id?: string }): Promise<void>
  /** Stores a message that waits for a turn, in its own conversation. */
  ask(topic: string, sender?: string, folder?: string): Promise<void>
  claim(): Promise<ClaimedTurn | undefined>
  end({ turn }: ClaimedTurn): Promise<void>
}

let number = 0

async function open(t: TestContext, engine: EngineName = 'sqlite'): Promise<BudgetHost> {
  const here = await testHost(t, engine)
  await here.groups('main', 'other')
  return { ...here, ...budgetCalls(here) }
}

function budgetCalls({ host, cli }: TestHost): Omit<BudgetHost, keyof TestHost> {
  const now = () => timestamp(host.clock.now())
  return {
    cap: async (daily, { folder = 'main', sub } = {}) => {
      if (sub === undefined) await cli.call(groupsResource.verbs.set_budget, { folder, daily })
      else await cli.call(usersResource.verbs.set_budget, { sub, daily })
    },
    spend: (cents, row = {}) => host.engine.transaction((tx) => addCost(tx, now(), cents, row)),
    ask: (topic, sender = 'telegram:7', folder = 'main') =>
      host.engine.transaction((tx) => addWaiting(tx, host, { folder, topic, sender })),
    claim: () => host.engine.transaction((tx) => claimTurn(tx, RULES, { now: host.clock.now(), leaseMs: LEASE_MS })),
    end: async ({ turn, refusal }) => {
      const context = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
      const outcome = refusal === undefined ? ('answered' as const) : ('refused' as const)
      await host.engine.transaction((tx) => endTurn(tx, context, RULES, turn, { outcome, reason: refusal }))
    },
  }
}

async function addCost(
  tx: Tx,
  recorded_at: string,
  cost_cents: number,
  {
    folder = 'main',
    user_sub,
    turn_id = `spent-${++number}`,
  }: { folder?: string; user_sub?: string; turn_id?: string },
): Promise<void> {
  const tokens = { input_tokens: 1, output_tokens: 1 }
  await costLog.insert(tx, { folder, turn_id, model: 'm', user_sub, ...tokens, cost_cents, recorded_at })
}

interface WaitingMessage {
  readonly folder: string
  readonly topic: string
  readonly sender: string
}

async function addWaiting(tx: Tx, host: InstanceHost, { folder, topic, sender }: WaitingMessage): Promise<void> {
  const context = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
  const updated_at = timestamp(host.clock.now())
  const { id, seq } = await recordInbound(tx, context, { jid: 'telegram:1', sender, content: 'hello', reach: 'all' })
  const chat = { jid: 'telegram:1', chat_topic: '', verb: 'message', state: 'waiting' as const }
  await inbox.insert(tx, { message_seq: seq, id, folder, topic, sender, ...chat, updated_at })
  await conversations.insertIfMissing(tx, { folder, topic, waiting: 0, observed_seq: 0, updated_at })
  await run(tx, 'update conversations set waiting = waiting + 1 where folder = $1 and topic = $2', [folder, topic])
}

onEveryEngine('the budget gate', (engine) => {
  test('reserves the rest of the lower cap for one turn, and the next turn under that cap waits', async (t) => {
    const { cap, spend, ask, claim, end } = await open(t, engine)
    await cap(100)
    await cap(30, { sub: PERSON })
    await spend(20, { user_sub: PERSON })
    await ask('a', PERSON)
    await ask('b')
    const first = (await claim()) ?? assert.fail('no turn')
    assert.deepEqual([first.refusal, first.turn.money_cents, first.turn.user_sub], [undefined, 10, PERSON])
    assert.equal(await claim(), undefined)
    await end(first)
    const second = (await claim()) ?? assert.fail('no turn')
    assert.deepEqual([second.refusal, second.turn.money_cents, second.turn.user_sub], [undefined, 80, undefined])
  })

  test('runs turns of folders without a cap concurrently', async (t) => {
    const { ask, claim } = await open(t, engine)
    for (const topic of ['a', 'b', 'c']) await ask(topic)
    for (let at = 0; at < 3; at++) assert.equal((await claim())?.turn.money_cents, undefined)
    assert.equal(await claim(), undefined)
  })

  test("reserves a person's budget in all folders and leaves other persons alone", async (t) => {
    const { cap, ask, claim } = await open(t, engine)
    await cap(30, { sub: PERSON })
    await ask('a', PERSON)
    await ask('a', PERSON, 'other')
    await ask('b', 'github:43', 'main')
    assert.deepEqual([(await claim())?.turn.sender, (await claim())?.turn.sender], [PERSON, 'github:43'])
    assert.equal(await claim(), undefined)
  })

  test('refuses a turn when more than the cap is spent, with the text for the chat', async (t) => {
    const { cap, spend, ask, claim } = await open(t, engine)
    await cap(100)
    await spend(101)
    await ask('a')
    assert.equal((await claim())?.refusal, "today's budget is spent (101 of 100 cents); it resets at 00:00 UTC")
  })

  test('starts again at 00:00 UTC', async (t) => {
    const { cap, spend, ask, claim, clock } = await open(t, engine)
    await cap(100)
    await spend(101)
    await ask('a')
    clock.advance(86_400_000)
    assert.deepEqual((await claim())?.turn.money_cents, 100)
  })

  test('waits for a turn that began before there was a cap', async (t) => {
    const { cap, ask, claim, end } = await open(t, engine)
    await ask('a')
    await ask('b')
    const before = (await claim()) ?? assert.fail('no turn')
    await cap(100)
    assert.equal(await claim(), undefined)
    await end(before)
    assert.equal((await claim())?.turn.money_cents, 100)
  })

  test('is checked again on a retry, with the cost of the first attempt', async (t) => {
    const { cap, spend, ask, claim, host } = await open(t, engine)
    await cap(100)
    await ask('a')
    const { turn } = (await claim()) ?? assert.fail('no turn')
    await spend(40, { turn_id: turn.id })
    await host.engine.transaction((tx) => retryTurn(tx, turn, 0, 'it broke'))
    const again = (await claim()) ?? assert.fail('no turn')
    assert.deepEqual([again.turn.id, again.turn.money_cents, again.refusal], [turn.id, 60, undefined])
    await spend(70)
    await host.engine.transaction((tx) => retryTurn(tx, again.turn, 0, 'it broke'))
    assert.match((await claim())?.refusal ?? '', /is spent \(110 of 100 cents\)/)
  })

  test('starts no turn when it cannot read the costs', async (t) => {
    const { cap, ask, claim, host } = await open(t, engine)
    await cap(100)
    await ask('a')
    await host.engine.transaction((tx) => run(tx, 'drop table daily_costs'))
    await assert.rejects(claim())
    assert.deepEqual(await host.engine.read((tx) => turns.list(tx)), [])
  })

  test('applies no cap to senders without an account or without a row', async (t) => {
    const { host, clock } = await open(t, engine)
    // Stored before such caps were refused.
    await host.engine.transaction((tx) => users.insert(tx, { sub: 'telegram:7', cost_cap_cents_per_day: 1 }))
    for (const sender of ['telegram:7', 'github:unknown', 'timed', 'delegate']) {
      const now = timestamp(clock.now())
      const allowance = await host.engine.read((tx) => checkBudget(tx, { folder: 'main', sender, now }))
      assert.deepEqual([allowance.kind, 'money_cents' in allowance], ['granted', false])
    }
  })

  test('reports a nearly spent cap to the chat once per day and cap', async (t) => {
    const { cap, spend, ask, claim, end, host, clock } = await open(t, engine)
    await cap(100)
    await cap(200, { sub: PERSON })
    await ask('a', PERSON)
    const { turn, ...rest } = (await claim()) ?? assert.fail('no turn')
    const notice = () => host.engine.transaction((tx) => takeBudgetNotice(tx, turn, timestamp(clock.now())))
    await spend(79, { user_sub: PERSON })
    assert.equal(await notice(), undefined)
    await spend(1, { user_sub: PERSON })
    assert.equal(await notice(), "today's budget is nearly spent (80 of 100 cents); it resets at 00:00 UTC")
    assert.equal(await notice(), undefined)
    await spend(80, { user_sub: PERSON, folder: 'other' })
    assert.equal(await notice(), 'your budget for today is nearly spent (160 of 200 cents); it resets at 00:00 UTC')
    assert.equal(await notice(), undefined)
    await cap(90)
    assert.match((await notice()) ?? '', /^today's budget is nearly spent \(80 of 90 cents\)/)
    clock.advance(86_400_000)
    assert.equal(await notice(), undefined)
    await spend(95)
    assert.match((await notice()) ?? '', /^today's budget is spent \(95 of 90 cents\)/)
    await end({ turn, ...rest })
  })
})

test('EXHAUSTED is shown exactly when a turn is refused, for any costs and caps', async (t) => {
  const { cap, spend, cli, ask, claim, end, host } = await open(t)
  const cents = fc.integer({ min: 0, max: 50 })
  const capped = fc.option(fc.integer({ min: 1, max: 50 }), { nil: 0 })
  await fc.assert(
    fc.asyncProperty(cents, cents, capped, capped, fc.boolean(), async (mine, others, folderCap, userCap, isPerson) => {
      await host.engine.transaction((tx) => run(tx, 'delete from cost_log'))
      await spend(mine, { user_sub: PERSON })
      await spend(others)
      await cap(folderCap)
      await cap(userCap, { sub: PERSON })
      const folder = await cli.call(groupsResource.verbs.budget, { folder: 'main' })
      const user = await cli.call(usersResource.verbs.budget, { sub: PERSON })
      assert.deepEqual([folder.spent, user.spent], [mine + others, mine])
      await ask('a', isPerson ? PERSON : 'telegram:7')
      const claimed = (await claim()) ?? assert.fail('no turn')
      const isShown = folder.status === 'EXHAUSTED' || (isPerson && user.status === 'EXHAUSTED')
      assert.equal(claimed.refusal !== undefined, isShown)
      await end(claimed)
    }),
    { numRuns: 60 },
  )
})

const CAP = 100
const COST = 10
const TURNS = 12
const CLAIMERS = 4

onEveryEngine('concurrent turns with one cent left', (engine) => {
  test('P24: exceed the cap by one turn at most; later turns are refused and the status is EXHAUSTED', async (t) => {
    const store = await freshStore(t, engine)
    const first = await testHost(t, engine, store)
    await first.groups('main')
    const { cap, spend, ask } = budgetCalls(first)
    await cap(CAP)
    await spend(CAP - 1)
    for (let at = 0; at < TURNS; at++) await ask(`topic ${at}`)
    const others = await Promise.all(Array.from({ length: CLAIMERS - 1 }, () => testHost(t, engine, store)))
    const outcomes: string[] = []
    const work = async (here: TestHost): Promise<void> => {
      const { claim, end } = budgetCalls(here)
      while (outcomes.length < TURNS) {
        const claimed = await claim()
        if (!claimed) {
          await pause(5)
          continue
        }
        if (claimed.refusal === undefined) {
          assert.equal(claimed.turn.money_cents, 1)
          await pause(30)
          const now = timestamp(here.host.clock.now())
          await here.host.engine.transaction((tx) => addCost(tx, now, COST, { turn_id: claimed.turn.id }))
        }
        await end(claimed)
        outcomes.push(claimed.refusal === undefined ? 'ran' : 'refused')
      }
    }
    await Promise.all([first, ...others].map(work))
    // Sorted, because a refused turn can finish before the turn that ran.
    assert.deepEqual(outcomes.sort(), ['ran', ...Array(TURNS - 1).fill('refused')])
    const { spent, status } = await first.cli.call(groupsResource.verbs.budget, { folder: 'main' })
    assert.deepEqual([spent, status], [CAP - 1 + COST, 'EXHAUSTED'])
  })
})

suite('the race test itself', () => {
  for (const engine of ['sqlite', 'postgres'] as const) {
    const wants = engine === 'postgres' ? needs('postgres') : {}
    test(`detects a gate that reserves nothing, on ${engine}`, wants, async (t) => {
      const { host, spend } = await open(t, engine)
      await spend(CAP - 1)
      const now = timestamp(host.clock.now())
      const spent = () => host.engine.read((tx) => sumSpentToday(tx, 'folder', 'main', now))
      const turn = async (): Promise<void> => {
        if (budgetStatus(await spent(), CAP) === 'EXHAUSTED') return
        await pause(30)
        await spend(COST)
      }
      await Promise.all(Array.from({ length: TURNS }, turn))
      assert.ok((await spent()) > CAP + COST)
    })
  }
})
