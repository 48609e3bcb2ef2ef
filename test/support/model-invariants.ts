// Compares the whole store with the model, after each step.
import assert from 'node:assert/strict'
import { inbox } from '../../src/core/messages/inbox.ts'
import { scheduledTasks } from '../../src/core/schedule/tasks.ts'
import { conversations, workSessions } from '../../src/core/turns/conversations.ts'
import { findRound, readFrames, rounds } from '../../src/core/turns/rounds.ts'
import { turns } from '../../src/core/turns/turns.ts'
import type { Tx } from '../../src/store/engine.ts'
import { isEnd, type Model } from './model.ts'
import type { ModelInstance } from './model-instance.ts'
import { run } from './sql.ts'

export async function checkInvariants(model: Model, instance: ModelInstance): Promise<void> {
  await instance.read(async (tx) => {
    await checkMessages(tx, model)
    await checkConversations(tx, model)
    await checkTurns(tx, model, instance.clock.now())
    await checkRounds(tx, model)
    await checkTasks(tx, model)
    await checkMoney(tx, model)
  })
}

/** Every routed message has one row with its state. */
async function checkMessages(tx: Tx, model: Model): Promise<void> {
  const rows = await inbox.list(tx, {}, [['message_seq', 'asc']])
  const is = rows.map(({ id, state, folder, topic, turn_id, waits_for }) => {
    const place = folder === undefined ? [] : [folder, topic]
    return isEnd(state) ? [id, state, ...place] : [id, state, ...place, turn_id, waits_for]
  })
  const routed = model.messages.filter(({ state }) => state !== 'unfiled' && state !== 'unrouted')
  const must = routed.map(({ id, state, folder, topic, turn, waitsFor }) => {
    const place = folder === undefined ? [] : [folder, topic]
    return isEnd(state) ? [id, state, ...place] : [id, state, ...place, turn, waitsFor]
  })
  assert.deepEqual(is, must, 'what becomes of the messages')
  const { rows: arrived } = await run(tx, `select id from messages where direction = 'in' order by seq`)
  assert.deepEqual(
    arrived.map(({ id }) => id),
    model.messages.map(({ id }) => id),
    'what has arrived',
  )
}

async function checkConversations(tx: Tx, model: Model): Promise<void> {
  const { rows } = await run(
    tx,
    `select folder, topic, count(*) as waiting from inbox where state = 'waiting' group by folder, topic`,
  )
  const counted = new Map(rows.map((row) => [JSON.stringify([row.folder, row.topic]), Number(row.waiting)]))
  for (const { folder, topic, waiting, turn_id, session_id } of await conversations.list(tx)) {
    const name = JSON.stringify([folder, topic])
    const must = model.conversation(folder, topic)
    assert.equal(waiting, counted.get(name) ?? 0, `how many wait in ${name}, by the rows`)
    assert.equal(waiting, must.waiting.length, `how many wait in ${name}`)
    assert.equal(turn_id, must.turn, `the turn of ${name}`)
    // Turns of reach work have a session for each chat.
    const atWork = (await workSessions.list(tx, { folder, topic })).map((row) => row.session_id)
    if (atWork.length === 0) assert.equal(session_id, must.session, `the session of ${name}`)
    else assert.ok([session_id, ...atWork].includes(must.session), `the session of ${name}`)
    counted.delete(name)
  }
  assert.deepEqual([...counted], [], 'what waits in no conversation')
}

async function checkTurns(tx: Tx, model: Model, now: number): Promise<void> {
  const all = await turns.list(tx)
  const open = all.filter(({ state }) => state !== 'done')
  const is = open.map((turn) => [
    ...[turn.id, turn.folder, turn.topic, turn.jid, turn.chat_topic, turn.state, turn.fence, turn.attempts],
    ...[
      turn.leased_until,
      turn.run_after,
      turn.replies,
      turn.submitted,
      turn.is_stopping,
      turn.message_count,
      turn.deaths ?? 0,
    ],
  ])
  const must = [...model.turns.values()].map((turn) => [
    ...[turn.id, turn.folder, turn.topic, turn.jid, turn.chatTopic, turn.state, turn.fence, turn.attempts],
    ...[turn.leasedUntil, turn.runAfter, turn.replies, turn.submitted, turn.isStopping, turn.ids.length, turn.deaths],
  ])
  assert.deepEqual(sorted(is), sorted(must), 'the turns that are not over')
  assert.deepEqual(
    sorted(all.filter(({ state }) => state === 'done').map(({ id }) => [id])),
    sorted([...model.ended].map((id) => [id])),
    'the turns that are over',
  )
  const places = open.map(({ folder, topic }) => JSON.stringify([folder, topic]))
  assert.equal(new Set(places).size, places.length, 'two turns in one conversation')
  // Expired leases do not count.
  const running = open.filter(({ state, leased_until }) => state === 'running' && leased_until > now)
  if (model.wasSetBack) return
  assert.ok(running.length <= model.turnsMax, `${running.length} turns run at once`)
  for (const [folder, of] of Map.groupBy(running, (turn) => turn.folder))
    assert.ok(of.length <= model.turnsPerFolder, `${of.length} turns of ${folder} run at once`)
}

/** L14: a round ends with its message and in the same state; its frames are numbered without gaps. */
async function checkRounds(tx: Tx, model: Model): Promise<void> {
  const all = await rounds.list(tx)
  assert.equal(all.length, model.messages.filter(({ hasRound }) => hasRound).length, 'the rounds')
  for (const { id, status, last_seq, error, ended_at } of all) {
    const { state, frames } = model.message(id)
    const isGood = state === 'answered' || state === 'silent' || state === 'observed'
    assert.equal(status, isEnd(state) ? (isGood ? 'success' : 'failed') : 'pending', `the round of ${id}, ${state}`)
    assert.deepEqual([error !== undefined, ended_at !== undefined], [status === 'failed', status !== 'pending'])
    const of = await readFrames(tx, id, 0, 1000)
    assert.deepEqual(
      of.map(({ seq }) => seq),
      frames.map((_, at) => at + 1),
      `the frames of ${id}`,
    )
    assert.equal((await findRound(tx, id))?.last_seq, frames.length)
    if (status !== 'pending') assert.equal(last_seq, frames.length)
    for (const [at, { content }] of of.entries()) if (frames[at] !== undefined) assert.equal(content, frames[at])
  }
}

async function checkTasks(tx: Tx, model: Model): Promise<void> {
  const is = (await scheduledTasks.list(tx)).map(({ id, status, next_run }) => [
    id,
    status,
    next_run === undefined ? undefined : Date.parse(next_run),
  ])
  assert.deepEqual(
    sorted(is),
    sorted([...model.tasks.values()].map(({ id, status, next }) => [id, status, next])),
    'tasks',
  )
  const { rows } = await run(
    tx,
    'select platform_id, count(*) as times from envelopes where task_id is not null group by platform_id',
  )
  for (const { platform_id, times } of rows) assert.equal(Number(times), 1, `${platform_id} was fired ${times} times`)
  assert.deepEqual(
    sorted(rows.map((row) => [row.platform_id])),
    sorted([...model.slots].map((slot) => [slot])),
    'slots',
  )
}

async function checkMoney(tx: Tx, model: Model): Promise<void> {
  const { rows } = await run(
    tx,
    'select folder, sum(cost_cents) as cents from cost_log group by folder order by folder',
  )
  const must = Map.groupBy(model.costs, ({ folder }) => folder)
  assert.deepEqual(
    sorted(rows.map(({ folder, cents }) => [folder, Number(cents)])),
    sorted([...must].map(([folder, of]) => [folder, of.reduce((sum, { cents }) => sum + cents, 0)])),
    'what was spent',
  )
}

function sorted(rows: readonly (readonly unknown[])[]): readonly unknown[] {
  return rows.toSorted((a, b) => (String(a[0]) < String(b[0]) ? -1 : 1))
}
