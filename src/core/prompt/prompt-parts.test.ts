import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { addFileRows, chatFile } from '../../../test/support/chat-files.ts'
import { type EngineName, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { upsertChat } from '../chats/chats.ts'
import { outbox, recordOutbound } from '../delivery/outbox.ts'
import { type Envelope, envelopes } from '../messages/envelopes.ts'
import { type InboundMessage, recordInbound } from '../messages/inbound.ts'
import { type InboxState, inbox } from '../messages/inbox.ts'
import { messages } from '../messages/messages.ts'
import { compileRoutes } from '../routing/route-table.ts'
import { conversations, sessionLog } from '../turns/conversations.ts'
import type { ClaimedTurn } from '../turns/turn-claim.ts'
import { DEFAULT_TURN_RULES } from '../turns/turn-rules.ts'
import { type Turn, turns } from '../turns/turns.ts'
import { renderPrompt } from './prompt.ts'
import { type GatheredPrompt, gatherPromptParts, type PromptContext } from './prompt-parts.ts'

type TurnMessage = ClaimedTurn['messages'][number]

interface PromptTest extends TestHost {
  write<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  ask(content: string | Uint8Array, over?: Partial<InboundMessage>, envelope?: Partial<Envelope>): Promise<TurnMessage>
  observe(content: string): Promise<TurnMessage>
  gather(
    incoming: readonly TurnMessage[],
    turn?: Partial<Turn>,
    context?: Partial<PromptContext>,
  ): Promise<GatheredPrompt>
}

const JID = 'telegram:42'

async function open(t: TestContext, engine: EngineName): Promise<PromptTest> {
  const on = await testHost(t, engine)
  await on.groups('main', 'team', 'team/support')
  const { host, clock } = on
  const writeContext = { dialect: host.engine.dialect, clock, random: host.random }
  const write: PromptTest['write'] = (work) => host.engine.transaction(work)
  const add = (inbound: InboundMessage, state: InboxState): Promise<TurnMessage> =>
    write(async (tx) => {
      const { id, seq } = await recordInbound(tx, writeContext, inbound)
      const row = {
        message_seq: seq,
        id,
        jid: inbound.jid,
        folder: 'team',
        topic: '',
        chat_topic: inbound.topic ?? '',
        sender: inbound.sender,
        verb: 'message',
        state,
        updated_at: timestamp(clock.now()),
      }
      await inbox.insert(tx, row)
      const message = await messages.find(tx, { seq })
      assert.ok(message)
      return { row, message, envelope: await envelopes.find(tx, { message_seq: seq }) }
    })
  return {
    ...on,
    write,
    ask: (content, over = {}, envelope) =>
      add(
        { jid: JID, sender: 'telegram:7', content, reach: 'all', ...over, ...(envelope ? { envelope } : {}) },
        'running',
      ),
    observe: (content) => add({ jid: JID, sender: 'telegram:8', content, reach: 'all' }, 'observed'),
    gather: (incoming, over = {}, context = {}) => {
      const last = incoming.at(-1)
      const turn: Turn = {
        id: last?.row.id ?? 'none',
        folder: 'team',
        topic: '',
        jid: last?.row.jid ?? JID,
        chat_topic: '',
        sender: 'telegram:7',
        first_seq: 1,
        last_seq: 1,
        message_count: incoming.length,
        state: 'running',
        attempts: 1,
        fence: 1,
        leased_until: 0,
        run_after: 0,
        replies: 0,
        depth: 0,
        is_isolated: false,
        is_timed: false,
        is_guest: false,
        is_stopping: false,
        started_at: timestamp(clock.now()),
        ...over,
      }
      const promptContext: PromptContext = {
        instance: 'test',
        now: clock.now(),
        timeZone: 'UTC',
        rules: DEFAULT_TURN_RULES,
        routes: compileRoutes([]),
        files: {},
        filesPath: '/home/files',
        ...context,
      }
      return host.engine.read((tx) =>
        gatherPromptParts(tx, promptContext, { turn, messages: incoming, moneyCents: turn.money_cents }),
      )
    },
  }
}

const textsOf = ({ parts }: GatheredPrompt): (string | undefined)[] =>
  parts.rows.map(({ content }) => (typeof content === 'string' ? content : Buffer.from(content).toString()))

onEveryEngine('prompt parts', (engine) => {
  test('include the messages of the turn and the observed ones, with the last number', async (t) => {
    const on = await open(t, engine)
    await on.observe('lunch?')
    const incoming = await on.ask('how much?')
    const last = await on.observe('soup!')
    const gathered = await on.gather([incoming])
    assert.deepEqual(
      gathered.parts.rows.toSorted((a, b) => a.seq - b.seq).map(({ seq, observedBy }) => [seq, observedBy]),
      [
        [incoming.message.seq - 1, 'team'],
        [incoming.message.seq, undefined],
        [incoming.message.seq + 1, 'team'],
      ],
    )
    assert.equal(gathered.observed_seq, last.message.seq)
  })

  test('include the event of a verified webhook', async (t) => {
    const on = await open(t, engine)
    const incoming = await on.ask('{}', { jid: 'hook:team/github', sender: 'github' })
    const message = { ...incoming.message, event: 'push' }
    const { parts } = await on.gather([{ ...incoming, message }])
    assert.deepEqual(
      parts.rows.map(({ event }) => event),
      ['push'],
    )
  })

  test('of a visitor include no observed messages and no notes of the agent', async (t) => {
    const on = await open(t, engine)
    await on.observe('lunch?')
    const incoming = await on.ask('how much?', { jid: 'web:team', sender: 'anon:1', reach: 'chat' })
    const files = {
      persona: { name: 'Ann', summary: 'brief' },
      work: 'the plan',
      diary: [{ name: 'd', text: 'diary' }],
    }
    const turn = { jid: 'web:team', topic: 'visitor:web:team#bills', reach: 'chat' as const, money_cents: 5 }
    const gathered = await on.gather([incoming], turn, { files })
    const { parts } = gathered
    assert.deepEqual([textsOf(gathered), parts.knowledge, parts.topic], [['how much?'], [], 'bills'])
    assert.equal(parts.moneyCents, undefined)
    assert.deepEqual(parts.persona, files.persona)
    const all = await on.gather([incoming], { ...turn, topic: 'bills', reach: 'all' }, { files })
    assert.deepEqual(textsOf(all).sort(), ['how much?', 'lunch?'])
    assert.deepEqual(
      all.parts.knowledge?.map(({ layer }) => layer),
      ['work', 'diary'],
    )
  })

  test('name the agent as people see it', async (t) => {
    const on = await open(t, engine)
    const incoming = await on.ask('who are you?')
    const named = async (name: string, group?: { folder: string; name: string }) => {
      const files = { persona: { name, summary: 'brief' } }
      return (await on.gather([incoming], {}, { assistantName: 'Kim', group, files })).parts.persona?.name
    }
    assert.deepEqual([await named(''), await named('Ann')], ['team', 'Ann'])
    const [main, team] = [
      { folder: 'main', name: 'main' },
      { folder: 'team', name: 'Desk' },
    ]
    assert.deepEqual([await named('', main), await named('Ann', main)], ['Kim', 'Ann'])
    assert.deepEqual([await named('', team), await named('Ann', team)], ['Desk', 'Desk'])
    const { parts } = await on.gather([incoming], {}, { assistantName: 'Kim', files: {} })
    assert.equal(parts.persona, undefined)
  })

  test('use the link context of the newest message, even if it has none', async (t) => {
    const on = await open(t, engine)
    const link = { jid: 'web:team' }
    const one = await on.ask('one', { ...link, link_context: 'a shop' })
    const two = await on.ask('two', { ...link, link_context: 'a bank' })
    const three = await on.ask('three', link)
    assert.equal((await on.gather([one, two])).parts.linkContext, 'a bank')
    const { parts } = await on.gather([one, two, three])
    assert.equal(parts.linkContext, undefined)
    assert.equal(parts.surface, 'web')
  })

  test('have what the client sent beside each message, but repeat no system prompt', async (t) => {
    const on = await open(t, engine)
    const ask = (content: string, client_context: object) =>
      on.ask(content, { jid: 'web:team', topic: 'chat', client_context })
    const one = await ask('one', { system: 'Be brief.', metadata: { page: '/' } })
    const two = await ask('two', { system: 'Be brief.', history: [{ role: 'user', content: 'hi' }] })
    const three = await ask('three', { system: 'Be long.' })
    const contexts = ({ parts }: GatheredPrompt) => parts.rows.map(({ clientContext }) => clientContext)
    assert.deepEqual(contexts(await on.gather([one, two, three])), [
      { system: 'Be brief.', metadata: { page: '/' } },
      { history: [{ role: 'user', content: 'hi' }] },
      { system: 'Be long.' },
    ])
    assert.deepEqual(contexts(await on.gather([two])), [two.message.client_context], 'there is no session')
    const log = { folder: 'team', topic: '', event: 'turn' as const, message_count: 1 }
    const times = { started_at: timestamp(on.clock.now()), ended_at: timestamp(on.clock.now()) }
    await on.write(async (tx) => {
      const row = { folder: 'team', topic: '', waiting: 0, observed_seq: 0, session_id: 's1' }
      await conversations.insert(tx, { ...row, updated_at: times.ended_at })
      await sessionLog.append(tx, { ...log, ...times, session_id: 's1' })
    })
    assert.deepEqual(contexts(await on.gather([two])), [{ history: [{ role: 'user', content: 'hi' }] }])
    assert.deepEqual(contexts(await on.gather([one])), [one.message.client_context])
    assert.deepEqual(contexts(await on.gather([three])), [three.message.client_context])
    await on.write((tx) => sessionLog.append(tx, { ...log, ...times, session_id: 's1', error: 'failed' }))
    assert.deepEqual(contexts(await on.gather([two])), [two.message.client_context], 'the session may not have it')
  })

  test('use the platform of the reply as the surface', async (t) => {
    const on = await open(t, engine)
    const surface = async (jid: string, verb = 'message') =>
      (await on.gather([await on.ask('x', {}, { verb })], { jid })).parts.surface
    assert.equal(await surface('hook:team/ci'), 'hook')
    assert.equal(await surface('discord:1/2'), 'discord')
    assert.equal(await surface('team'), 'internal')
    assert.equal(await surface('slack:C1', 'pane_open'), 'slack-pane')
  })

  test('show a message without its directive, and a webhook post unchanged', async (t) => {
    const on = await open(t, engine)
    const directed = [await on.ask('#bills how much?'), await on.ask('/new #bills again?')]
    assert.deepEqual(textsOf(await on.gather(directed, { topic: 'bills' })), ['how much?', 'again?'])
    const other = await on.ask('#bills how much?')
    assert.deepEqual(textsOf(await on.gather([other], { topic: '' })), ['#bills how much?'])
    const hook = await on.ask('/new #bills again?', { jid: 'hook:team/ci', sender: 'ci' })
    assert.deepEqual(textsOf(await on.gather([hook], { topic: 'bills' })), ['/new #bills again?'])
    const bytes = await on.ask(Buffer.concat([Buffer.from('#bills '), Buffer.from([0xff])]))
    const [row] = (await on.gather([bytes], { topic: 'bills' })).parts.rows
    assert.deepEqual(Buffer.from(row?.content ?? ''), Buffer.from([0xff]))
  })

  test('include an excerpt and the sender of a replied message, even if the platform gives only its id', async (t) => {
    const on = await open(t, engine)
    const writeContext = { dialect: on.host.engine.dialect, clock: on.clock, random: on.host.random }
    await on.write(async (tx) => {
      const out = { jid: JID, topic: '', folder: 'team', content: 'It is 5.' }
      const { seq } = await recordOutbound(tx, writeContext, DEFAULT_TURN_RULES, out)
      await outbox.update(tx, { message_seq: seq }, { platform_id: '100' })
    })
    await on.ask('x'.repeat(2000), {}, { platform_id: '101' })
    const elsewhere = await on.ask('a secret', { jid: 'telegram:2' })
    const replies = [
      await on.ask('why?', {}, { reply_to_id: '100' }),
      await on.ask('why?', {}, { reply_to_id: '101' }),
      await on.ask('why?', {}, { reply_to_id: '102', reply_to_sender: 'Ann', reply_to_text: 'told' }),
      await on.ask('why?', {}, { reply_to_id: '103' }),
      await on.ask('why?', { jid: 'telegram:1' }, { reply_to_id: '100' }),
      await on.ask('why?', {}, { reply_to_id: elsewhere.row.id }),
    ]
    const { parts } = await on.gather(replies)
    assert.deepEqual(
      parts.rows.map(({ replyTo }) => ({ id: replyTo?.id, sender: replyTo?.sender, text: replyTo?.text })),
      [
        { id: '100', sender: 'team', text: 'It is 5.' },
        { id: '101', sender: 'telegram:7', text: `${'x'.repeat(1000)}…` },
        { id: '102', sender: 'Ann', text: 'told' },
        { id: '103', sender: undefined, text: undefined },
        { id: '100', sender: undefined, text: undefined },
        { id: elsewhere.row.id, sender: undefined, text: undefined },
      ],
    )
  })

  test('include the metadata that the platform gives for a message and its chat', async (t) => {
    const on = await open(t, engine)
    await on.write((tx) => upsertChat(tx, JID, { name: 'Shop' }))
    const attachments = JSON.stringify([{ path: '/home/node/media/a.png', mime: 'image/png', extra: 1 }])
    const metadata = { platform_id: '7', sender_name: 'Joe', forwarded_from: 'news', verb: 'mention', attachments }
    const incoming = [
      await on.ask('look', { topic: 'thread' }, metadata),
      await on.ask('x', {}, { attachments: 'nonsense' }),
    ]
    const [row, other] = (await on.gather(incoming)).parts.rows
    assert.deepEqual([row?.platformId, row?.senderName, row?.chatName, row?.thread], ['7', 'Joe', 'Shop', 'thread'])
    assert.deepEqual([row?.forwardedFrom, row?.verb], ['news', 'mention'])
    assert.deepEqual(row?.attachments, [{ path: '/home/node/media/a.png', mime: 'image/png' }])
    assert.equal(other?.attachments, undefined)
  })

  test('note a retry and its reason, which visitors do not see', async (t) => {
    const on = await open(t, engine)
    const incoming = [await on.ask('how much?')]
    assert.equal((await on.gather(incoming)).parts.note, undefined)
    const { parts } = await on.gather(incoming, { attempts: 2, reason: 'it hung' })
    assert.match(parts.note ?? '', /attempt 2 .*\(it hung\)/)
    const visitor = { jid: 'web:team', reach: 'chat' as const, attempts: 2, reason: 'no answer of model.internal' }
    assert.match(
      (await on.gather(incoming, visitor)).parts.note ?? '',
      /attempt 2 at the same messages: the previous attempt failed\./,
    )
    assert.equal(parts.rows[0]?.hasFailed, true)
  })

  test('name the folder that delegated a question', async (t) => {
    const on = await open(t, engine)
    const incoming = await on.ask('how much?')
    const { parts } = await on.gather([incoming])
    assert.equal(parts.origin, undefined)
    await on.write((tx) => turns.insert(tx, turnOf(incoming)))
    const envelope = { verb: 'delegate', depth: 2, from_turn: incoming.row.id, return_jid: 'web:main' }
    const delegated = await on.ask('how much?', { jid: 'team', sender: 'delegate' }, envelope)
    const origin = (await on.gather([delegated], { jid: 'web:main' })).parts.origin
    assert.deepEqual(origin, { kind: 'delegation', folder: 'main', jid: 'web:main', depth: 2 })
  })

  test('report a new day and a new session', async (t) => {
    const on = await open(t, engine)
    const incoming = [await on.ask('how much?')]
    const events = async (over?: Partial<Turn>) => (await on.gather(incoming, over)).parts.events
    assert.deepEqual(await events(), [])
    const started_at = timestamp(on.clock.now())
    const log = {
      folder: 'team',
      topic: '',
      event: 'turn' as const,
      message_count: 2,
      started_at,
      ended_at: started_at,
    }
    await on.write(async (tx) => {
      await sessionLog.append(tx, { ...log, session_id: 's1', result: 'answered' })
      await conversations.insert(tx, {
        folder: 'team',
        topic: '',
        waiting: 0,
        observed_seq: 0,
        session_id: 's1',
        updated_at: started_at,
      })
    })
    assert.deepEqual(await events(), [])
    on.clock.advance(24 * 3_600_000)
    assert.deepEqual(await events(), [{ event: 'new_day', text: 'It is 2026-01-02 now.' }])
    assert.deepEqual(await events({ is_isolated: true }), [])
    const patch = { session_id: undefined, note: 'It could not be resumed.' }
    await on.write((tx) => conversations.update(tx, { folder: 'team', topic: '' }, patch))
    const [, fresh] = await events()
    assert.deepEqual(fresh, {
      event: 'new_session',
      text: 'It could not be resumed.',
      previousSession: { id: 's1', started: started_at, ended: started_at, msgs: 2, result: 'answered' },
    })
  })

  test('include the files of the workspace unless they are blank', async (t) => {
    const on = await open(t, engine)
    const incoming = [await on.ask('how much?')]
    const diary = [{ name: '20260101', text: 'a quiet day' }]
    const files = { persona: { name: 'Ann', summary: 'calm' }, work: 'the plan', diary }
    const { parts } = await on.gather(incoming, { money_cents: 5 }, { files })
    assert.deepEqual(parts.knowledge, [
      { layer: 'work', text: 'the plan' },
      { layer: 'diary', text: '20260101\na quiet day' },
    ])
    assert.deepEqual([parts.persona, parts.moneyCents], [files.persona, 5])
    assert.deepEqual((await on.gather(incoming, {}, { files: { work: ' \n' } })).parts.knowledge, [])
  })

  test('list the files of messages, with a path only for those of the chat and the folder of the run', async (t) => {
    const on = await open(t, engine)
    const own = await on.ask('', { jid: 'web:team' })
    const elsewhere = await on.ask('and this?', { jid: 'web:team-2' })
    const replied = { reply_to_id: own.row.id, verb: 'message', depth: 0 }
    const reply = await on.ask('why?', { jid: 'web:team' }, replied)
    const observed = await on.observe('a photo')
    const at = (each: TurnMessage, name: string) => ({ message_seq: each.message.seq, name, folder: 'team' })
    await on.write((tx) =>
      addFileRows(
        tx,
        chatFile({ ...at(own, 'two.txt'), jid: 'web:team', position: 1 }),
        chatFile({
          ...at(own, 'voice.ogg'),
          jid: 'web:team',
          extension: 'ogg',
          type: 'audio/ogg',
          transcript: 'hello',
        }),
        chatFile({ ...at(elsewhere, 'other.txt'), jid: 'web:team-2' }),
        chatFile({ ...at(reply, 'moved.txt'), jid: 'web:team', folder: 'main', extension: '' }),
        chatFile({ ...at(observed, 'seen.txt'), jid: JID }),
      ),
    )
    const { parts, filesOf } = await on.gather([own, elsewhere, reply], { jid: 'web:team' })
    const rows = new Map(parts.rows.map((row) => [row.seq, row]))
    const filesIn = ({ message }: TurnMessage) => rows.get(message.seq)?.attachments
    const voice = { path: '/home/files/f-voice-ogg.ogg', mime: 'audio/ogg', filename: 'voice.ogg', transcript: 'hello' }
    const text = (path: string | undefined, filename: string) => {
      return { path, mime: 'text/plain', filename, transcript: undefined }
    }
    const two = text('/home/files/f-two-txt.txt', 'two.txt')
    assert.deepEqual(filesIn(own), [voice, two])
    assert.deepEqual(filesIn(elsewhere), [text(undefined, 'other.txt')])
    assert.deepEqual(filesIn(reply), [text(undefined, 'moved.txt')])
    assert.deepEqual(rows.get(reply.message.seq)?.replyTo?.attachments, [voice, two])
    const atPlatform = await on.gather([own], { jid: JID })
    const seen = atPlatform.parts.rows.find(({ seq }) => seq === observed.message.seq)
    assert.deepEqual(seen?.attachments, [text('/home/files/f-seen-txt.txt', 'seen.txt')])
    assert.deepEqual(
      filesOf.get(own.message.seq)?.map(({ id, path }) => [id, path]),
      [
        ['f-voice-ogg', voice.path],
        ['f-two-txt', two.path],
      ],
    )
    assert.equal(
      (await on.gather([reply], { jid: 'web:team' }, { filesPath: '/x' })).parts.rows[0]?.replyTo?.attachments?.[0]
        ?.path,
      '/x/f-voice-ogg.ogg',
    )
  })

  test('name the files of a message about which another agent asks, without their path and content', async (t) => {
    const on = await open(t, engine)
    const visitor = await on.ask('see the file', { jid: 'web:main' })
    await on.write((tx) => inbox.update(tx, { message_seq: visitor.message.seq }, { turn_id: visitor.row.id }))
    const { seq: message_seq } = visitor.message
    const file = chatFile({ message_seq, jid: 'web:main', folder: 'main', name: 'bill "1".txt', transcript: 'secret' })
    await on.write((tx) => addFileRows(tx, file))
    const envelope = { verb: 'delegate', depth: 1, from_turn: visitor.row.id, as_folder: 'team' }
    const question = await on.ask('what is due?', { jid: 'team', sender: 'delegate' }, envelope)
    const { parts } = await on.gather([question], { jid: 'team' })
    assert.deepEqual(parts.rows.at(-1)?.attachments, [{ mime: 'text/plain', filename: 'bill "1".txt' }])
    assert.match(
      renderPrompt(parts),
      /what is due\?\n<attachment mime="text\/plain" filename="bill &quot;1&quot;\.txt"\/><\/message>/,
    )
  })
})

function turnOf({ row }: TurnMessage): Turn {
  return {
    id: row.id,
    folder: 'main',
    topic: '',
    jid: 'web:main',
    chat_topic: '',
    sender: row.sender,
    first_seq: 1,
    last_seq: 1,
    message_count: 1,
    state: 'done',
    attempts: 1,
    fence: 1,
    leased_until: 0,
    run_after: 0,
    replies: 0,
    depth: 0,
    is_isolated: false,
    is_timed: false,
    is_guest: false,
    is_stopping: false,
    started_at: row.updated_at,
  }
}
