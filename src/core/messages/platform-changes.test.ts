import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { type EngineName, isRefusal, onEveryEngine } from '../../../test/support/host.ts'
import { OTHER_ROOM, openSearchHost, ROOM } from '../../../test/support/search-host.ts'
import { run } from '../../../test/support/sql.ts'
import { timestamp } from '../../lib/clock.ts'
import { chatTopics, titleOf } from '../chats/chat-topics.ts'
import { listTopics } from '../chats/topic-list.ts'
import { outbox, recordOutbound, settleDelivery } from '../delivery/outbox.ts'
import { coreTables } from '../index.ts'
import { storageUse } from '../links/storage-use.ts'
import { onboarding } from '../people/onboarding.ts'
import { renderPrompt } from '../prompt/prompt.ts'
import { gatherPromptParts } from '../prompt/prompt-parts.ts'
import { conversations } from '../turns/conversations.ts'
import type { ClaimedTurn } from '../turns/turn-claim.ts'
import { envelopes } from './envelopes.ts'
import { inbox } from './inbox.ts'
import { retryMessage } from './message-retries.ts'
import { readReceivedStory } from './message-story.ts'
import { decodeContent, messages } from './messages.ts'
import { changeFromPlatform, DELETED_REASON, type PlatformChange } from './platform-changes.ts'
import { type PlatformInbound, receiveFromPlatform } from './platform-inbound.ts'
import { removeMessages } from './retention.ts'

/** `team` observes it. */
const OBSERVED_ROOM = 'fake:room/3'
const SENDER = 'fake:user/1'

async function open(t: TestContext, engine: EngineName) {
  const talk = await openConversationHost(t, engine)
  const here = await openSearchHost(t, engine, { on: talk })
  await talk.groups('main', 'team', 'other')
  await here.addRoute('room=room/1', 'team')
  await here.addRoute('room=room/3', 'team#observe')
  const { host, clock } = here
  const context = { dialect: host.engine.dialect, clock, random: host.random }
  const { read, write } = talk
  const find = async (id: string) => (await read((tx) => messages.find(tx, { id }))) ?? assert.fail('no such message')
  return {
    ...here,
    ...talk,
    /** Receives a message, by default without routing it. Returns svc's id. */
    post: async (platform_id: string, content: string, over: Partial<PlatformInbound> = {}): Promise<string> => {
      clock.advance(1)
      const inbound = { jid: ROOM, sender: SENDER, source: 'faked', platform_id, content, ...over }
      const received = await write((tx) => receiveFromPlatform(tx, context, inbound))
      return received?.id ?? assert.fail('it was ignored')
    },
    change: (target_id: string, over: Partial<PlatformChange> = {}) => {
      clock.advance(1)
      const verb = over.content === undefined ? 'delete' : 'edit'
      return write((tx) => changeFromPlatform(tx, context, { verb, jid: ROOM, sender: SENDER, target_id, ...over }))
    },
    /** The agent's message in the room, sent with this platform id. */
    reply: (claimed: ClaimedTurn, platform_id: string, content: string) =>
      write(async (tx) => {
        const { id: turn_id, folder, jid, chat_topic: topic } = claimed.turn
        const out = { jid, topic, folder, turn_id, content, leaseMs: 1000 }
        const sent = await recordOutbound(tx, context, host.rules, out)
        await settleDelivery(tx, context, host.rules, sent, { state: 'sent', platform_id })
        return sent.id
      }),
    /** The prompt of a turn, as it is when the turn starts. */
    prompt: (claimed: ClaimedTurn): Promise<string> =>
      write(async (tx) => {
        const { rules } = host
        const routes = await host.routes.read(tx)
        const files = { files: {}, filesPath: '/files', timeZone: 'UTC' }
        const gathered = await gatherPromptParts(
          tx,
          { instance: 'demo', now: clock.now(), rules, routes, ...files },
          claimed,
        )
        const { folder, topic } = claimed.turn
        await conversations.update(tx, { folder, topic }, { observed_seq: gathered.observed_seq })
        return renderPrompt(gathered.parts).replace(/^[\s\S]*<messages>\n|\n<\/messages>$/g, '')
      }),
    textOf: async (id: string) => decodeContent((await find(id)).content),
    envelopeOf: async (id: string) => {
      const { seq } = await find(id)
      return (await read((tx) => envelopes.find(tx, { message_seq: seq }))) ?? assert.fail('no envelope')
    },
    notices: () => read((tx) => inbox.list(tx, { state: 'observed', sender: SENDER })),
    waiting: async () => (await read((tx) => conversations.find(tx, { folder: 'team', topic: '' })))?.waiting,
    hasTurn: async () => (await talk.claim()) !== undefined,
  }
}

/** The rows of a prompt without ids and times. */
const plain = (prompt: string): string =>
  prompt.replace(/ (id="[0-9a-f-]{36}"|time="[^"]*"|ago="\w+"|chat_id="[^"]*"|platform="fake")/g, '')

onEveryEngine('a change of a message on its platform', (engine) => {
  test('that waits: the turn is shown the new text, and nothing else', async (t) => {
    const on = await open(t, engine)
    const id = await on.post('1', 'helo')
    await on.routeAll()
    assert.deepEqual(await on.change('1', { content: 'hello', changed_at: '2020-01-01T00:00:00.000Z' }), {
      ...{ id, isNew: true, keys: [ROOM] },
    })
    assert.deepEqual([await on.waiting(), await on.notices()], [1, []])
    assert.equal((await on.envelopeOf(id)).edited_at, '2020-01-01T00:00:00.000Z')
    assert.equal(
      plain(await on.prompt(await on.mustClaim())),
      '<message sender="fake:user/1" platform_id="1">hello</message>',
    )
  })

  test('that waits: a deletion ends it without a turn, and others still wait', async (t) => {
    const on = await open(t, engine)
    const [first, second] = [await on.post('1', 'one'), await on.post('2', 'two')]
    await on.routeAll()
    await on.change('1')
    const { state, reason } = await on.state(first)
    assert.deepEqual([state, reason, await on.waiting(), await on.notices()], ['silent', DELETED_REASON, 1, []])
    const { messages: claimed } = await on.mustClaim()
    assert.deepEqual(
      claimed.map(({ row }) => row.id),
      [second],
    )
    await on.change('2')
    assert.equal((await on.state(second)).state, 'running')
  })

  test('that is not routed yet: routing reads the new text', async (t) => {
    const on = await open(t, engine)
    const id = await on.post('1', '/ping')
    await on.change('1', { content: 'ping' })
    await on.routeAll()
    assert.equal((await on.state(id)).state, 'waiting')
    assert.deepEqual(await on.notices(), [])
  })

  test('that is not routed yet: a deletion ends it, without a command, a greeting or onboarding', async (t) => {
    const on = await open(t, engine)
    const unrouted = { jid: 'fake:room/9' }
    const ids = [await on.post('1', '/ping'), await on.post('1', 'hello', unrouted)]
    await on.change('1')
    await on.change('1', unrouted)
    await on.routeAll()
    for (const id of ids) {
      const { state, reason } = await on.state(id)
      assert.deepEqual([state, reason], ['silent', DELETED_REASON])
    }
    assert.deepEqual(await on.read((tx) => outbox.list(tx)), [])
    assert.deepEqual(await on.read((tx) => onboarding.list(tx)), [])
    assert.equal(await on.hasTurn(), false)
  })

  test('that a turn has: the next turn is told, and none starts for it', async (t) => {
    const on = await open(t, engine)
    await on.post('1', 'the old text')
    await on.routeAll()
    const first = await on.mustClaim()
    // A command and a mention in an edit are only text.
    await on.change('1', { content: '/new @team please', sender_name: 'Mia' })
    await on.routeAll()
    await on.end(first.turn)
    assert.deepEqual([await on.hasTurn(), await on.waiting()], [false, 0])
    assert.deepEqual(await on.read((tx) => outbox.list(tx)), [])
    await on.post('2', 'and now?')
    await on.routeAll()
    const second = await on.mustClaim()
    assert.equal(
      plain(await on.prompt(second)),
      [
        '<reply-to id="1" sender="fake:user/1"/>',
        '<observed sender="Mia" sender_id="fake:user/1" verb="edit" source="team">/new @team please</observed>',
        '<message sender="fake:user/1" platform_id="2">and now?</message>',
      ].join('\n'),
    )
    await on.end(second.turn)
    await on.post('3', 'thanks')
    await on.routeAll()
    assert.doesNotMatch(await on.prompt(await on.mustClaim()), /please/)
  })

  test('that was answered: only the last change is shown, with the text as it is now', async (t) => {
    const on = await open(t, engine)
    await on.post('1', 'first text')
    await on.routeAll()
    await on.end((await on.mustClaim()).turn)
    await on.change('1', { content: 'second text' })
    await on.change('1', { content: 'third text' })
    await on.post('2', 'next')
    await on.routeAll()
    const turn = await on.mustClaim()
    assert.match(
      plain(await on.prompt(turn)),
      /^<reply-to.*\/>\n<observed [^>]*verb="edit"[^>]*>third text<\/observed>\n<message/,
    )
    await on.end(turn.turn)
    await on.change('1', { content: 'fourth text' })
    await on.change('1')
    await on.post('3', 'next')
    await on.routeAll()
    const prompt = plain(await on.prompt(await on.mustClaim()))
    assert.match(prompt, /^<reply-to id="1"[^>]*\/>\n<observed [^>]*verb="delete"[^>]*><\/observed>\n<message/)
    assert.doesNotMatch(prompt, / text/)
  })

  test('is told to the conversation of the message only', async (t) => {
    const on = await open(t, engine)
    await on.post('1', 'hello', { topic: 'bills' })
    await on.routeAll()
    await on.end((await on.mustClaim()).turn)
    await on.change('1', { content: 'the change' })
    await on.post('2', 'of the main topic')
    await on.routeAll()
    const main = await on.mustClaim()
    assert.doesNotMatch(await on.prompt(main), /the change/)
    await on.end(main.turn)
    await on.post('3', 'again', { topic: 'bills' })
    await on.routeAll()
    assert.match(await on.prompt(await on.mustClaim()), /thread="bills" source="team">the change</)
  })

  test('that is observed: it is shown as it is now; each conversation that has seen it is told', async (t) => {
    const on = await open(t, engine)
    const observed = { jid: OBSERVED_ROOM }
    for (const id of ['1', '2']) await on.post(id, `word ${id}`, observed)
    await on.routeAll()
    await on.change('1', { ...observed, content: 'early change' })
    await on.change('2', observed)
    const ask = async (id: string, topic?: string): Promise<string> => {
      await on.post(id, 'hello', { topic })
      await on.routeAll()
      const claimed = await on.mustClaim()
      const prompt = plain(await on.prompt(claimed))
      await on.end(claimed.turn)
      return prompt
    }
    const shown =
      '<observed sender="fake:user/1" platform_id="1" source="team">early change</observed>\n<message sender'
    assert.equal((await ask('a')).slice(0, shown.length), shown)
    await on.change('1', { ...observed, content: 'late change' })
    assert.match(await ask('b'), /^<reply-to id="1"[^>]*\/>\n<observed [^>]*verb="edit"[^>]*>late change</)
    assert.match(
      await ask('c', 'bills'),
      /^<observed sender="fake:user\/1" platform_id="1" source="team">late change<\/observed>\n<message/,
    )
  })

  test('that the agent sent: the conversation of its turn is told', async (t) => {
    const on = await open(t, engine)
    await on.post('1', 'hello', { topic: 'bills' })
    await on.routeAll()
    const first = await on.mustClaim()
    const id = await on.reply(first, '50', 'the answer')
    await on.end(first.turn)
    await on.change('50', { sender: 'fake:moderator' })
    assert.equal(await on.textOf(id), '')
    await on.post('2', 'again', { topic: 'bills' })
    await on.routeAll()
    const prompt = plain(await on.prompt(await on.mustClaim()))
    assert.match(
      prompt,
      /^<reply-to id="50" sender="team"\/>\n<observed sender="fake:moderator" verb="delete" thread="bills"/,
    )
    assert.doesNotMatch(prompt, /the answer/)
  })

  test('a removed reaction is told, and the message stays', async (t) => {
    const on = await open(t, engine)
    await on.post('1', 'hello')
    await on.routeAll()
    const first = await on.mustClaim()
    const id = await on.reply(first, '50', 'the answer')
    await on.end(first.turn)
    await on.change('50', { verb: 'unlike', content: '👍', event_id: 'e1' })
    assert.equal(await on.textOf(id), 'the answer')
    assert.equal(await on.hasTurn(), false)
    await on.post('2', 'next')
    await on.routeAll()
    assert.match(
      plain(await on.prompt(await on.mustClaim())),
      /^<reply-to id="50" sender="team">the answer<\/reply-to>\n<observed sender="fake:user\/1" verb="unlike" source="team">👍<\/observed>/,
    )
  })

  test('is recorded once', async (t) => {
    const on = await open(t, engine)
    const id = await on.post('1', 'one')
    await on.routeAll()
    await on.mustClaim()
    const repeat = { id, isNew: false, keys: [] }
    const at = (second: number): string => `2020-01-01T00:00:0${second}.000Z`
    assert.deepEqual(await on.change('1', { content: 'one' }), repeat)
    const edit = { content: 'two', changed_at: at(5), event_id: 'e1' }
    assert.equal('isNew' in (await on.change('1', edit)), true)
    assert.deepEqual(await on.change('1', edit), repeat)
    // The id of an event is not that of a message.
    assert.notEqual(await on.post('e1', 'a message'), id)
    // An earlier edit that arrives late; one of the same second is later.
    assert.deepEqual(await on.change('1', { content: 'late', changed_at: at(4) }), repeat)
    assert.equal(await on.textOf(id), 'two')
    await on.change('1', { content: 'three', changed_at: at(5) })
    assert.equal(await on.textOf(id), 'three')
    // The first event again.
    assert.deepEqual(await on.change('1', edit), repeat)
    await on.change('1')
    assert.deepEqual([await on.change('1'), await on.change('1', { content: 'four' })], [repeat, repeat])
    assert.equal(await on.textOf(id), '')
    assert.deepEqual(
      (await on.notices()).map(({ verb }) => verb),
      ['edit', 'edit', 'delete'],
    )
  })

  test('with a time in the future does not hold back later changes', async (t) => {
    const on = await open(t, engine)
    const id = await on.post('1', 'one')
    await on.change('1', { content: 'two', changed_at: '2999-01-01T00:00:00.000Z' })
    await on.change('1', { content: 'three', changed_at: timestamp(on.clock.now() + 1) })
    assert.equal(await on.textOf(id), 'three')
  })

  test('keeps the attachments unless it has others', async (t) => {
    const on = await open(t, engine)
    const file = (name: string): string => JSON.stringify([{ filename: name, data: 'YQ==' }])
    const id = await on.post('1', 'one', { attachments: file('a') })
    const edit = { content: 'two', changed_at: '2020-01-01T00:00:00.000Z' }
    await on.change('1', edit)
    assert.equal((await on.envelopeOf(id)).attachments, file('a'))
    assert.deepEqual(await on.change('1', { ...edit, attachments: file('b') }), { id, isNew: false, keys: [] })
    await on.change('1', { content: 'two', attachments: file('b') })
    assert.equal((await on.envelopeOf(id)).attachments, file('b'))
    await on.change('1')
    assert.equal((await on.envelopeOf(id)).attachments, undefined)
  })

  test('of an unknown message, or by the agent, is ignored', async (t) => {
    const on = await open(t, engine)
    const id = await on.post('1', 'one')
    await on.post('9', 'nine', { jid: OTHER_ROOM })
    for (const target of ['none', id, '9'])
      assert.deepEqual(await on.change(target, { content: 'x' }), {
        ignored: `there is no message ${target} in ${ROOM}`,
      })
    assert.deepEqual(await on.change('1', { content: 'x', is_from_me: true }), { ignored: 'the agent did it' })
    assert.equal(await on.textOf(id), 'one')
  })

  test('is not in histories and searches', async (t) => {
    const on = await open(t, engine)
    const id = await on.post('1', 'plum')
    await on.routeAll()
    await on.end((await on.mustClaim()).turn)
    await on.change('1', { content: 'quince' })
    await on.change('1', { verb: 'unlike', content: '👍' })
    const tools = await on.open('team')
    for (const name of ['fetch_history', 'inspect_messages', 'get_thread']) {
      const args = { chat_jid: ROOM, ...(name === 'get_thread' ? { topic: '' } : {}) }
      const { messages: shown } = (await tools.call(name, args)) as { messages: Record<string, unknown>[] }
      assert.deepEqual(
        shown.map((each) => [each.id, each.content, each.edited]),
        [[id, 'quince', true]],
        name,
      )
    }
    const count = async (query: string): Promise<number> =>
      ((await tools.call('find_messages', { query })) as { count: number }).count
    assert.deepEqual([await count('plum'), await count('quince'), await count('"👍"')], [0, 1, 0])
  })
})

onEveryEngine('the text of a deleted message', (engine) => {
  test('is in no table and in no answer of a tool', async (t) => {
    const on = await open(t, engine)
    const text = 'persimmon and more'
    const attachments = JSON.stringify([{ filename: 'persimmon.ogg', transcript: 'persimmon' }])
    const id = await on.post('1', text, { topic: 'fruit', attachments, link_context: 'persimmon' })
    await on.post('2', 'what?', { topic: 'fruit', reply_to_id: '1' })
    await on.post('3', 'what?', { topic: 'fruit', reply_to_id: id, reply_to_text: 'a persimmon' })
    await on.routeAll()
    const claimed = await on.mustClaim()
    assert.match(await on.prompt(claimed), /persimmon/)
    await on.end(claimed.turn)
    await on.change('1', { verb: 'unlike', content: '👍' })
    await on.change('1', { content: 'a persimmon tree' })
    await on.change('1')
    // A reply that arrives late.
    await on.post('4', 'why?', { topic: 'fruit', reply_to_id: '1', reply_to_text: 'a persimmon' })
    await on.routeAll()
    const found: string[] = []
    for (const { name } of coreTables) {
      const { rows } = await on.read((tx) => run(tx, `select * from ${name}`))
      const values = rows.flatMap((row) => Object.values(row))
      const texts = values.map((value) => (value instanceof Uint8Array ? decodeContent(value) : String(value)))
      if (texts.some((each) => each.includes('persimmon'))) found.push(name)
    }
    assert.deepEqual(found, [])
    const tools = await on.open('team')
    const chat = { chat_jid: ROOM }
    const answers = [
      await tools.call('fetch_history', chat),
      await tools.call('inspect_messages', chat),
      await tools.call('get_thread', { ...chat, topic: 'fruit' }),
      await tools.call('find_messages', { query: 'persimmon' }),
      await on.read((tx) => readReceivedStory(tx, () => on.host.routes.read(tx), id)),
      await on.read((tx) => listTopics(tx, { jid: ROOM, folder: 'team', limit: 5 })),
      await on.prompt(await on.mustClaim()),
    ]
    for (const answer of answers) assert.doesNotMatch(JSON.stringify(answer), /persimmon/)
    // The next message of the topic gives it its title.
    const topic = await on.read((tx) => chatTopics.find(tx, { jid: ROOM, topic: 'fruit' }))
    assert.equal(topic && titleOf(topic), 'why?')
  })

  test('is not handed to a folder again', async (t) => {
    const on = await open(t, engine)
    const id = await on.post('1', 'hello')
    await on.routeAll()
    await on.end((await on.mustClaim()).turn, { outcome: 'failed', reason: 'it broke' })
    await on.change('1')
    const context = { ...on.host, dialect: on.host.engine.dialect, actor: 'host' }
    await assert.rejects(
      on.write((tx) => retryMessage(tx, { ...context, routes: () => on.host.routes.read(tx) }, id)),
      isRefusal('conflict', `message ${id} was deleted in its chat`),
    )
  })

  test('is marked in the prompt of a turn that is tried again', async (t) => {
    const on = await open(t, engine)
    await on.post('1', 'hello')
    await on.routeAll()
    const { turn } = await on.mustClaim()
    await on.change('1')
    on.clock.advance(60_000)
    const again = await on.mustClaim()
    assert.equal(again.turn.id, turn.id)
    assert.match(await on.prompt(again), /<message [^>]*deleted="true"[^>]*><\/message>/)
  })
})

onEveryEngine('retention', (engine) => {
  test('removes changed messages and notices, and counts their bytes', async (t) => {
    const on = await open(t, engine)
    const attachments = JSON.stringify([{ url: 'https://example.com/a.png' }])
    for (const id of ['1', '2', '3']) await on.post(id, 'hello', { attachments, link_context: 'read this' })
    await on.routeAll()
    await on.end((await on.mustClaim()).turn)
    await on.change('1', { content: 'a longer text' })
    await on.change('2', { content: 'a', attachments: '[]' })
    await on.change('3')
    await on.routeAll()
    on.clock.advance(1)
    const now = on.clock.now()
    const { removed } = await on.write((tx) =>
      removeMessages(tx, on.host.engine.dialect, { before: now, now, after: 0, limit: 100 }),
    )
    assert.equal(removed, 6)
    for (const { name } of [messages, envelopes, inbox])
      assert.equal((await on.read((tx) => run(tx, `select * from ${name}`))).rows.length, 0, name)
    assert.deepEqual(
      (await on.read((tx) => storageUse.list(tx))).map(({ name, bytes }) => [name, bytes]),
      [[ROOM, 0]],
    )
  })
})
