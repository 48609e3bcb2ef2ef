import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { addLink, postOf } from '../../../test/support/rows.ts'
import { run } from '../../../test/support/sql.ts'
import type { Tx } from '../../store/engine.ts'
import { linkPostWork } from '../messages/link-inbound.ts'
import { filing, lockMessageOrder, messages } from '../messages/messages.ts'
import {
  addMessagesToChats,
  appendChatEvent,
  beforeLatest,
  type ChatEvent,
  chatEvents,
  eventsAfter,
  lastEvents,
  latestEvents,
} from './chat-events.ts'

interface Filing extends TestHost {
  /** Appends messages as the lane does, without filing them; their numbers. */
  append(link: string, contents: readonly string[], topic?: string): Promise<void>
  file(): Promise<boolean>
  /** Of a chat, in the order of its sequence: the contents. */
  filed(jid: string): Promise<string[]>
}

async function open(t: TestContext, engine: EngineName): Promise<Filing> {
  const on = await testHost(t, engine)
  await on.groups('main')
  const { host } = on
  const { dialect } = host.engine
  return {
    ...on,
    append: async (link, contents, topic) => {
      const posts = contents.map((content) =>
        postOf(on, link, { content: Buffer.from(content), topic: topic ?? null, hasRound: false }),
      )
      const verdicts = await host.engine.transaction((tx) => linkPostWork.run(tx, dialect, posts))
      assert.ok(verdicts.every((verdict) => verdict === 'appended'))
    },
    file: async () => (await host.engine.transaction((tx) => linkPostWork.runDeferred(tx, dialect))).isMore,
    filed: async (jid) => {
      const { events } = await host.engine.read((tx) => eventsAfter(tx, { jid, after: 0, limit: 100_000 }))
      assert.deepEqual(
        events.map(({ seq }) => seq),
        events.map((_, at) => at + 1),
        'the sequence of a chat has no gap',
      )
      return events.map(({ message }) => Buffer.from(message?.content ?? []).toString())
    },
  }
}

onEveryEngine('filing', (engine) => {
  test('messages are filed under their chats in the order of their arrival, each chat with its own sequence', async (t) => {
    const { append, file, filed, ...on } = await open(t, engine)
    const [a, b] = [await addLink(on, 'web:main/a'), await addLink(on, 'web:main/b')]
    await append(a, ['a1', 'a2'])
    await append(b, ['b1'])
    await append(a, ['a3'])
    assert.equal(await file(), false)
    assert.deepEqual([await filed('web:main/a'), await filed('web:main/b')], [['a1', 'a2', 'a3'], ['b1']])
    await append(b, ['b2'])
    await file()
    assert.deepEqual(await filed('web:main/b'), ['b1', 'b2'])
  })

  test('filing twice is harmless, and says whom it concerned', async (t) => {
    const { append, filed, ...on } = await open(t, engine)
    const link = await addLink(on, 'hook:main/ci', { target_folder: 'main', source_label: 'ci' })
    await append(link, ['1', '2'])
    const tidy = () => on.host.engine.transaction((tx) => linkPostWork.runDeferred(tx, on.host.engine.dialect))
    assert.deepEqual(await tidy(), { isMore: false, keys: ['hook:main/ci'] })
    assert.deepEqual(await tidy(), { isMore: false, keys: [] })
    assert.deepEqual(await filed('hook:main/ci'), ['1', '2'])
  })

  test('more than a piece is filed piece by piece, without a gap or a repeat', async (t) => {
    const { append, filed, ...on } = await open(t, engine)
    const link = await addLink(on, 'web:main')
    const contents = Array.from({ length: 2345 }, (_, at) => `${at}`)
    await append(link, contents)
    const { engine: store } = on.host
    const filePiece = async (tx: Tx): Promise<boolean> => {
      await lockMessageOrder(tx, store.dialect)
      return (await addMessagesToChats(tx, 1000)).isMore
    }
    let pieces = 1
    while (await store.transaction(filePiece)) pieces++
    assert.equal(pieces, 3)
    assert.deepEqual(await filed('web:main'), contents)
    const last = await on.host.engine.read((tx) => filing.find(tx, { id: 1 }))
    assert.equal(last?.last_seq, (await on.host.engine.read((tx) => messages.list(tx))).length)
  })

  test('many chats at once are not named one by one', async (t) => {
    const { append, ...on } = await open(t, engine)
    for (let at = 0; at < 201; at++) await append(await addLink(on, `web:main/${at}`), ['x'])
    const { keys } = await on.host.engine.transaction((tx) => addMessagesToChats(tx))
    assert.equal(keys, undefined)
  })

  test('several who file at once file each message once', async (t) => {
    const { append, file, filed, ...on } = await open(t, engine)
    const links = await Promise.all(['a', 'b', 'c'].map((name) => addLink(on, `web:main/${name}`)))
    const adding = links.map(async (link, at) => {
      for (let time = 0; time < 15; time++) await append(link, [`${at} ${time}`])
    })
    let isOver = false
    const filing = Array.from({ length: 3 }, async () => {
      while (!isOver) await file()
    })
    await Promise.all(adding)
    isOver = true
    await Promise.all(filing)
    while (await file());
    for (const [at, name] of ['a', 'b', 'c'].entries()) {
      assert.deepEqual(
        await filed(`web:main/${name}`),
        Array.from({ length: 15 }, (_, time) => `${at} ${time}`),
      )
    }
  })

  test('what is said in a chat while messages are filed has a place of its own', async (t) => {
    const { append, file, ...on } = await open(t, engine)
    const { host } = on
    const link = await addLink(on, 'web:main')
    const say = async (tx: Tx) => {
      await lockMessageOrder(tx, host.engine.dialect)
      await appendChatEvent(tx, { jid: 'web:main', kind: 'round_done', turn_id: 'x' })
    }
    const saying = Array.from({ length: 20 }, () => host.engine.transaction(say))
    for (let time = 0; time < 10; time++) {
      await append(link, ['in'])
      await file()
    }
    await Promise.all(saying)
    const all = await host.engine.read((tx) => chatEvents.list(tx, { jid: 'web:main' }, [['seq', 'asc']]))
    assert.deepEqual(
      all.map(({ seq }) => seq),
      Array.from({ length: 30 }, (_, at) => at + 1),
    )
    assert.equal((await host.engine.read((tx) => lastEvents(tx, ['web:main', 'web:none']))).get('web:main'), 30)
  })

  test('D4: messages of the same moment, and of a clock that was set back, keep the order of their arrival (H55)', async (t) => {
    const { append, file, filed, clock, ...on } = await open(t, engine)
    const link = await addLink({ ...on, clock }, 'hook:main/ci')
    await append(link, ['1', '2'])
    clock.advance(-3_600_000)
    await append(link, ['3'])
    await file()
    clock.advance(-3_600_000)
    await append(link, ['4', '5'])
    await file()
    assert.deepEqual(await filed('hook:main/ci'), ['1', '2', '3', '4', '5'])
    const all = await on.host.engine.read((tx) => messages.list(tx))
    for (const { created_at } of all) assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  })

  test('a number that a failed append has drawn leaves nothing out', async (t) => {
    const { append, file, filed, ...on } = await open(t, engine)
    const link = await addLink(on, 'web:main')
    await append(link, ['1'])
    const failing = on.host.engine.transaction(async (tx) => {
      await linkPostWork.run(tx, on.host.engine.dialect, [postOf(on, link)])
      throw new Error('no')
    })
    await assert.rejects(failing, /no/)
    await append(link, ['2'])
    await file()
    assert.deepEqual(await filed('web:main'), ['1', '2'])
  })

  test('events are read after a number, the latest before one, and of one topic', async (t) => {
    const { append, file, ...on } = await open(t, engine)
    const { engine: store } = on.host
    const link = await addLink(on, 'web:main')
    await append(link, ['1', '2'])
    await append(link, ['3'], 'bills')
    await append(link, ['4'])
    await file()
    const contents = (events: readonly ChatEvent[]) =>
      events.map(({ message }) => Buffer.from(message?.content ?? []).toString())
    const jid = 'web:main'
    const after = async (rest: object) =>
      (await store.read((tx) => eventsAfter(tx, { jid, after: 0, limit: 10, ...rest }))).events
    const latest = (rest: object) => store.read((tx) => latestEvents(tx, { jid, limit: 10, ...rest }))
    assert.deepEqual(contents(await after({ after: 2 })), ['3', '4'])
    assert.deepEqual(contents(await after({ limit: 1 })), ['1'])
    assert.deepEqual(contents(await after({ topic: 'bills' })), ['3'])
    assert.deepEqual(contents(await after({ topic: '' })), ['1', '2', '4'])
    assert.deepEqual(contents(await after({ jid: 'web:other' })), [])
    assert.deepEqual(contents(await latest({ limit: 2 })), ['3', '4'])
    assert.deepEqual(contents(await latest({ before: 3, limit: 1 })), ['2'])
    assert.deepEqual(contents(await latest({ topic: '', limit: 2 })), ['2', '4'])
    assert.deepEqual(contents(await latest({ topic: 'none' })), [])
  })

  test('large contents are read in pieces, one at a time at least, and it is told that there is more', async (t) => {
    const { append, file, ...on } = await open(t, engine)
    const link = await addLink(on, 'web:main')
    await append(link, ['a', 'x'.repeat(600_000), 'b', 'y'.repeat(400_000), 'c'])
    await file()
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

  test('contents of any size are read whole', async (t) => {
    const { append, file, ...on } = await open(t, engine)
    const link = await addLink(on, 'web:main')
    for (const size of [4096, 4097, 0]) {
      await append(link, ['x'.repeat(size)])
      await file()
    }
    const read = async (after: number): Promise<unknown> => {
      const { events } = await on.host.engine.read((tx) => eventsAfter(tx, { jid: 'web:main', after, limit: 200 }))
      return events.map(({ message }) => message?.content.byteLength)
    }
    assert.deepEqual(await read(0), [4096, 4097, 0])
    assert.deepEqual(await read(1), [4097, 0])
    assert.deepEqual(await read(2), [0])
  })

  test('where the latest begin is told, also of one topic', async (t) => {
    const { append, file, ...on } = await open(t, engine)
    const link = await addLink(on, 'web:main')
    const before = (limit: number, topic?: string) =>
      on.host.engine.read((tx) => beforeLatest(tx, { jid: 'web:main', limit, topic }))
    assert.equal(await before(10), undefined)
    await append(link, ['1', '2'])
    await append(link, ['3'], 'bills')
    await append(link, ['4'])
    await file()
    assert.deepEqual([await before(10), await before(1), await before(2), await before(0)], [0, 3, 2, undefined])
    assert.deepEqual([await before(2, ''), await before(5, 'bills'), await before(5, 'none')], [1, 2, undefined])
  })

  test('the last events of hundreds of chats are asked for at once', async (t) => {
    const { append, file, ...on } = await open(t, engine)
    await append(await addLink(on, 'web:main'), ['1', '2'])
    await file()
    const jids = Array.from({ length: 499 }, (_, at) => `web:main/${at}`)
    const last = await on.host.engine.read((tx) => lastEvents(tx, ['web:main', ...jids]))
    assert.deepEqual([...last], [['web:main', 2]])
  })

  test('whoever adds messages stands in line: a later number is never committed first', async (t) => {
    const { host } = await open(t, engine)
    const { dialect } = host.engine
    /** Answers how many were there when its turn came. */
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
