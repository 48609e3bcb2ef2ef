import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngineQuickly, type TestHost, testHost } from '../../../test/support/host.ts'
import { addLink, postOf } from '../../../test/support/rows.ts'
import { openLane } from '../../store/lanes/transaction-lane.ts'
import { deleteIdempotencyKeys, IDEMPOTENCY_TTL_MS, idempotencyKeys } from '../links/idempotency-keys.ts'
import { routeTokens } from '../links/route-tokens.ts'
import { rounds } from '../turns/rounds.ts'
import {
  type AppendResult,
  createLinkPostHandler,
  type LinkPost,
  type LinkPostKey,
  notificationPayload,
} from './link-inbound.ts'
import { lockTurnOrder, messages } from './messages.ts'

const linkPostHandler = createLinkPostHandler()

interface LinkHost extends TestHost {
  link: string
  append(...posts: Partial<LinkPost>[]): Promise<readonly AppendResult[]>
  count(): Promise<number>
}

async function open(t: TestContext, engine: EngineName): Promise<LinkHost> {
  const on = await testHost(t, engine)
  await on.groups('main')
  const { host } = on
  const link = await addLink(on, 'hook:main/ci', { target_folder: 'main', source_label: 'ci', context: 'be brief' })
  return {
    ...on,
    link,
    append: (...posts) =>
      host.engine.transaction((tx) =>
        linkPostHandler.run(
          tx,
          host.engine.dialect,
          posts.map((post) => postOf(on, link, post)),
        ),
      ),
    count: () => host.engine.read((tx) => messages.count(tx)),
  }
}

const key = (text: string, body: string, isStrict = true): LinkPostKey => ({
  text,
  isStrict,
  digest: Buffer.from(body.padEnd(32, '.')),
})

onEveryEngineQuickly('appending posts of links', (engine) => {
  test('does not wait for a claim of turns if the batch is alone in its transaction', async (t) => {
    const on = await open(t, engine)
    const { host, link, count } = on
    const { dialect } = host.engine
    const posts = [postOf(on, link, {}), postOf(on, link, {})]
    const alone = (): Promise<readonly AppendResult[]> =>
      host.engine.transaction((tx) => linkPostHandler.run(tx, dialect, posts, true))
    // SQLite has one writer, so there the batch runs after the claim.
    if (!dialect.isRemote) return void assert.deepEqual(await alone(), ['appended', 'appended'])
    const [claiming, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const claim = host.engine.transaction(async (tx) => {
      await lockTurnOrder(tx, dialect)
      await routeTokens.count(tx)
      claiming.resolve()
      await release.promise
    })
    await claiming.promise
    assert.deepEqual(await alone(), ['appended', 'appended'])
    release.resolve()
    await claim
    assert.equal(await count(), 2)
  })

  test('copies the fields of the link to the messages, in the order of the posts', async (t) => {
    const { append, host } = await open(t, engine)
    const bytes = Uint8Array.from({ length: 256 }, (_, at) => at)
    await append(
      { content: bytes, content_type: 'x/y', sender: 'ci' },
      { topic: 't', hasRound: true, client_context: '{"system":"x"}' },
    )
    const [first, second] = await host.engine.read((tx) => messages.list(tx, {}, [['seq', 'asc']]))
    assert.deepEqual(Buffer.from(first?.content ?? []), Buffer.from(bytes))
    assert.deepEqual(
      [first?.jid, first?.target_folder, first?.sender, first?.link_context, first?.content_type, first?.direction],
      ['hook:main/ci', 'main', 'ci', 'be brief', 'x/y', 'in'],
    )
    assert.deepEqual([second?.topic, second?.turn_id, first?.turn_id], ['t', second?.id, undefined])
    assert.deepEqual([first?.client_context, second?.client_context], [undefined, { system: 'x' }])
    assert.equal(await host.engine.read((tx) => rounds.count(tx)), 1)
  })

  test('reports posts of a revoked link as unknown and appends the others of the batch', async (t) => {
    const { append, host, link, ...on } = await open(t, engine)
    const other = await addLink({ host, ...on } as TestHost, 'web:main')
    await host.engine.transaction((tx) => routeTokens.remove(tx, { jid: 'hook:main/ci' }))
    const k = key('key a', 'x')
    const results = await append({ link }, { link: other }, { link, hasRound: true }, { link, key: k }, { link: other })
    assert.deepEqual(results, ['unknown', 'appended', 'unknown', 'unknown', 'appended'])
    assert.equal(await host.engine.read((tx) => rounds.count(tx)), 0)
    assert.equal(await host.engine.read((tx) => idempotencyKeys.count(tx)), 0)
  })

  test('a key with a short time counts for that time, and then until its round has ended', async (t) => {
    const { append, host, clock } = await open(t, engine)
    const short = { hasRound: true, key: { ...key('openai x', 'x', false), ttlMs: 60_000 } }
    assert.deepEqual(await append(short), ['appended'])
    const isRepeat = async (): Promise<boolean> => typeof (await append(short))[0] === 'object'
    clock.advance(59_999)
    assert.ok(await isRepeat())
    clock.advance(3_600_000)
    assert.ok(await isRepeat(), 'the agent still works')
    const end = (): Promise<unknown> =>
      host.engine.transaction((tx) => rounds.update(tx, { status: 'pending' }, { status: 'success' }))
    await end()
    assert.deepEqual(await append(short), ['appended'])
    await end()
    clock.advance(59_999)
    assert.ok(await isRepeat())
    clock.advance(1)
    assert.deepEqual(await append(short), ['appended'])
  })

  test('returns the first message for a repeated key, in the same batch and later', async (t) => {
    const { append, count } = await open(t, engine)
    const first = { id: 'first', key: key('key a', 'x') }
    const [one, two] = await append(first, { id: 'second', key: key('key a', 'x') })
    assert.equal(one, 'appended')
    assert.deepEqual(two, { repeated: { id: 'first', created_at: '2026-01-01T00:00:00.000Z' } })
    assert.deepEqual(await append({ id: 'third', key: key('key a', 'x') }), [two])
    assert.equal(await count(), 1)
  })

  test('refuses a strict key with another body', async (t) => {
    const { append, count } = await open(t, engine)
    await append({ key: key('key a', 'x') })
    assert.deepEqual(await append({ key: key('key a', 'y') }), ['differs'])
    assert.deepEqual(await append({ key: key('webhook a', 'x', false) }), ['appended'])
    assert.deepEqual(await append({ key: key('webhook a', 'y', false) }), ['appended'])
    assert.equal(await count(), 3)
  })

  test('keeps the keys of two links apart', async (t) => {
    const on = await open(t, engine)
    const other = await addLink(on, 'web:main')
    assert.deepEqual(await on.append({ key: key('key a', 'x') }, { link: other, key: key('key a', 'y') }), [
      'appended',
      'appended',
    ])
  })

  test('accepts a key again after 24 hours', async (t) => {
    const { append, clock, count } = await open(t, engine)
    await append({ key: key('key a', 'x') })
    clock.advance(IDEMPOTENCY_TTL_MS - 1)
    assert.notEqual((await append({ key: key('key a', 'x') }))[0], 'appended')
    assert.deepEqual(await append({ key: key('key a', 'y') }), ['differs'])
    clock.advance(1)
    assert.deepEqual(await append({ key: key('key a', 'y') }), ['appended'])
    // The key now belongs to the new message.
    assert.deepEqual(await append({ key: key('key a', 'x') }), ['differs'])
    assert.equal(await count(), 2)
  })

  test('sweeps expired keys and keeps the others', async (t) => {
    const { append, clock, host } = await open(t, engine)
    const kept = () => host.engine.read((tx) => idempotencyKeys.list(tx)).then((rows) => rows.map(({ key }) => key))
    await append({ key: key('key old', 'x') })
    clock.advance(IDEMPOTENCY_TTL_MS / 2)
    await append({ key: key('key new', 'x') })
    clock.advance(IDEMPOTENCY_TTL_MS / 2 + 60_000)
    await append({})
    // The handler of another store sweeps at the same time.
    for (const handler of [createLinkPostHandler(), createLinkPostHandler()]) {
      await host.engine.transaction((tx) => handler.runDeferred(tx, host.engine.dialect))
      assert.deepEqual(await kept(), ['key new'])
      await append({ key: key('key old', 'x') })
      const past = '2000-01-01T00:00:00.000Z'
      await host.engine.transaction((tx) => idempotencyKeys.update(tx, { key: 'key old' }, { created_at: past }))
    }
    await host.engine.transaction((tx) => deleteIdempotencyKeys(tx, '2001'))
    assert.equal(await host.engine.transaction((tx) => deleteIdempotencyKeys(tx, '9999')), 1)
  })

  test('removes the keys of a revoked link', async (t) => {
    const { append, host } = await open(t, engine)
    await append({ key: key('key a', 'x') })
    await host.engine.transaction((tx) => routeTokens.remove(tx, { jid: 'hook:main/ci' }))
    assert.equal(await host.engine.read((tx) => idempotencyKeys.count(tx)), 0)
  })

  test('records one message for concurrent posts with the same key through two writers', async (t) => {
    const on = await open(t, engine)
    const lanes = [openLane(on.host.engine, linkPostHandler), openLane(on.host.engine, linkPostHandler)]
    t.after(() => Promise.all(lanes.map((lane) => lane.close())))
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, at) => lanes[at % 2]?.push(postOf(on, on.link, { key: key('key a', 'x') }))),
    )
    assert.equal(results.filter((result) => result === 'appended').length, 1)
    assert.equal(await on.count(), 1)
  })
})

test('a notification names up to ten chats and wakes every reader if there are more or they are unknown', () => {
  const keys = (count: number): string[] => Array.from({ length: count }, (_, at) => `web:${at}`)
  assert.deepEqual(JSON.parse(notificationPayload({ isMore: false, keys: keys(10) })), keys(10))
  assert.equal(notificationPayload({ isMore: false, keys: keys(11) }), 'null')
  assert.equal(notificationPayload({ isMore: false }), 'null')
})
