import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { onEveryEngine } from '../../test/support/host.ts'
import { addLink, postOf } from '../../test/support/rows.ts'
import { OTHER_ROOM, openSearchHost, ROOM } from '../../test/support/search-host.ts'
import type { ToolSession } from '../../test/support/tools.ts'
import { startTurn } from '../../test/support/turns.ts'
import {
  type Channel,
  ChannelError,
  type PlatformHistoryRequest,
  type PlatformMessage,
} from '../core/delivery/channel.ts'
import { outbox } from '../core/delivery/outbox.ts'
import { routeTokens } from '../core/links/route-tokens.ts'
import { createLinkPostHandler } from '../core/messages/link-inbound.ts'
import { deleteMessage } from '../core/messages/message-changes.ts'
import type { MessageView } from '../core/messages/message-view.ts'
import { messages } from '../core/messages/messages.ts'
import { checkClaimable } from '../core/turns/turn-claim.ts'
import { timestamp } from '../lib/clock.ts'
import { Refusal } from '../lib/refusal.ts'

const linkPostHandler = createLinkPostHandler()

interface Page {
  messages: MessageView[]
  count: number
  oldest: string
  source: string
  cap?: string
}

const TOOLS = ['fetch_history', 'get_thread', 'inspect_messages'] as const
const topicOf = (tool: string): object => (tool === 'get_thread' ? { topic: 't' } : {})

async function page(tools: ToolSession, tool: (typeof TOOLS)[number], args: object = {}): Promise<Page> {
  return (await tools.call(tool, { chat_jid: ROOM, ...topicOf(tool), ...args })) as Page
}

const contents = ({ messages }: Page): string => messages.map(({ content }) => content).join(' ')

/** A channel whose history comes from a function, which may throw. */
function platform(
  history: (request: PlatformHistoryRequest) => unknown,
  requests: PlatformHistoryRequest[] = [],
): Channel {
  return {
    name: 'fake',
    platform: 'fake',
    isInternal: false,
    isIdempotent: true,
    actions: {
      fetch_history: async (request) => {
        requests.push(request)
        // An adapter may return anything.
        return (await history(request)) as never
      },
    },
    hint: () => 'use inspect_messages(chat_jid)',
  }
}

const platformMessage = (id: string, timestamp: string, more: Partial<PlatformMessage> = {}): PlatformMessage => ({
  id,
  sender: 'fake:user/9',
  content: id,
  timestamp,
  ...more,
})

onEveryEngine('history tools', (engine) => {
  test('show the sender, time, chat and state of a message', async (t) => {
    const here = await openSearchHost(t, engine)
    const first = await here.receive('why?', {
      topic: 't',
      envelope: { platform_id: 'p1', sender_name: 'Ann', reply_to_id: 'p0', verb: 'mention' },
    })
    await here.receive('broken', { state: 'failed', reason: 'the run ended with 1' })
    await here.receive('new', { folder: undefined })
    const answer = await here.say('because', { topic: 't' })
    await here.host.engine.transaction((tx) =>
      outbox.update(tx, { id: answer.id }, { state: 'failed', error: 'the platform is closed' }),
    )
    await here.say('almost', { kind: 'status' })
    const tools = await here.open()
    const { messages: shown, ...rest } = await page(tools, 'inspect_messages')
    assert.deepEqual(rest, { count: 4, oldest: '2026-01-01T00:00:00.001Z', source: 'local-db' })
    assert.deepEqual(shown[0], {
      id: first.id,
      platform_id: 'p1',
      chat_jid: ROOM,
      direction: 'in',
      sender: 'fake:user/1',
      sender_name: 'Ann',
      content: 'why?',
      timestamp: '2026-01-01T00:00:00.001Z',
      topic: 't',
      verb: 'message',
      reply_to_id: 'p0',
      status: 'answered',
    })
    assert.deepEqual(
      shown.map(({ content, direction, status, error }) => [content, direction, status, error]),
      [
        ['why?', 'in', 'answered', undefined],
        ['broken', 'in', 'failed', 'the run ended with 1'],
        ['new', 'in', 'received', undefined],
        ['because', 'out', 'failed', 'the platform is closed'],
      ],
    )
    assert.equal(shown[3]?.sender, 'team')
    const thread = await page(tools, 'get_thread')
    assert.deepEqual(
      [contents(thread), thread.oldest, thread.source],
      ['why? because', '2026-01-01T00:00:00.001Z', 'local-db'],
    )
    const none = await page(tools, 'get_thread', { topic: 'other' })
    assert.deepEqual(none, { messages: [], count: 0, oldest: '', source: 'local-db' })
  })

  test('return the newest messages before a time, and the cursor of the next page', async (t) => {
    const here = await openSearchHost(t, engine)
    for (let count = 1; count <= 5; count++) await here.receive(`m${count}`, { topic: 't' })
    const tools = await here.open()
    for (const [tool, first, second] of [
      ['inspect_messages', 'm4 m5', 'm2 m3'],
      ['fetch_history', 'm4 m5', 'm2 m3'],
      ['get_thread', 'm4 m5', 'm2 m3'],
    ] as const) {
      const newest = await page(tools, tool, { limit: 2 })
      assert.deepEqual([contents(newest), newest.oldest], [first, '2026-01-01T00:00:00.004Z'])
      assert.equal(contents(await page(tools, tool, { limit: 2, before: newest.oldest })), second)
      // Exclusive, in any time zone.
      assert.equal(contents(await page(tools, tool, { limit: 9, before: '2026-01-01T01:00:00.002+01:00' })), 'm1')
      assert.equal((await page(tools, tool, { before: '9999-12-31T23:59:59-23:00' })).count, 5)
      assert.equal((await page(tools, tool, { before: '0001-01-01T00:00:00+23:00' })).count, 0)
    }
  })

  test('take an empty topic as the main topic', async (t) => {
    const here = await openSearchHost(t, engine)
    await here.receive('in the main topic')
    await here.receive('elsewhere', { topic: 't' })
    const tools = await here.open()
    assert.equal(contents(await page(tools, 'get_thread', { topic: '' })), 'in the main topic')
    assert.equal(contents(await page(tools, 'get_thread', { topic: 't' })), 'elsewhere')
  })

  test('page without gaps or repeats when many messages have the same time', async (t) => {
    const here = await openSearchHost(t, engine)
    const all: string[] = []
    for (const size of [3, 1, 7, 2]) {
      const some = Array.from({ length: size }, (_, at) => `${all.length + at}`)
      all.push(...some)
      await here.receiveAll(some)
    }
    const tools = await here.open('main')
    for (const limit of [1, 2, 3, 5, 200]) {
      const found: string[] = []
      for (let before: string | undefined; ; ) {
        const {
          messages: shown,
          oldest,
          count,
        } = await page(tools, 'inspect_messages', { limit, ...(before ? { before } : {}) })
        if (count === 0) break
        assert.ok(count <= limit)
        assert.equal(Date.parse(oldest), Date.parse(shown[0]?.timestamp ?? ''))
        found.unshift(...shown.map(({ content }) => content))
        before = oldest
      }
      assert.deepEqual(found, all)
    }
  })

  test('clamp the limit and refuse anything but a whole number', async (t) => {
    const here = await openSearchHost(t, engine)
    await here.host.engine.transaction(async (tx) => {
      for (let count = 0; count < 210; count++)
        await messages.append(tx, {
          ...{ id: `m${count}`, jid: ROOM, direction: 'in', kind: 'message', sender: 'x', topic: 't' },
          ...{ content: Buffer.from('x'), created_at: timestamp(count) },
        })
    })
    const tools = await here.open('main')
    for (const [tool, initial, max] of [
      ['fetch_history', 100, 200],
      ['inspect_messages', 100, 200],
      ['get_thread', 50, 100],
    ] as const) {
      const count = async (args: object) => (await page(tools, tool, args)).count
      assert.deepEqual(
        [await count({}), await count({ limit: 0 }), await count({ limit: -1 }), await count({ limit: 1e9 })],
        [initial, 1, 1, max],
      )
      assert.deepEqual(
        [await count({ limit: max }), await count({ limit: max + 1 }), await count({ limit: 1 })],
        [max, max, 1],
      )
      const ask = (args: object) => tools.refusal(tool, { chat_jid: ROOM, ...topicOf(tool), ...args })
      assert.equal(await ask({ limit: 1.9 }), 'limit must be a whole number')
      assert.equal(await ask({ limit: '10' }), 'limit must be a number')
      assert.equal(await ask({ limit: null }), 'limit must be a number')
      for (const before of [
        'yesterday',
        '2026-01-01',
        '2026-01-01T00:00:00',
        '0000-01-01T00:00:00Z',
        '2016-12-31T23:59:60Z',
        '2026-02-30T00:00:00Z',
        '',
        5,
      ])
        assert.match(await ask({ before }), /^before must be /, String(before))
      assert.equal(await ask({ more: 1 }), 'unknown field "more"')
      assert.match(await ask({ chat_jid: '../x' }), /^chat_jid must be names/)
      assert.equal(await ask({ chat_jid: undefined }), 'chat_jid is required')
      assert.equal(await ask({ chat_jid: 7 }), 'chat_jid must be text')
    }
    assert.equal(await tools.refusal('get_thread', { chat_jid: ROOM }), 'topic is required')
  })

  test('are permitted in the chats that the folder may send to', async (t) => {
    const here = await openSearchHost(t, engine)
    await here.groups('team/sub/x', 'team/sub/x/y')
    await here.addRoute('room=room/2 verb=mention', 'team/sub', -1)
    const [main, team, sub, other] = [
      await here.open('main'),
      await here.open(),
      await here.open('team/sub'),
      await here.open('other'),
    ]
    for (const tool of TOOLS) {
      const ask = (chat_jid: string) => ({ chat_jid, ...topicOf(tool) })
      for (const chat_jid of [ROOM, 'web:team', 'hook:team/ci', 'team', 'team/sub', 'web:team/sub', OTHER_ROOM])
        await team.call(tool, ask(chat_jid))
      // A folder that gets only the mentions.
      await sub.call(tool, ask(OTHER_ROOM))
      await main.call(tool, ask('fake:room/unrouted'))
      assert.equal(await other.refusal(tool, ask(ROOM)), `${tool}: the chat ${ROOM} belongs to a folder outside other`)
      assert.match(await sub.refusal(tool, ask('web:team')), /belongs to a folder outside team\/sub/)
      assert.match(await team.refusal(tool, ask('fake:room/unrouted')), /has no route in this instance/)
      assert.ok(!(await (await here.open('team/sub/x/y')).names()).includes(tool))
      await here.grant('folder:other', `mcp:${tool}`, 'other', 'deny', 'jid=fake:*/2')
      assert.match(await other.refusal(tool, ask(OTHER_ROOM)), new RegExp(`^${tool}: not permitted`))
      await other.call(tool, ask('web:other'))
    }
  })

  test('are permitted in the chat of the running turn', async (t) => {
    const here = await openSearchHost(t, engine)
    await startTurn(t, { ...here, host: here.host as never }, { folder: 'other', jid: ROOM, content: 'look here' })
    assert.equal(contents(await page(await here.open('other'), 'inspect_messages')), 'look here')
  })

  test("show only the caller's part of a link's chat that belonged to another folder", async (t) => {
    const here = await openSearchHost(t, engine)
    await here.receive('of other', { jid: 'web:shared', folder: 'other', target_folder: 'other' })
    await here.receive('of team', { jid: 'web:shared', folder: 'team', target_folder: 'team' })
    await addLink({ ...here, host: here.host as never }, 'web:shared', { target_folder: 'team' })
    const args = { chat_jid: 'web:shared' }
    assert.equal(contents(await page(await here.open(), 'inspect_messages', args)), 'of team')
    assert.equal(contents(await page(await here.open(), 'fetch_history', args)), 'of team')
    assert.equal(contents(await page(await here.open('main'), 'inspect_messages', args)), 'of other of team')
    const tools = await here.open()
    const found = (await tools.call('find_messages', { query: 'of', scope: 'web:shared' })) as { count: number }
    assert.equal(found.count, 1)
    await here.host.engine.transaction((tx) => routeTokens.remove(tx, { jid: 'web:shared' }))
  })

  test('include messages of a link that are not routed yet', async (t) => {
    const here = await openSearchHost(t, engine)
    const on = { ...here, host: here.host as never }
    const link = await addLink(on, 'web:team', { target_folder: 'team' })
    await here.host.engine.transaction((tx) =>
      linkPostHandler.run(tx, here.host.engine.dialect, [
        postOf(on, link, { topic: 't' }),
        postOf(on, link, { content: Buffer.from('two') }),
      ]),
    )
    const tools = await here.open()
    assert.equal(contents(await page(tools, 'inspect_messages', { chat_jid: 'web:team' })), 'hello two')
    assert.equal(contents(await page(tools, 'get_thread', { chat_jid: 'web:team' })), 'hello')
  })

  test('mark the start of an answer that was stopped', async (t) => {
    const here = await openSearchHost(t, engine)
    for (const is_partial of [true, false]) {
      const { seq } = await here.receive('half')
      await here.host.engine.transaction((tx) => messages.update(tx, { seq }, { is_partial }))
    }
    const { messages: shown } = await page(await here.open(), 'inspect_messages')
    assert.deepEqual(
      shown.map(({ partial }) => partial),
      [true, undefined],
    )
  })

  test('mark invalid UTF-8 and deleted messages', async (t) => {
    const here = await openSearchHost(t, engine)
    await here.receive(Uint8Array.from([0x61, 0xff, 0xfe, 0x00, 0x62]))
    const { seq } = await here.receive('regret')
    await here.host.engine.transaction((tx) => deleteMessage(tx, seq, timestamp(here.clock.now())))
    const { messages: shown } = await page(await here.open(), 'inspect_messages')
    assert.deepEqual(
      shown.map(({ content, invalid_utf8, deleted }) => [content, invalid_utf8, deleted]),
      [
        ['a\ufffd\ufffd\u0000b', true, undefined],
        ['', undefined, true],
      ],
    )
  })

  test('shorten long messages to keep the response below 1 MiB', async (t) => {
    const here = await openSearchHost(t, engine)
    await here.receive('short')
    for (const letter of ['ä', '\u0001', '"', '😀']) await here.receive(letter.repeat(300_000))
    const tools = await here.open()
    const answer = await page(tools, 'inspect_messages')
    const response = JSON.stringify({
      content: [{ type: 'text', text: JSON.stringify(answer) }],
      structuredContent: answer,
    })
    assert.ok(Buffer.byteLength(response) < 1024 * 1024, `${Buffer.byteLength(response)} bytes`)
    assert.equal(answer.messages[0]?.content, 'short')
    for (const { content } of answer.messages.slice(1)) {
      assert.match(content, /… \[\d+ more bytes\]$/)
      const [kept = ''] = content.split('… [')
      const [, more = ''] = /\[(\d+) more/.exec(content) ?? []
      assert.ok(kept.isWellFormed() && !kept.includes('\ufffd'))
      assert.equal(Buffer.byteLength(kept) + Number(more), Buffer.byteLength([...kept][0] ?? '') * 300_000)
    }
  })

  test('store the history of the platform without starting turns', async (t) => {
    const requests: PlatformHistoryRequest[] = []
    const channel = platform(
      () => ({
        messages: [
          platformMessage('h1', '2025-12-31T10:00:00+01:00', { senderName: 'Bob', replyTo: 'h0', topic: 't' }),
          platformMessage('h2', '2025-12-31T10:00:00Z', { isFromMe: true }),
          platformMessage('p1', '2026-01-01T00:00:00Z'),
          platformMessage('', '2025-12-31T11:00:00Z'),
          platformMessage('h3', 'last week'),
        ],
      }),
      requests,
    )
    const here = await openSearchHost(t, engine, { channel })
    await here.receive('known', { envelope: { platform_id: 'p1' } })
    const tools = await here.open()
    const before = '2026-01-02T00:00:00+01:00'
    for (let twice = 0; twice < 2; twice++) {
      const answer = await page(tools, 'fetch_history', { before, limit: 50 })
      assert.deepEqual([contents(answer), answer.source, answer.cap], ['h1 h2 known', 'platform', ''])
      assert.deepEqual([answer.count, answer.oldest], [3, '2025-12-31T09:00:00.000Z'])
      assert.deepEqual(
        answer.messages.map(({ direction, sender, status, platform_id }) => [direction, sender, status, platform_id]),
        [
          ['in', 'fake:user/9', 'observed', 'h1'],
          ['out', 'team', 'sent', 'h2'],
          ['in', 'fake:user/1', 'answered', 'p1'],
        ],
      )
    }
    assert.deepEqual(requests[0], { jid: ROOM, limit: 50, before: '2026-01-01T23:00:00.000Z' })
    // All tools see the stored history in order of time.
    assert.equal(contents(await page(tools, 'inspect_messages')), 'h1 h2 known')
    assert.equal(contents(await page(tools, 'get_thread')), 'h1')
    assert.equal(contents(await page(tools, 'inspect_messages', { before: '2025-12-31T10:00:00Z' })), 'h1')
    const found = (await tools.call('find_messages', { query: 'h1 OR h2' })) as { count: number }
    assert.equal(found.count, 2)
    assert.deepEqual(await here.routeAll(), [])
    const lease = { now: here.clock.now(), leaseMs: 1000 }
    assert.equal((await here.host.engine.read((tx) => checkClaimable(tx, lease))).hasClaimable, false)
    // Newer messages follow it.
    await here.receive('next')
    assert.equal(contents(await page(tools, 'inspect_messages', { limit: 2 })), 'known next')
  })

  test('drop fetched messages whose sender cannot be of the platform', async (t) => {
    const time = '2025-12-31T10:00:00Z'
    const senders = ['fake:user/9', 'anon:1', 'mia', 'github:1', 'folder:main', 'system', 'other:user/9']
    const history = senders.map((sender, at) => platformMessage(`h${at}`, time, { sender }))
    const here = await openSearchHost(t, engine, { channel: platform(() => ({ messages: history })) })
    const { messages } = await page(await here.open(), 'fetch_history')
    assert.deepEqual(
      messages.map(({ sender }) => sender),
      ['fake:user/9', 'anon:1', 'mia'],
    )
  })

  test('report the source of the history', async (t) => {
    let answer: () => unknown = () => ({ messages: [], cap: '24h' })
    const here = await openSearchHost(t, engine, { channel: platform(() => answer()) })
    await here.receive('kept')
    const tools = await here.open()
    const source = async (chat_jid = ROOM) => {
      const { source, cap, messages } = await page(tools, 'fetch_history', { chat_jid })
      return [source, cap, messages.length]
    }
    assert.deepEqual(await source(), ['platform-capped', '24h', 1])
    const failWith = (error: unknown) => (): never => {
      throw error
    }
    answer = failWith(new ChannelError('transient', 'down'))
    assert.deepEqual(await source(), ['cache', '', 1])
    answer = failWith(new Refusal('unsupported', 'unsupported: fetch_history on fake', 'use inspect_messages'))
    assert.deepEqual(await source(), ['unsupported', '', 1])
    for (const malformed of [undefined, null, 'x', { messages: 'x' }]) {
      answer = () => malformed
      assert.deepEqual(await source(), ['cache', '', 1])
    }
    assert.deepEqual(await source('team'), ['cache-only', '', 0])
    assert.deepEqual(await source('web:team'), ['unsupported', '', 0])
  })
})

test('the pages of any chat together contain all its messages in order of time', async (t) => {
  const here = await openSearchHost(t, 'sqlite')
  const tools = await here.open('main')
  let room = 0
  // The order of arrival and of time differ by some rows, as with two writing processes.
  const shift = fc.integer({ min: -3, max: 3 })
  await fc.assert(
    fc.asyncProperty(fc.array(shift, { maxLength: 30 }), fc.integer({ min: 1, max: 12 }), async (shifts, limit) => {
      const jid = `fake:any/${++room}`
      const stamps = shifts.map((shift, at) => timestamp(1_000_000 + at + shift))
      await here.host.engine.transaction(async (tx) => {
        for (const [at, created_at] of stamps.entries())
          await messages.append(tx, {
            ...{ id: `${room}-${at}`, jid, direction: 'in', kind: 'message', sender: 'x' },
            ...{ content: Buffer.from(`${at}`), created_at },
          })
      })
      if (room % 2 === 0) await here.receive('routes all earlier messages', { jid: 'fake:files' })
      const found: string[] = []
      for (let before: string | undefined; ; ) {
        const args = { chat_jid: jid, limit, ...(before ? { before } : {}) }
        const { messages: shown, oldest, count } = await page(tools, 'inspect_messages', args)
        if (count === 0) break
        found.unshift(...shown.map(({ content }) => content))
        before = oldest
      }
      const wanted = stamps
        .map((at, index) => ({ at, index }))
        .sort((a, b) => (a.at === b.at ? a.index - b.index : a.at < b.at ? -1 : 1))
      assert.deepEqual(
        found,
        wanted.map(({ index }) => `${index}`),
      )
    }),
    { numRuns: 60 },
  )
})
