import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { run } from '../../../test/support/sql.ts'
import { timestamp } from '../../lib/clock.ts'
import { recordOutbound } from '../delivery/outbox.ts'
import { costLog } from '../turns/costs.ts'
import { DEFAULT_TURN_RULES } from '../turns/turn-rules.ts'
import { type Turn, turns } from '../turns/turns.ts'
import { recordInbound } from './inbound.ts'
import { type InboxState, inbox } from './inbox.ts'
import { listMessageStates, readMessageDetails, type StatesRequest } from './message-states.ts'

interface StatesHost extends TestHost {
  writeContext: Parameters<typeof recordInbound>[1]
  /** Records a message; without `row` it is not routed. */
  receive(
    content: string,
    row?: { state?: InboxState; folder?: string; reason?: string; turn_id?: string },
  ): Promise<string>
  /** Texts and states of the listed messages. */
  list(request?: Partial<StatesRequest>): Promise<string[]>
}

async function open(t: TestContext, engine: EngineName): Promise<StatesHost> {
  const here = await testHost(t, engine)
  const { host, clock } = here
  const writeContext = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
  return {
    ...here,
    writeContext,
    receive: (content, row) =>
      host.engine.transaction(async (tx) => {
        const message = { jid: 'telegram:1', sender: 'telegram:7', content, target_folder: row ? undefined : 'main' }
        const { id, seq } = await recordInbound(tx, writeContext, { ...message, reach: 'all' })
        if (!row) return id
        const { state = 'waiting', folder = 'main', reason, turn_id } = row
        const place = { jid: 'telegram:1', topic: '', chat_topic: '', sender: 'telegram:7', verb: 'message' }
        const updated_at = timestamp(clock.now())
        await inbox.insert(tx, { message_seq: seq, id, folder, ...place, state, reason, turn_id, updated_at })
        await run(tx, 'update routing set last_seq = $1 where id = 1', [seq])
        return id
      }),
    list: async (request = {}) =>
      (await host.engine.read((tx) => listMessageStates(tx, { limit: 50, ...request }))).map(
        ({ text, state }) => `${text} ${state}`,
      ),
  }
}

onEveryEngine('states of messages', (engine) => {
  test('lists messages without content, routed or not', async (t) => {
    const { receive, list } = await open(t, engine)
    await receive('', { state: 'answered' })
    await receive('')
    assert.deepEqual(await list(), [' answered', ' waiting'])
  })

  test('lists the newest messages, oldest first, with unrouted messages as waiting', async (t) => {
    const { receive, list } = await open(t, engine)
    await receive('a', { state: 'answered' })
    await receive('b', { state: 'failed', folder: 'other', reason: 'it broke' })
    await receive('c', { state: 'running' })
    await receive('d')
    assert.deepEqual(await list(), ['a answered', 'b failed', 'c running', 'd waiting'])
    assert.deepEqual(await list({ limit: 2 }), ['c running', 'd waiting'])
    assert.deepEqual(await list({ folder: 'main' }), ['a answered', 'c running', 'd waiting'])
    assert.deepEqual(await list({ folder: 'other' }), ['b failed'])
    assert.deepEqual(await list({ state: 'waiting' }), ['d waiting'])
    assert.deepEqual(await list({ state: 'failed', folder: 'main' }), [])
  })

  test('lists the messages after a given one, and given messages', async (t) => {
    const { receive, list, host } = await open(t, engine)
    for (const text of ['a', 'b', 'c']) await receive(text, { state: 'silent' })
    await receive('d')
    await receive('e')
    const rows = await host.engine.read((tx) => listMessageStates(tx, { limit: 50 }))
    const [first = 0, , third = 0, , fifth = 0] = rows.map(({ seq }) => seq)
    assert.deepEqual(await list({ after: first }), ['b silent', 'c silent', 'd waiting', 'e waiting'])
    assert.deepEqual(await list({ after: first, limit: 2 }), ['b silent', 'c silent'])
    assert.deepEqual(await list({ after: third }), ['d waiting', 'e waiting'])
    assert.deepEqual(await list({ seqs: [first, fifth] }), ['a silent', 'e waiting'])
    assert.deepEqual(await list({ seqs: [] }), [])
  })

  test('cuts long texts at a character', async (t) => {
    const { receive, host } = await open(t, engine)
    await receive('ü'.repeat(700), { state: 'silent' })
    const [message] = await host.engine.read((tx) => listMessageStates(tx, { limit: 1 }))
    assert.equal(message?.text, 'ü'.repeat(500))
    await receive(`x${'ü'.repeat(700)}`, { state: 'silent' })
    const [odd] = await host.engine.read((tx) => listMessageStates(tx, { limit: 1 }))
    assert.equal(odd?.text, `x${'ü'.repeat(499)}`)
  })

  test('shows the turn, the answers and the costs of a message', async (t) => {
    const { receive, host, writeContext, clock } = await open(t, engine)
    const id = await receive('how much?', { state: 'answered', turn_id: 'turn' })
    const now = timestamp(clock.now())
    const turn: Turn = {
      ...{ id: 'turn', folder: 'main', topic: '', jid: 'telegram:1', chat_topic: '', sender: 'telegram:7' },
      ...{ first_seq: 1, last_seq: 1, message_count: 1, state: 'running', attempts: 2, fence: 2, leased_until: 0 },
      ...{
        run_after: 0,
        replies: 0,
        depth: 0,
        is_isolated: false,
        is_timed: false,
        is_guest: false,
        is_stopping: false,
      },
      started_at: now,
    }
    const cost = { folder: 'main', turn_id: 'turn', model: 'm', input_tokens: 10, output_tokens: 20, cost_cents: 3 }
    await host.engine.transaction(async (tx) => {
      await turns.insert(tx, turn)
      const out = { jid: 'telegram:1', topic: '', folder: 'main', turn_id: 'turn', content: 'three cents' }
      await recordOutbound(tx, writeContext, DEFAULT_TURN_RULES, out)
      await costLog.insert(tx, { ...cost, recorded_at: now })
    })
    const details = (await host.engine.read((tx) => readMessageDetails(tx, id))) ?? assert.fail('no details')
    assert.deepEqual(
      [details.id, details.state, details.text, details.turn?.attempts],
      [id, 'answered', 'how much?', 2],
    )
    assert.deepEqual(
      details.answers.map(({ kind, state, text, chat }) => [kind, state, text, chat]),
      [['message', 'pending', 'three cents', 'telegram:1']],
    )
    assert.deepEqual(
      details.costs.map(({ model, cost_cents }) => [model, cost_cents]),
      [['m', 3]],
    )
  })

  test('shows an unrouted message as waiting and nothing for an unknown id', async (t) => {
    const { receive, host } = await open(t, engine)
    const id = await receive('here?')
    const details = (of: string) => host.engine.read((tx) => readMessageDetails(tx, of))
    assert.deepEqual([(await details(id))?.state, (await details(id))?.answers], ['waiting', []])
    assert.equal(await details('nobody'), undefined)
  })
})
