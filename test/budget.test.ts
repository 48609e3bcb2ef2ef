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
import { TurnCost } from '../src/core/turns/turn-cost.ts'
import { DEFAULT_TURN_RULES } from '../src/core/turns/turn-rules.ts'
import { endTurn, retryTurn, turns } from '../src/core/turns/turns.ts'
import { timestamp } from '../src/lib/clock.ts'
import type { InstanceHost } from '../src/registry/context.ts'
import { groupsResource } from '../src/resources/groups.ts'
import { usersResource } from '../src/resources/users.ts'
import type { Tx } from '../src/store/engine.ts'
import { countedEngine, type EngineCounts } from './support/counted-engine.ts'
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
  test('reserves 25 % of the unspent amount of the lowest cap, so that several turns run in parallel', async (t) => {
    const { cap, spend, ask, claim, end } = await open(t, engine)
    await cap(100)
    await cap(30, { sub: PERSON })
    await spend(20, { user_sub: PERSON })
    await ask('a', PERSON)
    await ask('b')
    const first = (await claim()) ?? assert.fail('no turn')
    // 10 are left of the person's cap, and 80 of the folder's.
    assert.deepEqual([first.refusal, first.moneyCents, first.turn.user_sub], [undefined, 2, PERSON])
    const second = (await claim()) ?? assert.fail('no turn')
    assert.deepEqual([second.refusal, second.moneyCents, second.turn.user_sub], [undefined, 19, undefined])
    await end(first)
    await end(second)
    await ask('c')
    assert.equal((await claim())?.moneyCents, 20)
  })

  test('reserves whole cents until none is left, and then lets the next turn wait', async (t) => {
    const { cap, ask, claim, end } = await open(t, engine)
    await cap(3)
    for (const topic of ['a', 'b', 'c', 'd']) await ask(topic)
    const first = (await claim()) ?? assert.fail('no turn')
    assert.deepEqual([first.moneyCents, (await claim())?.moneyCents, (await claim())?.moneyCents], [1, 1, 1])
    assert.equal(await claim(), undefined)
    await end(first)
    assert.equal((await claim())?.moneyCents, 1)
  })

  test('lets a turn with nothing left run alone', async (t) => {
    const { cap, spend, ask, claim, end } = await open(t, engine)
    await cap(3)
    await spend(3)
    for (const topic of ['a', 'b']) await ask(topic)
    const first = (await claim()) ?? assert.fail('no turn')
    assert.deepEqual([first.refusal, first.moneyCents], [undefined, 0])
    assert.equal(await claim(), undefined)
    await end(first)
    assert.equal((await claim())?.moneyCents, 0)
  })

  test('does not reserve again what a running turn has already cost', async (t) => {
    const { cap, ask, claim, host } = await open(t, engine)
    await cap(100)
    await ask('a')
    await ask('b')
    const { turn } = (await claim()) ?? assert.fail('no turn')
    const cost = new TurnCost(turn)
    cost.report([{ model: 'm', input: 1, output: 1, cents: 20 }])
    await host.engine.transaction((tx) => cost.book(tx, undefined, timestamp(host.clock.now())))
    // Of 100, 20 are spent and 5 are reserved.
    assert.equal((await claim())?.moneyCents, 18)
  })

  test('counts all spend below a folder, and its cap for all folders below it', async (t) => {
    const { cap, spend, ask, claim, groups, cli } = await open(t, engine)
    await groups('team', 'team/free', 'team/free/deep', 'team-b', 'team.c', 'team0')
    await cap(100, { folder: 'team' })
    await spend(60, { folder: 'team/free/deep' })
    await spend(41, { folder: 'team' })
    for (const folder of ['team-b', 'team.c', 'team0', 'main']) await spend(500, { folder })
    const { spent, status } = await cli.call(groupsResource.verbs.budget, { folder: 'team' })
    assert.deepEqual([spent, status], [101, 'EXHAUSTED'])
    for (const folder of ['team/free', 'team/free/deep', 'team']) {
      await ask('a', 'telegram:7', folder)
      const claimed = await claim()
      assert.deepEqual([claimed?.turn.folder, claimed?.refusal?.includes('the budget of team')], [folder, true])
    }
    for (const folder of ['team-b', 'team.c', 'team0', 'main']) {
      await ask('a', 'telegram:7', folder)
      assert.equal((await claim())?.refusal, undefined)
    }
  })

  test('applies the lowest cap of the folder and those above it, and main is above none', async (t) => {
    const { cap, ask, claim, groups } = await open(t, engine)
    await groups('team', 'team/a', 'team/a/b')
    await cap(1, { folder: 'main' })
    await cap(400, { folder: 'team' })
    await cap(80, { folder: 'team/a' })
    await cap(1000, { folder: 'team/a/b' })
    await ask('x', 'telegram:7', 'team/a/b')
    assert.equal((await claim())?.moneyCents, 20)
  })

  test('does not let the folders below a cap wait for one another', async (t) => {
    const { cap, ask, claim, groups } = await open(t, engine)
    const folders = ['team/a', 'team/b', 'team/c', 'team/d', 'team/e']
    await groups('team', ...folders)
    await cap(10_000, { folder: 'team' })
    for (const folder of folders) await ask('x', 'telegram:7', folder)
    const granted: (number | undefined)[] = []
    for (const _ of folders) granted.push((await claim())?.moneyCents)
    assert.deepEqual(granted, [2500, 1875, 1406, 1054, 791])
    assert.ok(granted.reduce<number>((sum, cents = Number.NaN) => sum + cents, 0) <= 10_000)
  })

  test('a cap that is reserved does not delay folders beside it', async (t) => {
    const { cap, ask, claim, groups } = await open(t, engine)
    await groups('team', 'team/a', 'team/b')
    await cap(1, { folder: 'team' })
    for (const folder of ['team/a', 'team/b', 'other']) await ask('x', 'telegram:7', folder)
    const folders = [(await claim())?.turn.folder, (await claim())?.turn.folder, await claim()]
    assert.deepEqual(folders, ['other', 'team/a', undefined])
  })

  test('runs turns of folders without a cap concurrently', async (t) => {
    const { ask, claim } = await open(t, engine)
    for (const topic of ['a', 'b', 'c']) await ask(topic)
    for (let at = 0; at < 3; at++) assert.equal((await claim())?.turn.money_cents, undefined)
    assert.equal(await claim(), undefined)
  })

  test("reserves a person's budget in all folders and leaves other persons alone", async (t) => {
    const { cap, ask, claim } = await open(t, engine)
    await cap(1, { sub: PERSON })
    await ask('a', PERSON)
    await ask('a', PERSON, 'other')
    await ask('b', 'github:43', 'main')
    assert.deepEqual([(await claim())?.turn.sender, (await claim())?.turn.sender], [PERSON, 'github:43'])
    assert.equal(await claim(), undefined)
  })

  test('refuses a turn when more than the cap is spent, without amounts', async (t) => {
    const { cap, spend, ask, claim } = await open(t, engine)
    await cap(100)
    await spend(101)
    await ask('a')
    const { turn, refusal } = (await claim()) ?? assert.fail('no turn')
    assert.equal(refusal, 'the budget of main for today is spent; it starts again at 2026-01-02 00:00 UTC')
    assert.equal(turn.money_cents, 0)
  })

  test('starts again at 00:00 UTC', async (t) => {
    const { cap, spend, ask, claim, clock } = await open(t, engine)
    await cap(100)
    await spend(101)
    await ask('a')
    clock.advance(86_400_000)
    assert.deepEqual((await claim())?.turn.money_cents, 25)
  })

  test('waits for a turn that began before there was a cap', async (t) => {
    const { cap, ask, claim, end } = await open(t, engine)
    await ask('a')
    await ask('b')
    const before = (await claim()) ?? assert.fail('no turn')
    await cap(100)
    assert.equal(await claim(), undefined)
    await end(before)
    assert.equal((await claim())?.turn.money_cents, 25)
  })

  test('is checked again on a retry, with the cost of the first attempt', async (t) => {
    const { cap, spend, ask, claim, host } = await open(t, engine)
    await cap(100)
    await ask('a')
    const { turn } = (await claim()) ?? assert.fail('no turn')
    await spend(40, { turn_id: turn.id })
    await host.engine.transaction((tx) => retryTurn(tx, turn, 0, 'it broke'))
    const again = (await claim()) ?? assert.fail('no turn')
    assert.deepEqual([again.turn.id, again.moneyCents, again.refusal], [turn.id, 15, undefined])
    // Its limit as a whole.
    assert.equal(again.turn.money_cents, 55)
    await spend(70)
    await host.engine.transaction((tx) => retryTurn(tx, again.turn, 0, 'it broke'))
    assert.match((await claim())?.refusal ?? '', /the budget of main for today is spent/)
  })

  test('counts what a turn had written when its process died', async (t) => {
    const { ask, claim, clock, host, cli } = await open(t, engine)
    await ask('a')
    const first = (await claim()) ?? assert.fail('no turn')
    const now = () => timestamp(host.clock.now())
    const book = (cost: TurnCost): Promise<void> => host.engine.transaction((tx) => cost.book(tx, undefined, now()))
    const died = new TurnCost(first.turn, first.earlierCosts)
    died.report([{ model: 'm', input: 10, output: 1, cents: 0.3 }])
    await book(died)
    clock.advance(LEASE_MS + 1)
    const again = (await claim()) ?? assert.fail('no turn')
    assert.deepEqual([again.turn.id, again.turn.fence], [first.turn.id, 2])
    const cost = new TurnCost(again.turn, again.earlierCosts)
    cost.report([{ model: 'm', input: 20, output: 2, cents: 0.3 }])
    await book(cost)
    await book(cost)
    // The process that seemed dead has lost its turn.
    died.report([{ model: 'm', input: 1000, output: 1000, cents: 1000 }])
    await book(died)
    const [row] = await host.engine.read((tx) => costLog.list(tx))
    assert.deepEqual([row?.input_tokens, row?.output_tokens, row?.cost_cents, row?.microcents], [30, 3, 1, 600_000])
    assert.equal((await cli.call(groupsResource.verbs.budget, { folder: 'main' })).spent, 1)
  })

  test('adds one statement to write the cost of any number of models, and none if nothing has changed', async (t) => {
    const { ask, claim, host } = await open(t, engine)
    await ask('a')
    const { turn } = (await claim()) ?? assert.fail('no turn')
    const counts: EngineCounts = { statements: 0, transactions: 0 }
    const counted = countedEngine(host.engine, counts)
    const cost = new TurnCost(turn)
    const book = async (): Promise<number> => {
      counts.statements = 0
      await counted.transaction((tx) => cost.book(tx, undefined, timestamp(host.clock.now())))
      return counts.statements
    }
    const idle = await book()
    cost.report(['a', 'b', 'c'].map((model) => ({ model, input: 1, output: 1, cents: 0.4 })))
    assert.deepEqual([(await book()) - idle, (await book()) - idle], [1, 0])
    const rows = await host.engine.read((tx) => costLog.list(tx))
    assert.deepEqual(
      rows.map(({ model, cost_cents }) => [model, cost_cents]),
      [
        ['a', 1],
        ['b', 0],
        ['c', 1],
      ],
    )
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
    assert.equal(await notice(), "today's budget is nearly spent; it starts again at 2026-01-02 00:00 UTC")
    assert.equal(await notice(), undefined)
    await spend(80, { user_sub: PERSON, folder: 'other' })
    assert.equal(await notice(), 'your budget for today is nearly spent; it starts again at 2026-01-02 00:00 UTC')
    assert.equal(await notice(), undefined)
    await cap(90)
    assert.match((await notice()) ?? '', /^today's budget is nearly spent;/)
    clock.advance(86_400_000)
    assert.equal(await notice(), undefined)
    await spend(95)
    assert.match((await notice()) ?? '', /^today's budget is spent;/)
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
