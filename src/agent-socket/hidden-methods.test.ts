// submit_turn and submit_status.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { openGatedHost } from '../../test/support/gated-host.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { run } from '../../test/support/sql.ts'
import { outbox } from '../core/delivery/outbox.ts'
import { messages } from '../core/messages/messages.ts'
import { conversations } from '../core/turns/conversations.ts'
import { costLog } from '../core/turns/costs.ts'

onEveryEngine('submit_turn', (engine) => {
  test('sends the result to the chat and stores session and cost, once', async (t) => {
    const s = await openGatedHost(t, { engine })
    const id = await s.ask()
    const { turn } = await s.mustClaim()
    const tools = await s.open('main', { turn: turn.id, fence: turn.fence })
    const submission = {
      turn_id: turn.id,
      session_id: 's1',
      status: 'success',
      result: '<think>hm</think>forty-two',
      models: { small: { input: 10, output: 2, cost_cents: 1.2 }, large: { input: 1, output: 1 } },
    }
    assert.deepEqual(await tools.rpc('submit_turn', submission), { ok: true })
    assert.deepEqual(await tools.rpc('submit_turn', { ...submission, result: 'another', session_id: 's2' }), {
      ok: true,
    })
    assert.deepEqual(await s.frames(id), ['forty-two'])
    const [costs, conversation] = await s.read(async (tx) => [
      await costLog.list(tx, { turn_id: turn.id }),
      await conversations.find(tx, { folder: 'main', topic: '' }),
    ])
    assert.deepEqual(
      costs.map(({ model, input_tokens, output_tokens, cost_cents }) => [
        model,
        input_tokens,
        output_tokens,
        cost_cents,
      ]),
      [
        ['large', 1, 1, 0],
        ['small', 10, 2, 2],
      ],
    )
    assert.equal(conversation?.session_id, 's1')
    assert.equal((await s.turn(turn.id)).submitted, 'success')
  })

  test('sends nothing if the turn already sent a message, and keeps an error for the end of the turn', async (t) => {
    const s = await openGatedHost(t, { engine })
    const id = await s.ask()
    const { turn } = await s.mustClaim()
    await s.say(turn, 'said')
    const tools = await s.open('main')
    await tools.rpc('submit_turn', { turn_id: turn.id, result: 'late' })
    assert.deepEqual(await s.frames(id), ['said'])
    const other = await s.ask('again', { folder: 'team' })
    const next = await s.mustClaim()
    const theirs = await s.open('team')
    await theirs.rpc('submit_turn', { turn_id: next.turn.id, error: 'the model is gone' })
    const { submitted, submitted_error } = await s.turn(next.turn.id)
    assert.deepEqual([submitted, submitted_error, await s.frames(other)], ['error', 'the model is gone', []])
  })

  test('refuses bad params with a code and a message, and changes nothing', async (t) => {
    const s = await openGatedHost(t, { engine })
    const id = await s.ask()
    const { turn } = await s.mustClaim()
    const tools = await s.open('main')
    const turn_id = turn.id
    const CASES: [Record<string, unknown>, number, string | RegExp][] = [
      [{}, -32602, 'turn_id required'],
      [{ turn_id: '' }, -32602, 'turn_id required'],
      [{ turn_id: 5 }, -32602, /^invalid params: turn_id must be/],
      [{ turn_id: 'nobody' }, -32602, 'invalid params: no turn with id nobody'],
      [{ turn_id, status: 'maybe' }, -32602, /^invalid params: status must be one of success, error/],
      [{ turn_id, result: 'a', error: 'b' }, -32602, /^invalid params: .*both a result and an error/],
      [{ turn_id, status: 'success', error: 'b' }, -32602, /^invalid params: /],
      [{ turn_id, result: 7 }, -32602, /^invalid params: result must be/],
      [{ turn_id, session_id: ['x'] }, -32602, /^invalid params: session_id/],
      [
        { turn_id, models: { m: { cost_cents: 9_999 }, n: { cost_cents: 1.01 } } },
        -32602,
        /^invalid params: models must cost at most 100 dollars together, and cost 100\.0001$/,
      ],
      [{ turn_id, models: { m: { cost_cents: -1 } } }, -32602, /^invalid params: models\.m\.cost_cents/],
      [{ turn_id, results: 'a' }, -32602, 'invalid params: unknown field "results"'],
      [{ turn_id, models: { m: { price: 1 } } }, -32602, 'invalid params: unknown field "models.m.price"'],
      [{ turn_id, models: [] }, -32602, /^invalid params: models must be/],
      [{ turn_id, error: 'a\u0000b' }, -32602, /^invalid params: error must not contain a NUL/],
    ]
    for (const [params, code, message] of CASES)
      await assert.rejects(tools.rpc('submit_turn', params), { code, message }, JSON.stringify(params))
    const foreign = await s.open('team')
    await assert.rejects(foreign.rpc('submit_turn', { turn_id }), { code: -32602, message: /no turn with id/ })
    const stale = await s.open('main', { turn: turn_id, fence: turn.fence + 1 })
    const over = { code: -32603, message: /^the turn is over/ }
    await assert.rejects(stale.rpc('submit_turn', { turn_id, result: 'x' }), over)
    assert.equal((await s.turn(turn_id)).submitted, undefined)
    await s.end(turn)
    await assert.rejects(tools.rpc('submit_turn', { turn_id, result: 'x' }), over)
    assert.deepEqual(await s.frames(id), [])
  })
})

suite('hidden methods', () => {
  test('are not listed as tools', async (t) => {
    const s = await openGatedHost(t)
    const tools = await s.open('main')
    for (const name of ['submit_turn', 'submit_status']) {
      await assert.rejects(tools.call(name, { turn_id: 'x', text: 'y' }), {
        code: -32602,
        message: `unknown tool: ${name}`,
      })
    }
  })

  test('work without a handshake, and are ignored as notifications', async (t) => {
    const s = await openGatedHost(t)
    const id = await s.ask()
    const { turn } = await s.mustClaim()
    const wire = await s.wire('main')
    const params = { turn_id: turn.id, result: 'hello' }
    wire.send({ jsonrpc: '2.0', method: 'submit_turn', params })
    wire.send({ jsonrpc: '2.0', id: 1, method: 'submit_turn', params: [] })
    assert.equal((await wire.next())?.error?.code, -32602)
    assert.deepEqual(await s.frames(id), [])
    wire.send({ jsonrpc: '2.0', id: 2, method: 'submit_turn', params })
    assert.deepEqual(await wire.next(), { jsonrpc: '2.0', id: 2, result: { ok: true } })
    assert.deepEqual(await s.frames(id), ['hello'])
  })

  test('a submission whose connection breaks is recorded at most once when repeated', async (t) => {
    const s = await openGatedHost(t)
    const id = await s.ask()
    const { turn } = await s.mustClaim()
    const submission = { jsonrpc: '2.0', id: 7, method: 'submit_turn', params: { turn_id: turn.id, result: 'once' } }
    const first = await s.wire('main')
    first.send(submission)
    first.socket.destroy()
    await first.closed
    const second = await s.wire('main')
    second.send(submission)
    assert.deepEqual((await second.next())?.result, { ok: true })
    assert.deepEqual(await s.frames(id), ['once'])
  })
})

onEveryEngine('submit_status', (engine) => {
  test('is a status frame in a link chat, and not an answer', async (t) => {
    const s = await openGatedHost(t, { engine })
    const id = await s.ask()
    const { turn } = await s.mustClaim()
    const tools = await s.open('main', { turn: turn.id, fence: turn.fence })
    assert.deepEqual(await tools.rpc('submit_status', { turn_id: turn.id, text: ' reading ' }), { ok: true })
    await tools.rpc('submit_status', { text: 'writing' })
    await tools.rpc('submit_status', { text: '  ' })
    assert.deepEqual(await s.frames(id), ['reading', 'writing'])
    assert.equal((await s.turn(turn.id)).replies, 0)
    const said = await s.read((tx) => messages.list(tx, { direction: 'out' }))
    assert.deepEqual(new Set(said.map(({ kind }) => kind)), new Set(['status']))
    await tools.rpc('submit_turn', { turn_id: turn.id, result: '<status>done soon</status>the answer' })
    assert.deepEqual(await s.frames(id), ['reading', 'writing', 'done soon', 'the answer'])
  })

  test('is ignored for an ended turn and refused for a turn of another folder', async (t) => {
    const s = await openGatedHost(t, { engine })
    const id = await s.ask()
    const { turn } = await s.mustClaim()
    const [tools, foreign] = [await s.open('main'), await s.open('team')]
    const gone = { code: -32602, message: /^invalid params: no turn with id/ }
    await assert.rejects(foreign.rpc('submit_status', { turn_id: turn.id, text: 'x' }), gone)
    await assert.rejects(tools.rpc('submit_status', { turn_id: 'nobody', text: 'x' }), gone)
    await assert.rejects(tools.rpc('submit_status', { turn_id: turn.id }), { code: -32602 })
    await s.end(turn)
    assert.deepEqual(await tools.rpc('submit_status', { turn_id: turn.id, text: 'x' }), { ok: true })
    assert.deepEqual(await foreign.rpc('submit_status', { text: 'x' }), { ok: true })
    assert.deepEqual(await s.frames(id), [])
  })

  test('sends the first status to a platform and edits it later', async (t) => {
    const edits: object[] = []
    let canEdit = true
    const s = await openGatedHost(t, {
      engine,
      channels: {
        resolve: async () => ({
          name: 'room',
          platform: 'room',
          isInternal: false,
          isIdempotent: true,
          hint: () => '',
          actions: canEdit ? { edit: async (act) => void edits.push(act) } : {},
        }),
      },
    })
    await s.ask('hi', { jid: 'room:1', hasRound: false })
    const { turn } = await s.mustClaim()
    const tools = await s.open('main')
    const pending = () => s.read((tx) => outbox.list(tx, { turn_id: turn.id }))
    await tools.rpc('submit_status', { text: 'one' })
    const [first, ...more] = await pending()
    assert.deepEqual([first?.state, more.length], ['pending', 0])
    await s.write((tx) => run(tx, `update outbox set state = 'sent', platform_id = 'p1' where turn_id = $1`, [turn.id]))
    await tools.rpc('submit_status', { text: 'two' })
    assert.deepEqual(edits, [{ jid: 'room:1', targetId: 'p1', content: '⏳ two' }])
    canEdit = false
    await tools.rpc('submit_status', { text: 'three' })
    assert.equal((await pending()).length, 2)
    const said = await s.read((tx) => messages.list(tx, { jid: 'room:1', direction: 'out' }))
    assert.deepEqual(
      said.map(({ content }) => Buffer.from(content).toString()),
      ['⏳ one', '⏳ three'],
    )
  })
})
