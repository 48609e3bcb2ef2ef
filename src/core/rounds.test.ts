import assert from 'node:assert/strict'
import { test } from 'node:test'
import { conversing } from '../../test/support/conversation.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { addLink, postOf } from '../../test/support/rows.ts'
import { eventsAfter } from './chats.ts'
import { work } from './ingest.ts'
import { findRound, framesAfter, roundHeads, rounds } from './rounds.ts'

onEveryEngine('rounds', (engine) => {
  test('a message opens a round that is pending and has its id, its chat, its topic and its folder', async (t) => {
    const on = await conversing(t, engine)
    await on.groups('main')
    const link = await addLink(on, 'web:main')
    const post = postOf(on, link, { topic: 'bills', hasRound: true })
    await on.write((tx) => work.run(tx, on.host.engine.dialect, [post]))
    const made = await on.round(post.id)
    assert.deepEqual(
      [made.status, made.jid, made.topic, made.target_folder, made.last_seq],
      ['pending', 'web:main', 'bills', 'main', 0],
    )
    // A round of another JID is not there.
    assert.equal(await on.read((tx) => findRound(tx, 'web:other', post.id)), undefined)
  })

  test('frames are numbered from 1 without a gap, and are messages of the chat as well', async (t) => {
    const on = await conversing(t, engine)
    const id = await on.ask('why?', { topic: 'bills' })
    const { turn } = await on.mustClaim()
    await on.say(turn, 'thinking', { kind: 'status' })
    await on.say(turn, 'because <b> \u0000')
    await on.say(turn, '')
    assert.equal(await on.end(turn, { outcome: 'failed', reason: 'the model m at /x', told: 'no more' }), true)
    const frames = await on.read((tx) => framesAfter(tx, id, 0, 10))
    assert.deepEqual(
      frames.map(({ seq, kind, content }) => [seq, kind, content]),
      [
        [1, 'status', 'thinking'],
        [2, 'message', 'because <b> \u0000'],
        [3, 'message', ''],
      ],
    )
    assert.equal(new Set(frames.map((frame) => frame.id)).size, 3)
    assert.deepEqual(
      (await on.read((tx) => framesAfter(tx, id, 1, 1))).map(({ seq }) => seq),
      [2],
    )
    const { events } = await on.read((tx) => eventsAfter(tx, { jid: 'web:main', after: 0, limit: 10 }))
    assert.deepEqual(
      events.map(({ seq, kind, topic, turn_id }) => [seq, kind, topic, turn_id]),
      ['message', 'status', 'message', 'message', 'round_done'].map((kind, at) => [at + 1, kind, 'bills', id]),
    )
    const ended = await on.round(id)
    assert.deepEqual([ended.status, ended.error, ended.last_seq], ['failed', 'no more', 3])
    assert.ok(ended.ended_at)
  })

  test('a round ends once, and what is said after its end is no frame of it', async (t) => {
    const on = await conversing(t, engine)
    const id = await on.ask()
    const { turn } = await on.mustClaim()
    const ends = await Promise.all([
      on.end(turn),
      on.end(turn, { outcome: 'failed', reason: 'x' }),
      on.end(turn, { outcome: 'failed', reason: 'y' }),
    ])
    assert.equal(ends.filter(Boolean).length, 1)
    const { status } = await on.round(id)
    await on.say(turn, 'late')
    assert.deepEqual([(await on.round(id)).status, (await on.round(id)).last_seq], [status, 0])
    const { events } = await on.read((tx) => eventsAfter(tx, { jid: 'web:main', after: 0, limit: 10 }))
    assert.equal(events.filter(({ kind }) => kind === 'round_done').length, 1)
  })

  test('two who speak in one round at once get different numbers', async (t) => {
    const on = await conversing(t, engine)
    const id = await on.ask()
    const { turn } = await on.mustClaim()
    await Promise.all(Array.from({ length: 12 }, (_, at) => on.say(turn, `${at}`)))
    const frames = await on.read((tx) => framesAfter(tx, id, 0, 100))
    assert.deepEqual(
      frames.map(({ seq }) => seq),
      Array.from({ length: 12 }, (_, at) => at + 1),
    )
    assert.equal((await on.turn(turn.id)).replies, 12)
  })

  test('how far rounds are is told for many at once', async (t) => {
    const on = await conversing(t, engine)
    const [a, b] = [await on.ask('a', { topic: 'a' }), await on.ask('b', { topic: 'b' })]
    const [first, second] = [await on.mustClaim(), await on.mustClaim()]
    await on.say(first.turn, 'x')
    await on.end(second.turn)
    const heads = await on.read((tx) => roundHeads(tx, [a, b, 'none']))
    assert.deepEqual(heads.get(a), { last_seq: 1, status: 'pending' })
    assert.deepEqual(heads.get(b), { last_seq: 0, status: 'success' })
    assert.equal(heads.size, 2)
  })

  test('a hook’s message opens no round', async (t) => {
    const on = await conversing(t, engine)
    await on.groups('main')
    const post = postOf(on, await addLink(on, 'hook:main/ci'), { hasRound: false })
    await on.write((tx) => work.run(tx, on.host.engine.dialect, [post]))
    assert.equal(await on.read((tx) => rounds.count(tx)), 0)
  })
})
