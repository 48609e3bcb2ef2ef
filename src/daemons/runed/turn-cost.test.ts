// Counts the statements of a demo turn, from the message to the end of its round.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { countedEngine, type EngineCounts } from '../../../test/support/counted-engine.ts'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { until } from '../../../test/support/until.ts'
import { type InboxRow, inbox } from '../../core/messages/inbox.ts'
import { rounds } from '../../core/turns/rounds.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'

/** Includes some periodic checks. */
const TURNS = 8
/** On PostgreSQL, locks and notifications are statements too, and a claim does not share the commit of the routing. */
const STATEMENTS_MAX = { sqlite: 68, postgres: 100 }
const TRANSACTIONS_MAX = { sqlite: 5, postgres: 7 }

test('in one process a chat message is stored, routed and claimed by one commit', async (t) => {
  const on = await testHost(t, 'sqlite')
  await on.groups('main')
  const { url } = await on.cli.call(routeTokensResource.verbs.issue_chat, { target_folder: 'main' })
  const served = await serveHost(t, { on, daemons: ['webd', 'routd', 'runed'], settings: { SANDBOX: 'none' } })
  const { engine, signals } = on.host
  /** The turn's row at its first signal. */
  const firstSeen = async (body: string): Promise<InboxRow | undefined> => {
    const seen = Promise.withResolvers<InboxRow[]>()
    const stop = signals.on((keys) => {
      if (keys?.includes('web:main')) seen.resolve(engine.read((tx) => inbox.list(tx)))
    })
    const answer = await fetch(`${served.url('webd')}${new URL(url).pathname}`, { method: 'POST', body })
    const { turn_id } = (await answer.json()) as { turn_id: string }
    const row = (await seen.promise).find(({ id }) => id === turn_id)
    stop()
    await until(async () => (await engine.read((tx) => rounds.find(tx, { id: turn_id })))?.status === 'success')
    return row
  }
  const states: unknown[] = []
  for (let turn = 0; turn < TURNS; turn++) states.push((await firstSeen(`/say ${turn}`))?.state)
  assert.ok(states.includes('running'), JSON.stringify(states))
})

onEveryEngine('a turn of the demo', (engine) => {
  const [statements, transactions] = [STATEMENTS_MAX[engine], TRANSACTIONS_MAX[engine]]

  test(`takes at most ${statements} statements and ${transactions} transactions`, async (t) => {
    const plain = await testHost(t, engine)
    const counts: EngineCounts = { statements: 0, transactions: 0 }
    const on = { ...plain, host: { ...plain.host, engine: countedEngine(plain.host.engine, counts) } }
    await plain.groups('main')
    const { url } = await plain.cli.call(routeTokensResource.verbs.issue_chat, { target_folder: 'main' })
    const served = await serveHost(t, { on, daemons: ['webd', 'routd', 'runed'], settings: { SANDBOX: 'none' } })
    const link = `${served.url('webd')}${new URL(url).pathname}`
    const costOf = async (content: string): Promise<EngineCounts> => {
      Object.assign(counts, { statements: 0, transactions: 0 })
      const answer = await fetch(link, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ content }),
      })
      const { turn_id: id } = (await answer.json()) as { turn_id: string }
      await until(async () => (await plain.host.engine.read((tx) => rounds.find(tx, { id })))?.status === 'success')
      return { ...counts }
    }
    await costOf('/say the first turn starts the demo')
    const costs: EngineCounts[] = []
    for (let turn = 0; turn < TURNS; turn++) costs.push(await costOf(`/say ${turn}`))
    const least = (name: keyof EngineCounts): number => Math.min(...costs.map((cost) => cost[name]))
    const report = JSON.stringify(costs)
    assert.ok(least('statements') <= statements, report)
    assert.ok(least('transactions') <= transactions, report)
  })
})
