import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { addLink, postOf } from '../../../test/support/rows.ts'
import { run } from '../../../test/support/sql.ts'
import type { Tx } from '../../store/engine.ts'
import { createLinkPostHandler } from '../messages/link-inbound.ts'
import { filing, lockMessageOrder, messages } from '../messages/messages.ts'
import {
  addMessagesToChats,
  appendChatEvent,
  type ChatEvent,
  chatEvents,
  cursorBeforeLatest,
  eventsAfter,
  lastEventNumbers,
  latestEvents,
} from './chat-events.ts'

const linkPostHandler = createLinkPostHandler()

interface ChatsHost extends TestHost {
  /** Appends messages as the lane does, without adding them to their chats. */
  append(link: string, texts: readonly string[], topic?: string): Promise<void>
  addToChats(): Promise<boolean>
  /** Contents of the events of a chat, in order. */
  contents(jid: string): Promise<string[]>
}

async function open(t: TestContext, engine: EngineName): Promise<ChatsHost> {
  const on = await testHost(t, engine)
  await on.groups('main')
  const { host } = on
  const { dialect } = host.engine
  return {
    ...on,
    append: async (link, texts, topic) => {
      const posts = texts.map((content) =>
        postOf(on, link, { content: Buffer.from(content), topic: topic ?? null, hasRound: false }),
      )
      const results = await host.engine.transaction((tx) => linkPostHandler.run(tx, dialect, posts))
      assert.ok(results.every((result) => result === 'appended'))
    },
    addToChats: async () => (await host.engine.transaction((tx) => linkPostHandler.runDeferred(tx, dialect))).isMore,
    contents: async (jid) => {
      const { events } = await host.engine.read((tx) => eventsAfter(tx, { jid, after: 0, limit: 100_000 }))
      assert.deepEqual(
        events.map(({ seq }) => seq),
        events.map((_, at) => at + 1),
        'the numbers of a chat have no gap',
      )
      return events.map(({ message }) => Buffer.from(message?.content ?? []).toString())
    },
  }
}

onEveryEngine('events of chats', (engine) => {
  test('adds messages to their chats in order of arrival, each chat with its own numbers', async (t) => {
    const { append, addToChats, contents, ...on } = await open(t, engine)
    const [a, b] = [await addLink(on, 'web:main/a'), await addLink(on, 'web:main/b')]
    await append(a, ['a1', 'a2'])
    await append(b, ['b1'])
    await append(a, ['a3'])
    assert.equal(await addToChats(), false)
    assert.deepEqual([await contents('web:main/a'), await contents('web:main/b')], [['a1', 'a2', 'a3'], ['b1']])
    await append(b, ['b2'])
    await addToChats()
    assert.deepEqual(await contents('web:main/b'), ['b1', 'b2'])
  })

  test('adds a message once and returns the chats that it touched', async (t) => {
    const { append, contents, ...on } = await open(t, engine)
    const link = await addLink(on, 'hook:main/ci', { target_folder: 'main', source_label: 'ci' })
    await append(link, ['1', '2'])
    const add = () => on.host.engine.transaction((tx) => linkPostHandler.runDeferred(tx, on.host.engine.dialect))
    assert.deepEqual(await add(), { isMore: false, keys: ['hook:main/ci'] })
    assert.deepEqual(await add(), { isMore: false, keys: [] })
    assert.deepEqual(await contents('hook:main/ci'), ['1', '2'])
  })

  test('adds a large backlog in batches, without a gap or a repeat', async (t) => {
    const { append, contents, ...on } = await open(t, engine)
    const link = await addLink(on, 'web:main')
    const texts = Array.from({ length: 2345 }, (_, at) => `${at}`)
    await append(link, texts)
    const { engine: store } = on.host
    const addBatch = async (tx: Tx): Promise<boolean> => {
      await lockMessageOrder(tx, store.dialect)
      return (await addMessagesToChats(tx, 1000)).isMore
    }
    let batches = 1
    while (await store.transaction(addBatch)) batches++
    assert.equal(batches, 3)
    assert.deepEqual(await contents('web:main'), texts)
    const last = await on.host.engine.read((tx) => filing.find(tx, { id: 1 }))
    assert.equal(last?.last_seq, (await on.host.engine.read((tx) => messages.list(tx))).length)
  })

  test('names no chats if it touched many', async (t) => {
    const { append, ...on } = await open(t, engine)
    for (let at = 0; at < 201; at++) await append(await addLink(on, `web:main/${at}`), ['x'])
    const { keys } = await on.host.engine.transaction((tx) => addMessagesToChats(tx))
    assert.equal(keys, undefined)
  })

  test('adds each message once with several workers', async (t) => {
    const { append, addToChats, contents, ...on } = await open(t, engine)
    const links = await Promise.all(['a', 'b', 'c'].map((name) => addLink(on, `web:main/${name}`)))
    const appending = links.map(async (link, at) => {
      for (let time = 0; time < 15; time++) await append(link, [`${at} ${time}`])
    })
    let isOver = false
    const workers = Array.from({ length: 3 }, async () => {
      while (!isOver) await addToChats()
    })
    await Promise.all(appending)
    isOver = true
    await Promise.all(workers)
    while (await addToChats());
    for (const [at, name] of ['a', 'b', 'c'].entries()) {
      assert.deepEqual(
        await contents(`web:main/${name}`),
        Array.from({ length: 15 }, (_, time) => `${at} ${time}`),
      )
    }
  })

  test('numbers events that are appended while messages are added', async (t) => {
    const { append, addToChats, ...on } = await open(t, engine)
    const { host } = on
    const link = await addLink(on, 'web:main')
    const appendEvent = async (tx: Tx) => {
      await lockMessageOrder(tx, host.engine.dialect)
      await appendChatEvent(tx, { jid: 'web:main', kind: 'round_done', turn_id: 'x' })
    }
    const appending = Array.from({ length: 20 }, () => host.engine.transaction(appendEvent))
    for (let time = 0; time < 10; time++) {
      await append(link, ['in'])
      await addToChats()
    }
    await Promise.all(appending)
    const all = await host.engine.read((tx) => chatEvents.list(tx, { jid: 'web:main' }, [['seq', 'asc']]))
    assert.deepEqual(
      all.map(({ seq }) => seq),
      Array.from({ length: 30 }, (_, at) => at + 1),
    )
    assert.equal((await host.engine.read((tx) => lastEventNumbers(tx, ['web:main', 'web:none']))).get('web:main'), 30)
  })

  test('keeps the order of arrival for equal times and after the clock was set back', async (t) => {
    const { append, addToChats, contents, clock, ...on } = await open(t, engine)
    const link = await addLink({ ...on, clock }, 'hook:main/ci')
    await append(link, ['1', '2'])
    clock.advance(-3_600_000)
    await append(link, ['3'])
    await addToChats()
    clock.advance(-3_600_000)
    await append(link, ['4', '5'])
    await addToChats()
    assert.deepEqual(await contents('hook:main/ci'), ['1', '2', '3', '4', '5'])
    const all = await on.host.engine.read((tx) => messages.list(tx))
    for (const { created_at } of all) assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  })

  test('skips no message after a failed append has used a number', async (t) => {
    const { append, addToChats, contents, ...on } = await open(t, engine)
    const link = await addLink(on, 'web:main')
    await append(link, ['1'])
    const failing = on.host.engine.transaction(async (tx) => {
      await linkPostHandler.run(tx, on.host.engine.dialect, [postOf(on, link)])
      throw new Error('no')
    })
    await assert.rejects(failing, /no/)
    await append(link, ['2'])
    await addToChats()
    assert.deepEqual(await contents('web:main'), ['1', '2'])
  })

  test('reads events after a number, the latest before a number, and those of one topic', async (t) => {
    const { append, addToChats, ...on } = await open(t, engine)
    const { engine: store } = on.host
    const link = await addLink(on, 'web:main')
    await append(link, ['1', '2'])
    await append(link, ['3'], 'bills')
    await append(link, ['4'])
    await addToChats()
    const textsOf = (events: readonly ChatEvent[]) =>
      events.map(({ message }) => Buffer.from(message?.content ?? []).toString())
    const jid = 'web:main'
    const after = async (rest: object) =>
      (await store.read((tx) => eventsAfter(tx, { jid, after: 0, limit: 10, ...rest }))).events
    const latest = (rest: object) => store.read((tx) => latestEvents(tx, { jid, limit: 10, ...rest }))
    assert.deepEqual(textsOf(await after({ after: 2 })), ['3', '4'])
    assert.deepEqual(textsOf(await after({ limit: 1 })), ['1'])
    assert.deepEqual(textsOf(await after({ topic: 'bills' })), ['3'])
    assert.deepEqual(textsOf(await after({ topic: '' })), ['1', '2', '4'])
    assert.deepEqual(textsOf(await after({ jid: 'web:other' })), [])
    assert.deepEqual(textsOf(await latest({ limit: 2 })), ['3', '4'])
    assert.deepEqual(textsOf(await latest({ before: 3, limit: 1 })), ['2'])
    assert.deepEqual(textsOf(await latest({ topic: '', limit: 2 })), ['2', '4'])
    assert.deepEqual(textsOf(await latest({ topic: 'none' })), [])
  })

  test('reads large contents in batches and reports that there is more', async (t) => {
    const { append, addToChats, ...on } = await open(t, engine)
    const link = await addLink(on, 'web:main')
    await append(link, ['a', 'x'.repeat(600_000), 'b', 'y'.repeat(400_000), 'c'])
    await addToChats()
    const sizes: number[][] = []
    for (let after = 0; ; ) {
      const { events, isMore } = await on.host.engine.read((tx) =>
        eventsAfter(tx, { jid: 'web:main', after, limit: 200 }),
      )
      sizes.push(events.map(({ message }) => message?.content.byteLength ?? 0))
      after = events.at(-1)?.seq ?? after
      if (!isMore) break
    }
    assert.deepEqual(sizes, [[1], [600_000], [1, 400_000, 1]])
  })

  test('reads contents of any size completely', async (t) => {
    const { append, addToChats, ...on } = await open(t, engine)
    const link = await addLink(on, 'web:main')
    for (const size of [4096, 4097, 0]) {
      await append(link, ['x'.repeat(size)])
      await addToChats()
    }
    const read = async (after: number): Promise<unknown> => {
      const { events } = await on.host.engine.read((tx) => eventsAfter(tx, { jid: 'web:main', after, limit: 200 }))
      return events.map(({ message }) => message?.content.byteLength)
    }
    assert.deepEqual(await read(0), [4096, 4097, 0])
    assert.deepEqual(await read(1), [4097, 0])
    assert.deepEqual(await read(2), [0])
  })

  test('finds where the latest events begin, also of one topic', async (t) => {
    const { append, addToChats, ...on } = await open(t, engine)
    const link = await addLink(on, 'web:main')
    const before = (limit: number, topic?: string) =>
      on.host.engine.read((tx) => cursorBeforeLatest(tx, { jid: 'web:main', limit, topic }))
    assert.equal(await before(10), undefined)
    await append(link, ['1', '2'])
    await append(link, ['3'], 'bills')
    await append(link, ['4'])
    await addToChats()
    assert.deepEqual([await before(10), await before(1), await before(2), await before(0)], [0, 3, 2, undefined])
    assert.deepEqual([await before(2, ''), await before(5, 'bills'), await before(5, 'none')], [1, 2, undefined])
  })

  test('finds the last events of hundreds of chats in one query', async (t) => {
    const { append, addToChats, ...on } = await open(t, engine)
    await append(await addLink(on, 'web:main'), ['1', '2'])
    await addToChats()
    const jids = Array.from({ length: 499 }, (_, at) => `web:main/${at}`)
    const last = await on.host.engine.read((tx) => lastEventNumbers(tx, ['web:main', ...jids]))
    assert.deepEqual([...last], [['web:main', 2]])
  })

  test('never commits a later message number before an earlier one', async (t) => {
    const { host } = await open(t, engine)
    const { dialect } = host.engine
    /** Returns the number of messages when it got the lock. */
    const add = async (tx: Tx, then: () => Promise<unknown>): Promise<number> => {
      await lockMessageOrder(tx, dialect)
      const before = await messages.count(tx)
      await run(
        tx,
        `insert into messages (id, jid, direction, kind, sender, content, created_at)
        values ('x', 'web:main', 'in', 'message', 'x', $1, '2026-01-01T00:00:00.000Z')`,
        [Buffer.from('x')],
      )
      if (dialect.isRemote) await then()
      return before
    }
    const [first, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const slow = host.engine.transaction((tx) =>
      add(tx, () => {
        first.resolve()
        return release.promise
      }),
    )
    if (dialect.isRemote) await first.promise
    const quick = host.engine.transaction((tx) => add(tx, async () => {}))
    await new Promise((resolve) => setTimeout(resolve, 50))
    release.resolve()
    assert.deepEqual(await Promise.all([slow, quick]), [0, 1])
  })
})
