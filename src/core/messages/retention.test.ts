import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ConversationHost, openConversationHost } from '../../../test/support/conversation-host.ts'
import { type EngineName, onEveryEngine } from '../../../test/support/host.ts'
import { run } from '../../../test/support/sql.ts'
import { addMessagesToChats, eventsAfter } from '../chats/chat-events.ts'
import { chatTopics } from '../chats/chat-topics.ts'
import { createBranch, planBranch } from '../chats/topic-branches.ts'
import { outbox } from '../delivery/outbox.ts'
import { storedBytes } from '../links/storage-use.ts'
import { visitorPart } from '../links/visitor-chats.ts'
import { visitorConversation } from '../routing/routing-decision.ts'
import { workSessions } from '../turns/conversations.ts'
import { costLog } from '../turns/costs.ts'
import { findRound, frames } from '../turns/rounds.ts'
import { turns } from '../turns/turns.ts'
import { inbox } from './inbox.ts'
import { messageRetries, retryMessage } from './message-retries.ts'
import { messages } from './messages.ts'
import { type RetentionProgress, removeMessages, removeSessions, removeTurns } from './retention.ts'

const KEEP_MS = 3_600_000
const TABLES = ['messages', 'inbox', 'rounds', 'frames', 'chat_events', 'outbox', 'envelopes'] as const

interface RetentionHost extends ConversationHost {
  /** Adds all messages to their chats and marks them as routed, as the daemons do. */
  settle(): Promise<void>
  sweep(after?: number, limit?: number): Promise<RetentionProgress<number>>
  sweepTurns(after?: string, limit?: number): Promise<RetentionProgress<string>>
  counts(): Promise<Record<string, number>>
  stored(): Promise<number[]>
}

async function open(t: TestContext, engine: EngineName): Promise<RetentionHost> {
  const on = await openConversationHost(t, engine)
  const { host, clock } = on
  return {
    ...on,
    settle: async () => {
      await on.write(async (tx) => {
        await addMessagesToChats(tx)
        await run(tx, 'update routing set last_seq = (select last_seq from filing where id = 1) where id = 1')
      })
    },
    sweep: async (after = 0, limit = 100) => {
      const now = clock.now()
      const step = { before: now - KEEP_MS, now, after, limit }
      const { removed, next } = await on.write((tx) => removeMessages(tx, host.engine.dialect, step))
      return { removed, ...(next === undefined ? {} : { next }) }
    },
    sweepTurns: (after = '', limit = 100) =>
      on.write((tx) => removeTurns(tx, { before: clock.now() - KEEP_MS, after, limit })),
    counts: () =>
      on.read(async (tx) => {
        const found: [string, number][] = []
        // The last event of a chat stays, empty.
        const only = { chat_events: ' where message_seq is not null or turn_id is not null' } as Record<string, string>
        for (const name of TABLES)
          found.push([name, Number((await run(tx, `select count(*) as n from ${name}${only[name] ?? ''}`)).rows[0]?.n)])
        return Object.fromEntries(found)
      }),
    stored: () =>
      on.read(async (tx) => [await storedBytes(tx, 'chat', 'web:main'), await storedBytes(tx, 'folder', 'main')]),
  }
}

onEveryEngine('retention of messages', (engine) => {
  test('removes a message with all its rows, exactly when it is too old', async (t) => {
    const on = await open(t, engine)
    await on.ask('a question', { envelope: { platform_id: 'p1', attachments: '[{"filename":"a"}]' } })
    const { turn } = await on.mustClaim()
    await on.say(turn, 'thinking', { kind: 'status' })
    await on.say(turn, 'an answer')
    await on.end(turn)
    await on.settle()
    const before = await on.counts()
    assert.ok(Object.values(before).every((count) => count > 0))
    on.clock.advance(KEEP_MS)
    assert.deepEqual(await on.sweep(), { removed: 0 })
    assert.deepEqual(await on.counts(), before)
    on.clock.advance(1)
    assert.deepEqual(await on.sweep(), { removed: 3 })
    assert.deepEqual(await on.counts(), Object.fromEntries(TABLES.map((name) => [name, 0])))
    assert.deepEqual(await on.stored(), [0, 0])
    assert.equal((await on.turn(turn.id)).outcome, 'answered')
  })

  test('removes the attempts and frames of a retried message with it', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    const id = await on.ask('a question')
    const failed = (await on.mustClaim()).turn
    await on.say(failed, 'thinking', { kind: 'status' })
    await on.end(failed, { outcome: 'failed', reason: 'it broke' })
    const retrying = { dialect: on.host.engine.dialect, clock: on.clock, actor: 'a' }
    await on.write((tx) => retryMessage(tx, { ...retrying, routes: () => on.host.routes.read(tx) }, id))
    await on.ask('another')
    const again = (await on.mustClaim()).turn
    await on.say(again, 'an answer')
    await on.end(again)
    await on.settle()
    on.clock.advance(KEEP_MS + 1)
    await on.sweep()
    await on.sweepTurns()
    assert.deepEqual(await on.counts(), Object.fromEntries(TABLES.map((name) => [name, 0])))
    assert.deepEqual(await on.read((tx) => messageRetries.list(tx)), [])
    assert.deepEqual(await on.read((tx) => turns.list(tx)), [])
  })

  test('keeps newer messages of the same chat', async (t) => {
    const on = await open(t, engine)
    const old = await on.ask('old')
    await on.end((await on.mustClaim()).turn)
    on.clock.advance(KEEP_MS)
    const young = await on.ask('young')
    const stored = await on.stored()
    const { turn } = await on.mustClaim()
    await on.say(turn, 'hello')
    await on.end(turn)
    await on.settle()
    on.clock.advance(1)
    assert.equal((await on.sweep()).removed, 1)
    assert.equal(await on.read((tx) => findRound(tx, old)), undefined)
    assert.deepEqual([await on.frames(young), (await on.round(young)).last_seq], [['hello'], 1])
    assert.equal((await on.counts()).chat_events, 3)
    assert.deepEqual(
      await on.stored(),
      stored.map((bytes) => bytes - 512 - 3),
    )
  })

  test('keeps messages that wait, run, are delegated, onboarding or undelivered', async (t) => {
    const on = await open(t, engine)
    const delegating = await on.ask('ask the team', { topic: 'd' })
    const parent = await on.mustClaim()
    await on.delegate(parent.turn)
    await on.end(parent.turn, { outcome: 'silent' })
    const child = await on.mustClaim()
    const said = await on.say(child.turn, 'soon')
    const waiting = await on.ask('later', { topic: 'w' })
    const gate = await on.ask('let me in', { topic: 'o' })
    await on.write((tx) => inbox.update(tx, { id: gate }, { state: 'onboarding' }))
    const sent = await on.say(parent.turn, 'to the room', { jid: 'telegram:group/1', turn_id: undefined })
    await on.settle()
    on.clock.advance(2 * KEEP_MS)
    const before = await on.counts()
    assert.deepEqual(await on.sweep(), { removed: 0 })
    assert.deepEqual(await on.counts(), before)
    const left = async () => (await on.read((tx) => messages.list(tx))).map(({ id }) => id)
    await on.end(child.turn)
    await on.write((tx) => outbox.update(tx, { id: sent.id }, { state: 'sent' }))
    assert.equal((await on.sweep()).removed, 4)
    assert.deepEqual(await left(), [waiting, gate])
    assert.ok(!(await left()).some((id) => [delegating, said.id].includes(id)))
  })

  test('keeps messages until they are in their chat and routed', async (t) => {
    const on = await open(t, engine)
    await on.ask('a')
    const { turn } = await on.mustClaim()
    await on.say(turn, 'b')
    await on.end(turn)
    on.clock.advance(2 * KEEP_MS)
    assert.equal((await on.sweep()).removed, 1)
    await on.write((tx) => addMessagesToChats(tx))
    assert.equal((await on.sweep()).removed, 0)
    await on.settle()
    assert.equal((await on.sweep()).removed, 1)
  })

  test('removes in steps and skips messages that stay', async (t) => {
    const on = await open(t, engine)
    const ids: string[] = []
    for (let at = 0; at < 7; at++) ids.push(await on.ask(`${at}`, { topic: `${at}` }))
    await on.write(async (tx) => {
      for (const id of ids.slice(2)) await inbox.update(tx, { id }, { state: 'silent' })
      await run(tx, `update rounds set status = 'success'`)
    })
    on.clock.advance(2 * KEEP_MS)
    const steps: number[] = []
    for (let next: number | undefined = 0; next !== undefined; ) {
      const progress: RetentionProgress<number> = await on.sweep(next, 3)
      steps.push(progress.removed)
      next = progress.next
    }
    assert.deepEqual(steps, [1, 3, 1])
    assert.equal((await on.counts()).chat_events, 2)
  })

  test('never uses the number of an event again, not even of a visitor\u2019s chat that is gone', async (t) => {
    const on = await open(t, engine)
    const visitor = `web:main${visitorPart('ann')}`
    const numbers = async (jid: string) =>
      (await on.read((tx) => eventsAfter(tx, { jid, after: 0, limit: 100 }))).events.map(({ seq }) => seq)
    const visit = async (jid: string, topic: string) => {
      await on.ask('a question', { jid, topic, conversation: visitorConversation(jid, topic) })
      await on.end((await on.mustClaim()).turn)
      await on.settle()
    }
    for (const jid of ['web:main', visitor]) {
      await visit(jid, 'red')
      assert.deepEqual(await numbers(jid), [1, 2])
    }
    on.clock.advance(KEEP_MS + 1)
    await on.sweep()
    assert.deepEqual([await numbers('web:main'), await numbers(visitor)], [[2], []])
    for (const jid of ['web:main', visitor]) await visit(jid, 'blue')
    assert.deepEqual(
      [await numbers('web:main'), await numbers(visitor)],
      [
        [2, 3, 4],
        [3, 4],
      ],
    )
    on.clock.advance(KEEP_MS + 1)
    await on.sweep()
    await visit(`web:main${visitorPart('bob')}`, 'red')
    assert.deepEqual(await numbers(`web:main${visitorPart('bob')}`), [5, 6])
  })

  test('leaves nothing of a visitor\u2019s chat, and the chats of others whole', async (t) => {
    const on = await open(t, engine)
    const [ann, bob] = [`web:main${visitorPart('ann')}`, `web:main${visitorPart('bob')}`]
    const visit = async (jid: string) => {
      await on.ask('a question', { jid, topic: 'red', conversation: visitorConversation(jid, 'red') })
      const { turn } = await on.mustClaim()
      await on.write((tx) =>
        workSessions.insert(tx, {
          ...{ folder: 'main', topic: turn.topic, jid, session_id: 's', updated_at: turn.started_at },
        }),
      )
      await on.end(turn)
      await on.settle()
      const main = { jid, topic: '', root: '', first_seq: 0, last_seq: 1, depth: 0, updated_at: turn.started_at }
      await on.write((tx) => chatTopics.insert(tx, main))
    }
    await visit(ann)
    on.clock.advance(KEEP_MS + 1)
    await visit(bob)
    assert.equal((await on.sweep()).removed, 1)
    for (const [table, column] of [
      ['conversations', 'topic'],
      ['work_sessions', 'topic'],
      ['session_log', 'topic'],
      ['chat_topics', 'jid'],
      ['chat_events', 'jid'],
    ] as const) {
      const { rows } = await on.read((tx) => run(tx, `select ${column} as name from ${table}`))
      const of = (jid: string): boolean => rows.some(({ name }) => String(name).includes(jid))
      assert.deepEqual([of(ann), of(bob)], [false, true], table)
    }
  })

  test('removes topics without events, but none that a branch continues', async (t) => {
    const on = await open(t, engine)
    const answered = async (topic: string | undefined): Promise<string> => {
      const id = await on.ask('a question', topic === undefined ? {} : { topic })
      await on.end((await on.mustClaim()).turn)
      await on.settle()
      return id
    }
    const branchFrom = (id: string, topic: string) =>
      on.write(async (tx) => {
        const message = (await messages.find(tx, { id })) ?? assert.fail()
        await createBranch(tx, await planBranch(tx, { jid: 'web:main', topic, message }), message.created_at)
      })
    const left = async () => (await on.read((tx) => chatTopics.list(tx))).map(({ topic }) => topic)
    const [red, main] = [await answered('red'), await answered(undefined)]
    await answered('old')
    on.clock.advance(KEEP_MS)
    await branchFrom(red, 'red 2')
    await branchFrom(main, 'main 2')
    for (const topic of ['red 2', 'main 2', 'young']) await answered(topic)
    // A topic that stays must not keep the sweep from one after it.
    await on.write((tx) => chatTopics.update(tx, { jid: 'web:main', topic: 'young' }, { last_seq: 1 }))
    on.clock.advance(1)
    for (let at = 0; at < 3; at++) assert.equal((await on.sweep(0, 1)).removed, 1)
    assert.deepEqual(await left(), ['', 'main 2', 'red', 'red 2', 'young'])
    on.clock.advance(KEEP_MS)
    assert.equal((await on.sweep()).removed, 3)
    assert.deepEqual(await left(), [])
  })

  test('removes messages from the search index', async (t) => {
    const on = await open(t, engine)
    const find = async (query: string) =>
      (await on.host.search?.search({ query, limit: 10 }))?.map(({ content }) => content.replace(/[«»]/g, ''))
    await on.ask('ancient words')
    await on.end((await on.mustClaim()).turn)
    on.clock.advance(KEEP_MS + 1)
    await on.ask('fresh words')
    assert.deepEqual(await find('words'), ['fresh words', 'ancient words'])
    assert.equal((await on.sweep()).removed, 1)
    assert.deepEqual(await find('words'), ['fresh words'])
    // After this time the change itself is removed; an index that has missed it is rebuilt.
    on.clock.advance(KEEP_MS + 1)
    await on.end((await on.mustClaim()).turn)
    await on.ask('newest words')
    assert.equal((await on.sweep()).removed, 1)
    assert.equal((await on.sweep()).removed, 0)
    assert.equal(await on.read(async (tx) => (await run(tx, 'select id from message_changes')).rows.length), 1)
    assert.deepEqual(await find('words'), ['newest words'])
  })
})

onEveryEngine('retention of turns', (engine) => {
  test('removes a turn with its frames exactly when it is too old, and keeps its costs', async (t) => {
    const on = await open(t, engine)
    const id = await on.ask()
    const { turn } = await on.mustClaim()
    await on.say(turn, 'an answer')
    const models = [{ model: 'm', input_tokens: 1, output_tokens: 1, cost_cents: 7 }]
    await on.submit('main', { turn_id: turn.id, fence: turn.fence, models })
    on.clock.advance(1000)
    await on.end(turn)
    on.clock.advance(KEEP_MS)
    assert.equal((await on.sweepTurns()).removed, 0)
    on.clock.advance(1)
    assert.equal((await on.sweepTurns()).removed, 1)
    const left = await on.read(async (tx) => [
      await turns.count(tx),
      await frames.count(tx),
      await costLog.count(tx),
      await messages.count(tx),
    ])
    assert.deepEqual(left, [0, 0, 1, 2])
    assert.deepEqual([(await on.round(id)).status, await on.frames(id)], ['success', []])
  })

  test('keeps turns that run or will be retried', async (t) => {
    const on = await open(t, engine)
    await on.ask('a', { topic: 'a' })
    await on.ask('b', { topic: 'b' })
    const [first, second] = [await on.mustClaim(), await on.mustClaim()]
    await on.write((tx) => turns.update(tx, { id: second.turn.id }, { state: 'retrying' }))
    on.clock.advance(2 * KEEP_MS)
    assert.equal((await on.sweepTurns()).removed, 0)
    assert.equal(await on.end(first.turn), true)
    on.clock.advance(KEEP_MS + 1)
    assert.equal((await on.sweepTurns()).removed, 1)
    assert.deepEqual(
      (await on.read((tx) => turns.list(tx))).map(({ id }) => id),
      [second.turn.id],
    )
  })

  test('removes turns and sessions in steps and keeps the last session of each conversation', async (t) => {
    const on = await open(t, engine)
    for (let at = 0; at < 5; at++) {
      await on.ask(`${at}`)
      await on.end((await on.mustClaim()).turn)
      on.clock.advance(1)
    }
    on.clock.advance(2 * KEEP_MS)
    const steps: number[] = []
    for (let next: string | undefined = ''; next !== undefined; ) {
      const progress: RetentionProgress<string> = await on.sweepTurns(next, 2)
      steps.push(progress.removed)
      next = progress.next
    }
    assert.deepEqual(steps, [2, 2, 1])
    const sessions = (after: number) =>
      on.write((tx) => removeSessions(tx, { before: on.clock.now() - KEEP_MS, after, limit: 2 }))
    const first = await sessions(0)
    const second = await sessions(first.next ?? assert.fail())
    assert.deepEqual([first.removed, second.removed], [2, 2])
    assert.deepEqual(await sessions(second.next ?? assert.fail()), { removed: 0 })
    const { rows } = await on.read((tx) => run(tx, 'select id from session_log'))
    assert.equal(rows.length, 1)
  })
})
