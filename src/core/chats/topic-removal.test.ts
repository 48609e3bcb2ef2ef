import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { type ConversationHost, openConversationHost } from '../../../test/support/conversation-host.ts'
import { type EngineName, isRefusal, onEveryEngine } from '../../../test/support/host.ts'
import { addLink, postOf } from '../../../test/support/rows.ts'
import { run } from '../../../test/support/sql.ts'
import { timestamp } from '../../lib/clock.ts'
import { chatDir } from '../layout.ts'
import { visitorPart } from '../links/visitor-chats.ts'
import { createLinkPostHandler } from '../messages/link-inbound.ts'
import { messages } from '../messages/messages.ts'
import { removeMessages } from '../messages/retention.ts'
import { visitorConversation } from '../routing/routing-decision.ts'
import { scheduledTasks } from '../schedule/tasks.ts'
import { conversations, workSessions } from '../turns/conversations.ts'
import { addMessagesToChats, eventsAfter } from './chat-events.ts'
import { makeChatHome } from './chat-home.ts'
import { chatTopics } from './chat-topics.ts'
import { planBranch } from './topic-branches.ts'
import {
  beginTopicRemoval,
  finishTopicRemovals,
  mustFindConversation,
  removeTopicStep,
  topicRemovals,
} from './topic-removal.ts'

const JID = 'web:main'

interface RemovalHost extends ConversationHost {
  /** Asks in a topic and ends the turn; the conversation has a session of each kind. */
  talk(jid: string, topic: string, conversation?: string): Promise<string>
  begin(jid: string, topic: string): Promise<void>
  finish(jid?: string): Promise<void>
  sessions(): Promise<string[]>
}

async function open(t: TestContext, engine: EngineName): Promise<RemovalHost> {
  const on = await openConversationHost(t, engine)
  await on.groups('main')
  const { host, clock, write, read } = on
  return {
    ...on,
    talk: async (jid, topic, conversation = topic) => {
      const id = await on.ask(`about ${topic}`, { jid, topic, conversation })
      const { turn } = await on.mustClaim()
      await on.end(turn)
      const [place, updated_at] = [{ folder: 'main', topic: conversation }, timestamp(clock.now())]
      await write(async (tx) => {
        await conversations.update(tx, place, { session_id: 'all' })
        await workSessions.upsert(tx, { ...place, jid, session_id: 'work', updated_at })
        await addMessagesToChats(tx)
        await run(tx, 'update routing set last_seq = (select last_seq from filing where id = 1) where id = 1')
      })
      return id
    },
    begin: (jid, topic) =>
      write(async (tx) => {
        const chat = { jid, folder: 'main' }
        const conversation = await mustFindConversation(tx, chat, topic)
        await beginTopicRemoval(tx, host.engine.dialect, { ...chat, conversation, now: clock.now() })
      }),
    finish: (jid) => finishTopicRemovals(host, jid),
    sessions: () =>
      read(async (tx) => {
        const all = (await conversations.list(tx)).flatMap(({ topic, session_id }) => (session_id ? [topic] : []))
        return [...all, ...(await workSessions.list(tx)).map(({ topic, jid }) => `${topic} of ${jid}`)].sort()
      }),
  }
}

onEveryEngine('the removal of a topic', (engine) => {
  test('resets its sessions, but not the one that another chat of the folder shares', async (t) => {
    const on = await open(t, engine)
    const visitor = `${JID}${visitorPart('ann')}`
    await on.talk(JID, 'red')
    await on.talk(`${JID}/b`, 'red')
    await on.talk(JID, 'red', visitorConversation(JID, 'red'))
    await on.talk(visitor, 'red', visitorConversation(visitor, 'red'))
    await on.begin(visitor, 'red')
    const names = [visitorConversation(JID, 'red'), `${visitorConversation(JID, 'red')} of ${JID}`]
    assert.deepEqual(await on.sessions(), ['red', `red of ${JID}`, `red of ${JID}/b`, ...names].sort())
    await on.begin(JID, 'red')
    assert.deepEqual(await on.sessions(), ['red', `red of ${JID}/b`])
    await on.talk(JID, 'blue')
    await on.begin(JID, 'blue')
    assert.deepEqual(await on.sessions(), ['red', `red of ${JID}/b`])
  })

  test('goes on where it has stopped, in small steps, and spares a later topic of the same name', async (t) => {
    const on = await open(t, engine)
    await on.talk(JID, 'red')
    await on.write((tx) =>
      run(
        tx,
        `insert into chat_events (jid, seq, kind, turn_id, topic)
         ${engine === 'sqlite' ? 'with recursive n(n) as (select 3 union all select n + 1 from n where n < 260)' : ''}
         select '${JID}', n, 'round_done', 'none', 'red' from ${engine === 'sqlite' ? 'n' : 'generate_series(3, 260) as n'}`,
      ),
    )
    await on.begin(JID, 'red')
    const [removal = assert.fail()] = await on.read((tx) => topicRemovals.list(tx))
    const { dialect } = on.host.engine
    const step = { removal, after: 0, now: on.clock.now(), mayEnd: true }
    assert.equal((await on.write((tx) => removeTopicStep(tx, dialect, step))).last, 100)
    const later = await on.talk(JID, 'red')
    await on.finish()
    assert.deepEqual(await on.read((tx) => topicRemovals.list(tx)), [])
    const { events } = await on.read((tx) => eventsAfter(tx, { jid: JID, after: 0, limit: 500, topic: 'red' }))
    assert.deepEqual(
      events.map(({ seq, turn_id }) => [seq, turn_id]),
      [
        [261, later],
        [262, later],
      ],
    )
    assert.equal((await on.read((tx) => chatTopics.find(tx, { jid: JID, topic: 'red' })))?.first_seq, 261)
  })

  test('leaves a message that is not answered to a later call', async (t) => {
    const on = await open(t, engine)
    const waiting = await on.ask('later', { topic: 'red' })
    await on.write((tx) => addMessagesToChats(tx))
    await on.write((tx) => run(tx, `update inbox set state = 'onboarding'`))
    await on.write((tx) => run(tx, `update conversations set waiting = 0`))
    // More than are looked at before it begins.
    await on.write((tx) => chatTopics.update(tx, { jid: JID, topic: 'red' }, { last_seq: 59 }))
    await on.write(async (tx) => {
      for (let seq = 2; seq < 60; seq++)
        await run(
          tx,
          `insert into chat_events (jid, seq, kind, message_seq, topic) values ($1, $2, 'message', 0, 'red')`,
          [JID, seq],
        )
    })
    await on.begin(JID, 'red')
    await on.finish(JID)
    const left = async () => (await on.read((tx) => messages.list(tx))).map(({ id }) => id)
    assert.deepEqual(await left(), [waiting])
    await on.write((tx) => run(tx, `update inbox set state = 'answered'`))
    await on.write((tx) => run(tx, `update rounds set status = 'success'`))
    await on.finish()
    assert.deepEqual([await left(), await on.read((tx) => topicRemovals.list(tx))], [[], []])
  })

  test('is refused while a branch of it is acknowledged but not in its chat', async (t) => {
    const on = await open(t, engine)
    const id = await on.talk(JID, 'red')
    const link = await addLink(on, JID)
    const { dialect } = on.host.engine
    const handler = createLinkPostHandler()
    const plan = () =>
      on.read(async (tx) => {
        const message = (await messages.find(tx, { id })) ?? assert.fail()
        return planBranch(tx, { jid: JID, topic: 'red 2', message })
      })
    const branch = await plan()
    const post = () => postOf(on, link, { topic: 'red 2', branch })
    assert.deepEqual(await on.write((tx) => handler.run(tx, dialect, [post()])), ['appended'])
    await assert.rejects(on.begin(JID, 'red'), isRefusal('conflict', 'has not ended'))
    await on.write((tx) => run(tx, `delete from messages where topic = 'red 2'`))
    await on.begin(JID, 'red')
    // A branch that was planned before comes too late, also when the messages are not removed yet.
    for (const isFinished of [false, true]) {
      if (isFinished) await on.finish()
      assert.deepEqual(await on.write((tx) => handler.run(tx, dialect, [post()])), ['gone'])
    }
    assert.deepEqual(await on.read((tx) => chatTopics.list(tx)), [])
  })

  test('removes the tasks that answer in it, and nothing of a visitor\u2019s chat is left but its last number', async (t) => {
    const on = await open(t, engine)
    const { layout = assert.fail() } = on.host
    const jid = `${JID}${visitorPart('ann')}`
    await on.talk(jid, 'red', visitorConversation(jid, 'red'))
    const place = { folder: 'main', jid, reach: 'chat' } as const
    await (await makeChatHome(layout, place)).close()
    const created_at = timestamp(on.clock.now())
    const task = {
      owner: 'main',
      chat_jid: jid,
      prompt: 'p',
      status: 'active',
      context_mode: 'group',
      created_at,
    } as const
    await on.write(async (tx) => {
      for (const topic of ['red', 'blue']) await scheduledTasks.insert(tx, { ...task, id: topic, topic })
      await chatTopics.insert(tx, {
        ...{ jid, topic: '', root: '', first_seq: 0, last_seq: 1, updated_at: created_at, depth: 0 },
      })
    })
    await on.begin(jid, 'red')
    await on.finish(jid)
    assert.deepEqual(
      (await on.read((tx) => scheduledTasks.list(tx, { chat_jid: jid }))).map(({ id }) => id),
      ['blue'],
    )
    assert.ok(!existsSync(chatDir(layout, place)))
    for (const table of ['chat_topics', 'chat_events', 'conversations', 'work_sessions', 'session_log', 'messages'])
      assert.deepEqual((await on.read((tx) => run(tx, `select * from ${table}`))).rows, [], table)
    const { rows } = await on.read((tx) =>
      run(tx, `select name from storage_use where scope = 'chat' and name = $1`, [jid]),
    )
    assert.deepEqual(rows, [])
    await on.talk(jid, 'red', visitorConversation(jid, 'red'))
    const { events } = await on.read((tx) => eventsAfter(tx, { jid, after: 0, limit: 9 }))
    assert.deepEqual(
      events.map(({ seq }) => seq),
      [3, 4],
    )
  })

  test('keeps the last number of its chat, also when retention comes after it', async (t) => {
    const on = await open(t, engine)
    await on.talk(JID, 'old')
    await on.talk(JID, 'red')
    await on.begin(JID, 'red')
    await on.finish(JID)
    on.clock.advance(2000)
    const now = on.clock.now()
    const retention = { before: now - 1000, now, after: 0, limit: 10 }
    assert.equal((await on.write((tx) => removeMessages(tx, on.host.engine.dialect, retention))).removed, 1)
    await on.talk(JID, 'blue')
    const { events } = await on.read((tx) => eventsAfter(tx, { jid: JID, after: 4, limit: 9 }))
    assert.deepEqual(
      events.map(({ seq }) => seq),
      [5, 6],
    )
  })
})
