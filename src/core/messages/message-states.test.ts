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
import { messageStates, readMessageDetails, type StatesRequest } from './message-states.ts'

interface Arriving extends TestHost {
  speaking: Parameters<typeof recordInbound>[1]
  /** A message; without a state, the router has not come to it. */
  arrive(
    content: string,
    row?: { state?: InboxState; folder?: string; reason?: string; turn_id?: string },
  ): Promise<string>
  /** Texts and states, as they are listed. */
  listed(request?: Partial<StatesRequest>): Promise<string[]>
}

async function open(t: TestContext, engine: EngineName): Promise<Arriving> {
  const here = await testHost(t, engine)
  const { host, clock } = here
  const speaking = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
  return {
    ...here,
    speaking,
    arrive: (content, row) =>
      host.engine.transaction(async (tx) => {
        const message = { jid: 'telegram:1', sender: 'telegram:7', content, target_folder: row ? undefined : 'main' }
        const { id, seq } = await recordInbound(tx, speaking, { ...message, reach: 'all' })
        if (!row) return id
        const { state = 'waiting', folder = 'main', reason, turn_id } = row
        const place = { jid: 'telegram:1', topic: '', chat_topic: '', sender: 'telegram:7', verb: 'message' }
        const updated_at = timestamp(clock.now())
        await inbox.insert(tx, { message_seq: seq, id, folder, ...place, state, reason, turn_id, updated_at })
        await run(tx, 'update routing set last_seq = $1 where id = 1', [seq])
        return id
      }),
    listed: async (request = {}) =>
      (await host.engine.read((tx) => messageStates(tx, { limit: 50, ...request }))).map(
        ({ text, state }) => `${text} ${state}`,
      ),
  }
}

onEveryEngine('what became of messages', (engine) => {
  test('lists messages without content, routed or not', async (t) => {
    const { arrive, listed } = await open(t, engine)
    await arrive('', { state: 'answered' })
    await arrive('')
    assert.deepEqual(await listed(), [' answered', ' waiting'])
  })

  test('is listed newest last, the last ones first of all, and what is not routed waits', async (t) => {
    const { arrive, listed } = await open(t, engine)
    await arrive('a', { state: 'answered' })
    await arrive('b', { state: 'failed', folder: 'other', reason: 'it broke' })
    await arrive('c', { state: 'running' })
    await arrive('d')
    assert.deepEqual(await listed(), ['a answered', 'b failed', 'c running', 'd waiting'])
    assert.deepEqual(await listed({ limit: 2 }), ['c running', 'd waiting'])
    assert.deepEqual(await listed({ folder: 'main' }), ['a answered', 'c running', 'd waiting'])
    assert.deepEqual(await listed({ folder: 'other' }), ['b failed'])
    assert.deepEqual(await listed({ state: 'waiting' }), ['d waiting'])
    assert.deepEqual(await listed({ state: 'failed', folder: 'main' }), [])
  })

  test('goes on after one, oldest first, and answers for those that are named', async (t) => {
    const { arrive, listed, host } = await open(t, engine)
    for (const text of ['a', 'b', 'c']) await arrive(text, { state: 'silent' })
    await arrive('d')
    await arrive('e')
    const rows = await host.engine.read((tx) => messageStates(tx, { limit: 50 }))
    const [first = 0, , third = 0, , fifth = 0] = rows.map(({ seq }) => seq)
    assert.deepEqual(await listed({ after: first }), ['b silent', 'c silent', 'd waiting', 'e waiting'])
    assert.deepEqual(await listed({ after: first, limit: 2 }), ['b silent', 'c silent'])
    assert.deepEqual(await listed({ after: third }), ['d waiting', 'e waiting'])
    assert.deepEqual(await listed({ seqs: [first, fifth] }), ['a silent', 'e waiting'])
    assert.deepEqual(await listed({ seqs: [] }), [])
  })

  test('says what was said as text, cut, whatever the bytes were', async (t) => {
    const { arrive, host } = await open(t, engine)
    await arrive('ü'.repeat(700), { state: 'silent' })
    const [message] = await host.engine.read((tx) => messageStates(tx, { limit: 1 }))
    assert.equal(message?.text, 'ü'.repeat(500))
    await arrive(`x${'ü'.repeat(700)}`, { state: 'silent' })
    const [odd] = await host.engine.read((tx) => messageStates(tx, { limit: 1 }))
    assert.equal(odd?.text, `x${'ü'.repeat(499)}`)
  })

  test('of one is told whole: its turn, what was answered and how far that got, what it cost', async (t) => {
    const { arrive, host, speaking, clock } = await open(t, engine)
    const id = await arrive('how much?', { state: 'answered', turn_id: 'turn' })
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
      const said = { jid: 'telegram:1', topic: '', folder: 'main', turn_id: 'turn', content: 'three cents' }
      await recordOutbound(tx, speaking, DEFAULT_TURN_RULES, said)
      await costLog.insert(tx, { ...cost, recorded_at: now })
    })
    const story = (await host.engine.read((tx) => readMessageDetails(tx, id))) ?? assert.fail('no story')
    assert.deepEqual([story.id, story.state, story.text, story.turn?.attempts], [id, 'answered', 'how much?', 2])
    assert.deepEqual(
      story.answers.map(({ kind, state, text, chat }) => [kind, state, text, chat]),
      [['message', 'pending', 'three cents', 'telegram:1']],
    )
    assert.deepEqual(
      story.costs.map(({ model, cost_cents }) => [model, cost_cents]),
      [['m', 3]],
    )
  })

  test('of one that is not routed is that it waits; of one that never arrived, nothing', async (t) => {
    const { arrive, host } = await open(t, engine)
    const id = await arrive('here?')
    const story = (asked: string) => host.engine.read((tx) => readMessageDetails(tx, asked))
    assert.deepEqual([(await story(id))?.state, (await story(id))?.answers], ['waiting', []])
    assert.equal(await story('nobody'), undefined)
  })
})
