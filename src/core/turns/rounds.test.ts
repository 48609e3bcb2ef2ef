import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { emptyStore, onEveryEngine } from '../../../test/support/host.ts'
import { addLink, postOf } from '../../../test/support/rows.ts'
import { run } from '../../../test/support/sql.ts'
import { openEngine } from '../../store/index.ts'
import { migrate, type StoredTable } from '../../store/migrate.ts'
import { eventsAfter } from '../chats/chat-events.ts'
import { coreTables } from '../index.ts'
import { createLinkPostHandler } from '../messages/link-inbound.ts'
import { findRound, frames, readFrames, readRoundHeads, rounds } from './rounds.ts'

const linkPostHandler = createLinkPostHandler()

onEveryEngine('rounds', (engine) => {
  test('a message opens a pending round with its id, chat, topic and folder', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const link = await addLink(on, 'web:main')
    const post = postOf(on, link, { topic: 'bills', hasRound: true })
    await on.write((tx) => linkPostHandler.run(tx, on.host.engine.dialect, [post]))
    const round = await on.round(post.id)
    assert.deepEqual(
      [round.status, round.jid, round.topic, round.target_folder, round.last_seq],
      ['pending', 'web:main', 'bills', 'main', 0],
    )
    // A round is not found under another JID.
    assert.equal(await on.read((tx) => findRound(tx, post.id, 'web:other')), undefined)
  })

  test('frames are numbered from 1 without gaps and are also messages of the chat', async (t) => {
    const on = await openConversationHost(t, engine)
    const id = await on.ask('why?', { topic: 'bills' })
    const { turn } = await on.mustClaim()
    await on.say(turn, 'thinking', { kind: 'status' })
    await on.say(turn, 'because <b> \u0000')
    await on.say(turn, '')
    assert.equal(await on.end(turn, { outcome: 'failed', reason: 'the model m at /x', publicReason: 'no more' }), true)
    const shown = await on.read((tx) => readFrames(tx, id, 0, 10))
    assert.deepEqual(
      shown.map(({ seq, kind, content }) => [seq, kind, content]),
      [
        [1, 'status', 'thinking'],
        [2, 'message', 'because <b> \u0000'],
        [3, 'message', ''],
      ],
    )
    assert.equal(new Set(shown.map((frame) => frame.id)).size, 3)
    assert.deepEqual(
      (await on.read((tx) => readFrames(tx, id, 1, 1))).map(({ seq }) => seq),
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

  test('frames are stored once, even if many rounds show them', async (t) => {
    const on = await openConversationHost(t, engine)
    const ids: string[] = []
    for (let at = 0; at < 20; at++) ids.push(await on.ask(`question ${at}`))
    const { turn, messages } = await on.mustClaim()
    assert.equal(messages.length, 20)
    const answers = Array.from({ length: 20 }, (_, at) => `answer ${at}`)
    for (const [at, content] of answers.entries()) {
      await on.say(turn, content)
      assert.equal((await on.round(ids[at] ?? '')).last_seq, at + 1)
    }
    assert.equal(await on.read((tx) => frames.count(tx)), 20)
    for (const id of ids) assert.deepEqual(await on.frames(id), answers)
    await on.end(turn)
    await on.say(turn, 'after the end')
    for (const id of ids) assert.deepEqual([await on.frames(id), (await on.round(id)).last_seq], [answers, 20])
  })

  test('a delegated round keeps its frames, and the next turn continues after them', async (t) => {
    const on = await openConversationHost(t, engine)
    const [first, second] = [await on.ask('ask the team'), await on.ask('soon')]
    const parent = await on.mustClaim()
    await on.say(parent.turn, 'I ask the team', { kind: 'status' })
    await on.delegate(parent.turn)
    const child = await on.mustClaim()
    await on.say(child.turn, 'we look', { kind: 'status' })
    await on.end(parent.turn, { outcome: 'silent' })
    const later = await on.ask('something else')
    const next = await on.mustClaim()
    await on.say(next.turn, 'this is another turn')
    await on.say(child.turn, 'the answer')
    await on.end(child.turn)
    for (const id of [first, second]) {
      assert.deepEqual(await on.frames(id), ['I ask the team', 'we look', 'the answer'])
      assert.deepEqual([(await on.round(id)).status, (await on.round(id)).last_seq], ['success', 3])
    }
    assert.deepEqual(await on.frames(later), ['this is another turn'])
  })

  test('rounds of an earlier version keep their frames', async (t) => {
    const address = await emptyStore(t, engine)
    const store = await openEngine(address)
    t.after(() => store.close())
    const earlier = coreTables.map((table): StoredTable => {
      if (table === frames) return { name: table.name, storage: table.storage.slice(0, 1) }
      return table === rounds ? { name: table.name, storage: table.storage.slice(0, -1) } : table
    })
    const now = (): string => '2026-01-01T00:00:00.000Z'
    await migrate(store, earlier, now)
    // Two rounds of one turn; one that had a frame before its turn; a pending one without frames.
    const rows = [
      { id: 'a', turn: 'b', contents: ['x', 'y'] },
      { id: 'b', turn: 'b', contents: ['x', 'y'] },
      { id: 'c', turn: 'd', contents: ['x', 'z'] },
      { id: 'd', turn: 'd', contents: ['y', 'z'] },
      { id: 'e', turn: undefined, contents: [] },
    ]
    await store.transaction(async (tx) => {
      const insert = (table: string, row: Record<string, string | number | Buffer | null>) => {
        const marks = Object.keys(row).map((_, at) => `$${at + 1}`)
        const sql = `insert into ${table} (${Object.keys(row).join(', ')}) values (${marks.join(', ')})`
        return run(tx, sql, Object.values(row))
      }
      const message = { jid: 'web:main', kind: 'message', sender: 's', created_at: now() }
      for (const [at, id] of ['x', 'y', 'z'].entries())
        await insert('messages', { ...message, seq: at + 1, id, direction: 'out', content: Buffer.from(id) })
      for (const [at, { id, turn, contents }] of rows.entries()) {
        const [status, message_seq] = [turn === undefined ? 'pending' : 'success', at + 10]
        const round = { id, jid: 'web:main', message_seq, status, last_seq: contents.length, created_at: now() }
        await insert('rounds', round)
        const rest = { topic: '', chat_topic: '', sender: 's', verb: 'message', state: 'answered', updated_at: now() }
        await insert('inbox', { message_seq, id, jid: 'web:main', turn_id: turn ?? null, ...rest })
        for (const [index, content] of contents.entries())
          await insert('frames', { turn_id: id, seq: index + 1, message_seq: 1 + 'xyz'.indexOf(content) })
      }
    })
    await migrate(store, coreTables, now)
    for (const { id, contents } of rows) {
      const shown = await store.read((tx) => readFrames(tx, id, 0, 10))
      assert.deepEqual(
        shown.map(({ seq, content }) => [seq, content]),
        contents.map((content, at) => [at + 1, content]),
        id,
      )
    }
    assert.equal(await store.read((tx) => frames.count(tx)), 6)
  })

  test('a round ends once and shows no frames added after its end', async (t) => {
    const on = await openConversationHost(t, engine)
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

  test('concurrent replies in one round get different numbers', async (t) => {
    const on = await openConversationHost(t, engine)
    const id = await on.ask()
    const { turn } = await on.mustClaim()
    await Promise.all(Array.from({ length: 12 }, (_, at) => on.say(turn, `${at}`)))
    const shown = await on.read((tx) => readFrames(tx, id, 0, 100))
    assert.deepEqual(
      shown.map(({ seq }) => seq),
      Array.from({ length: 12 }, (_, at) => at + 1),
    )
    assert.equal((await on.turn(turn.id)).replies, 12)
  })

  test('reads the last frame and status of many rounds at once', async (t) => {
    const on = await openConversationHost(t, engine)
    const [a, b] = [await on.ask('a', { topic: 'a' }), await on.ask('b', { topic: 'b' })]
    const [first, second] = [await on.mustClaim(), await on.mustClaim()]
    await on.say(first.turn, 'x')
    await on.end(second.turn)
    const heads = await on.read((tx) => readRoundHeads(tx, [a, b, 'none']))
    assert.deepEqual(heads.get(a), { last_seq: 1, status: 'pending' })
    assert.deepEqual(heads.get(b), { last_seq: 0, status: 'success' })
    assert.equal(heads.size, 2)
  })

  test('a webhook post opens no round', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const post = postOf(on, await addLink(on, 'hook:main/ci'), { hasRound: false })
    await on.write((tx) => linkPostHandler.run(tx, on.host.engine.dialect, [post]))
    assert.equal(await on.read((tx) => rounds.count(tx)), 0)
  })
})
