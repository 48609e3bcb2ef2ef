import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChatTools, chatTools, ROOM } from '../../test/support/chat-tools.ts'
import { countedEngine, type EngineCounts } from '../../test/support/counted-engine.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { startTurn } from '../../test/support/turns.ts'
import { costLog, sumSpentToday } from '../core/turns/costs.ts'
import { TurnCost } from '../core/turns/turn-cost.ts'
import { timestamp } from '../lib/clock.ts'
import { costTools } from './cost.ts'

const GOOD = { provider: 'openai', model: 'gpt-5', cost_usd: 0.25 } as const
const rows = ({ host }: ChatTools) => host.engine.read((tx) => costLog.list(tx, {}, [['turn_id', 'asc']]))

onEveryEngine('log_external_cost', (engine) => {
  test('counts against the budget of the folder and records the chat of its turn', async (t) => {
    const here = await chatTools(t, engine, costTools)
    await startTurn(t, here, { folder: 'team', jid: ROOM })
    const tools = await here.tools()
    assert.deepEqual(await tools.call('log_external_cost', { ...GOOD, input_tokens: 100, output_tokens: 20 }), {
      ok: true,
      cents: 25,
    })
    const [row] = await rows(here)
    assert.deepEqual(
      [row?.folder, row?.model, row?.chat_jid, row?.input_tokens, row?.output_tokens, row?.cost_cents],
      ['team', 'openai:gpt-5', ROOM, 100, 20, 25],
    )
    assert.match(row?.turn_id ?? '', /^ext-[0-9a-f]{32}$/)
    const now = timestamp(here.clock.now())
    assert.equal(await here.host.engine.read((tx) => sumSpentToday(tx, 'folder', 'team', now)), 25)
  })

  test('writes what its turn has cost so far, by one more statement; an expired run writes nothing', async (t) => {
    const here = await chatTools(t, engine, costTools)
    const counts: EngineCounts = { statements: 0, transactions: 0 }
    Object.assign(here.host, { engine: countedEngine(here.host.engine, counts) })
    const { id, fence } = await startTurn(t, here, { folder: 'team', jid: ROOM })
    const tools = await here.tools('team', { turn: { id, fence } })
    const cost = new TurnCost({ id, fence })
    here.host.turnCosts.set(id, cost)
    const statementsOf = async (): Promise<number> => {
      counts.statements = 0
      await tools.call('log_external_cost', GOOD)
      return counts.statements
    }
    await statementsOf()
    const idle = await statementsOf()
    const own = async () =>
      (await rows(here)).filter(({ turn_id }) => turn_id === id).map(({ model, cost_cents }) => [model, cost_cents])
    cost.report([{ model: 'm', input: 5, output: 1, cents: 0.2 }])
    assert.equal((await statementsOf()) - idle, 1)
    assert.deepEqual(await own(), [['m', 1]])
    assert.equal((await statementsOf()) - idle, 0)
    here.host.turnCosts.set(id, new TurnCost({ id, fence: fence - 1 }))
    here.host.turnCosts.get(id)?.report([{ model: 'm', input: 5, output: 1, cents: 900 }])
    await tools.call('log_external_cost', GOOD)
    assert.deepEqual(await own(), [['m', 1]])
  })

  test('records identical calls as separate rows', async (t) => {
    const here = await chatTools(t, engine, costTools)
    const tools = await here.tools()
    for (let n = 0; n < 2; n++) await tools.call('log_external_cost', GOOD)
    assert.deepEqual(
      (await rows(here)).map(({ cost_cents, input_tokens, chat_jid }) => [cost_cents, input_tokens, chat_jid]),
      [
        [25, 0, undefined],
        [25, 0, undefined],
      ],
    )
  })

  test('rounds dollars to cents, half a cent up', async (t) => {
    const here = await chatTools(t, engine, costTools)
    const tools = await here.tools()
    for (const [cost_usd, cents] of [
      [0, 0],
      [0.004, 0],
      [0.005, 1],
      [0.0149, 1],
      [1.005, 101],
      [1.004999, 100],
      [0.29, 29],
      [99.999, 10_000],
    ])
      assert.deepEqual(await tools.call('log_external_cost', { ...GOOD, provider: 'other', cost_usd }), {
        ok: true,
        cents,
      })
    assert.equal((await rows(here)).length, 8)
  })

  test('refuses bad arguments by name and records nothing', async (t) => {
    const here = await chatTools(t, engine, costTools)
    const tools = await here.tools()
    for (const [change, why] of [
      [{ provider: 'acme' }, /provider/],
      [{ provider: '' }, /provider/],
      [{ provider: undefined }, /provider/],
      [{ model: '' }, /model/],
      [{ model: undefined }, /model/],
      [{ model: 'a\nb' }, /model/],
      [{ cost_usd: -0.01 }, /cost_usd/],
      [{ cost_usd: 1e308 }, /cost_usd/],
      // NaN becomes null in JSON.
      [{ cost_usd: null }, /cost_usd/],
      [{ cost_usd: '1' }, /cost_usd/],
      [{ cost_usd: undefined }, /cost_usd/],
      [{ input_tokens: -1 }, /input_tokens/],
      [{ output_tokens: 1.5 }, /output_tokens/],
      [{ cents: 5 }, /unknown field "cents"/],
    ] as const)
      assert.match(await tools.refusal('log_external_cost', { ...GOOD, ...change }), why)
    for (const cost_usd of [Number.NaN, Number.POSITIVE_INFINITY])
      assert.ok(!costTools[0]?.input.safeParse({ ...GOOD, cost_usd }).success)
    assert.equal((await rows(here)).length, 0)
  })

  test('refuses more dollars in one call than the limit allows, and records nothing of it', async (t) => {
    const here = await chatTools(t, engine, costTools)
    const tools = await here.tools()
    assert.deepEqual(await tools.call('log_external_cost', { ...GOOD, cost_usd: 100 }), { ok: true, cents: 10_000 })
    assert.match(
      await tools.refusal('log_external_cost', { ...GOOD, cost_usd: 100.01 }),
      /cost_usd must be at most 100 dollars in one call, and is 100\.01/,
    )
    assert.deepEqual(
      (await rows(here)).map(({ cost_cents }) => cost_cents),
      [10_000],
    )
  })

  test('is not listed without a grant, and a rule can deny one provider', async (t) => {
    const here = await chatTools(t, engine, costTools)
    await here.grant('folder:team', 'mcp:log_external_cost', 'team', 'deny', 'provider=codex')
    const tools = await here.tools()
    assert.match(await tools.refusal('log_external_cost', { ...GOOD, provider: 'codex' }), /not permitted/)
    await tools.call('log_external_cost', GOOD)
    await here.groups('team/sub/a', 'team/sub/a/b')
    assert.deepEqual(await (await here.tools('team/sub/a/b')).names(), [])
  })
})
