import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, refused, type TestHost, testHost } from '../../test/support/host.ts'
import { addLink, postOf } from '../../test/support/rows.ts'
import { eventsAfter } from './chats.ts'
import { work } from './ingest.ts'
import {
  type Claimed,
  claimRounds,
  endRound,
  findRound,
  framesAfter,
  type Held,
  hasWaiting,
  releaseRound,
  renewRound,
  roundHeads,
  rounds,
  say,
} from './rounds.ts'

interface Opened extends TestHost {
  /** A question in a chat, filed; its round. */
  ask(content?: string, topic?: string): Promise<string>
  claim(limit?: number): Promise<Claimed[]>
  say(held: Held, content: string, kind?: 'message' | 'status'): Promise<number>
  end(held: Held, status?: 'success' | 'failed', error?: string): Promise<boolean>
  round(id: string): ReturnType<typeof findRound>
}

const LEASE_MS = 10_000

async function open(t: TestContext, engine: EngineName): Promise<Opened> {
  const on = await testHost(t, engine)
  await on.groups('main')
  const { host, clock } = on
  const link = await addLink(on, 'web:main')
  const speaking = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
  return {
    ...on,
    ask: async (content = 'why?', topic) => {
      const post = postOf(on, link, { content: Buffer.from(content), topic: topic ?? null, hasRound: true })
      await host.engine.transaction((tx) => work.run(tx, host.engine.dialect, [post]))
      await host.engine.transaction((tx) => work.tidy(tx, host.engine.dialect))
      return post.id
    },
    claim: (limit = 10) =>
      host.engine.transaction((tx) => claimRounds(tx, { now: clock.now(), forMs: LEASE_MS }, limit)),
    say: async (held, content, kind = 'message') =>
      (await host.engine.transaction((tx) => say(tx, speaking, held, { kind, content, sender: 'demo' }))).seq,
    end: (held, status = 'success', error) =>
      host.engine.transaction((tx) => endRound(tx, speaking, held, { status, error })),
    round: (id) => host.engine.read((tx) => findRound(tx, 'web:main', id)),
  }
}

onEveryEngine('rounds', (engine) => {
  test('a message opens a round that is pending and has its id, its chat, its topic and its folder', async (t) => {
    const { ask, round, host } = await open(t, engine)
    const id = await ask('why?', 'bills')
    const made = await round(id)
    assert.deepEqual(
      [made?.status, made?.jid, made?.topic, made?.target_folder, made?.last_seq, made?.attempts],
      ['pending', 'web:main', 'bills', 'main', 0, 0],
    )
    // A round of another JID is not there.
    assert.equal(await host.engine.read((tx) => findRound(tx, 'web:other', id)), undefined)
  })

  test('the oldest are claimed first, each by one alone', async (t) => {
    const { ask, claim } = await open(t, engine)
    const ids = [await ask(), await ask(), await ask()]
    const first = await claim(2)
    assert.deepEqual(
      first.map(({ id, fence, message }) => [id, fence, Buffer.from(message.content).toString()]),
      ids.slice(0, 2).map((id) => [id, 1, 'why?']),
    )
    assert.deepEqual(
      (await claim()).map(({ id }) => id),
      ids.slice(2),
    )
    assert.deepEqual(await claim(), [])
  })

  test('many who claim at once share the rounds and take none twice', async (t) => {
    const { ask, claim } = await open(t, engine)
    const ids = await Promise.all(Array.from({ length: 12 }, () => ask()))
    const claimed = (await Promise.all(Array.from({ length: 8 }, () => claim(2)))).flat().map(({ id }) => id)
    assert.equal(new Set(claimed).size, claimed.length)
    assert.deepEqual(claimed.sort(), ids.sort())
  })

  test('a message that is not filed yet cannot be answered yet', async (t) => {
    const on = await open(t, engine)
    const { host, claim } = on
    const post = postOf(on, await addLink(on, 'web:main'), { hasRound: true })
    await host.engine.transaction((tx) => work.run(tx, host.engine.dialect, [post]))
    assert.equal(await host.engine.read((tx) => hasWaiting(tx, on.clock.now())), false)
    assert.deepEqual(await claim(), [])
    await host.engine.transaction((tx) => work.tidy(tx, host.engine.dialect))
    assert.equal(await host.engine.read((tx) => hasWaiting(tx, on.clock.now())), true)
    assert.equal((await claim()).length, 1)
  })

  test('a lease that ran out is somebody else’s, and whoever had it can neither say nor end anything', async (t) => {
    const { ask, claim, say, end, round, clock } = await open(t, engine)
    const id = await ask()
    const [old] = await claim()
    assert.ok(old)
    assert.equal(await say(old, 'one'), 1)
    clock.advance(LEASE_MS - 1)
    assert.deepEqual(await claim(), [])
    clock.advance(1)
    const [now] = await claim()
    assert.ok(now)
    assert.deepEqual([now.id, now.fence, now.round.attempts, now.round.last_seq], [id, 2, 2, 1])
    await assert.rejects(say(old, 'late'), refused('conflict'))
    assert.equal(await end(old), false)
    assert.equal(await say(now, 'two'), 2)
    assert.equal(await end(now), true)
    assert.equal((await round(id))?.status, 'success')
  })

  test('a lease is renewed as long as it is held, and not after', async (t) => {
    const { ask, claim, end, clock, host } = await open(t, engine)
    await ask()
    const [held] = await claim()
    assert.ok(held)
    const renew = (one: Held) => host.engine.transaction((tx) => renewRound(tx, one, clock.now() + LEASE_MS))
    clock.advance(LEASE_MS - 1)
    assert.equal(await renew(held), true)
    clock.advance(LEASE_MS - 1)
    assert.deepEqual(await claim(), [])
    clock.advance(1)
    const [next] = await claim()
    assert.ok(next)
    assert.equal(await renew(held), false)
    assert.equal(await end(next), true)
    assert.equal(await renew(next), false)
  })

  test('what is given back can be taken at once, and the try does not count', async (t) => {
    const { ask, claim, host } = await open(t, engine)
    await ask()
    const [held] = await claim()
    assert.ok(held)
    await host.engine.transaction((tx) => releaseRound(tx, held))
    const [again] = await claim()
    assert.deepEqual([again?.round.attempts, again?.fence], [1, 2])
    // By whoever has it no more, nothing is given back.
    await host.engine.transaction((tx) => releaseRound(tx, held))
    assert.deepEqual(await claim(), [])
  })

  test('frames are numbered from 1 without a gap, and are messages of the chat as well', async (t) => {
    const { ask, claim, say, end, host, round } = await open(t, engine)
    const id = await ask('why?', 'bills')
    const [held] = await claim()
    assert.ok(held)
    await say(held, 'thinking', 'status')
    await say(held, 'because <b> \u0000')
    await say(held, '')
    assert.equal(await end(held, 'failed', 'no more'), true)
    const frames = await host.engine.read((tx) => framesAfter(tx, id, 0, 10))
    assert.deepEqual(
      frames.map(({ seq, kind, content }) => [seq, kind, content]),
      [
        [1, 'status', 'thinking'],
        [2, 'message', 'because <b> \u0000'],
        [3, 'message', ''],
      ],
    )
    assert.equal(new Set(frames.map(({ id }) => id)).size, 3)
    assert.deepEqual(
      (await host.engine.read((tx) => framesAfter(tx, id, 1, 1))).map(({ seq }) => seq),
      [2],
    )
    const { events } = await host.engine.read((tx) => eventsAfter(tx, { jid: 'web:main', after: 0, limit: 10 }))
    assert.deepEqual(
      events.map(({ seq, kind, topic, turn_id }) => [seq, kind, topic, turn_id]),
      ['message', 'status', 'message', 'message', 'round_done'].map((kind, at) => [at + 1, kind, 'bills', id]),
    )
    const ended = await round(id)
    assert.deepEqual([ended?.status, ended?.error, ended?.last_seq], ['failed', 'no more', 3])
    assert.ok(ended?.ended_at)
  })

  test('a round ends once, and nothing is said after its end', async (t) => {
    const { ask, claim, say, end, round, host } = await open(t, engine)
    const id = await ask()
    const [held] = await claim()
    assert.ok(held)
    const ends = await Promise.all([end(held, 'success'), end(held, 'failed', 'x'), end(held, 'failed', 'y')])
    assert.equal(ends.filter(Boolean).length, 1)
    const status = (await round(id))?.status
    await assert.rejects(say(held, 'late'), refused('conflict', 'over'))
    assert.equal(await end(held), false)
    assert.deepEqual([(await round(id))?.status, (await round(id))?.last_seq], [status, 0])
    assert.deepEqual(await claim(), [])
    const { events } = await host.engine.read((tx) => eventsAfter(tx, { jid: 'web:main', after: 0, limit: 10 }))
    assert.equal(events.filter(({ kind }) => kind === 'round_done').length, 1)
  })

  test('two who speak in one round at once get different numbers', async (t) => {
    const { ask, claim, say, host } = await open(t, engine)
    const id = await ask()
    const [held] = await claim()
    assert.ok(held)
    const seqs = await Promise.all(Array.from({ length: 12 }, (_, at) => say(held, `${at}`)))
    assert.deepEqual(
      seqs.sort((a, b) => a - b),
      Array.from({ length: 12 }, (_, at) => at + 1),
    )
    assert.equal((await host.engine.read((tx) => framesAfter(tx, id, 0, 100))).length, 12)
  })

  test('how far rounds are is told for many at once', async (t) => {
    const { ask, claim, say, end, host } = await open(t, engine)
    const [a, b] = [await ask(), await ask()]
    const [first, second] = await claim()
    assert.ok(first && second)
    await say(first, 'x')
    await end(second)
    const heads = await host.engine.read((tx) => roundHeads(tx, [a, b, 'none']))
    assert.deepEqual(heads.get(a), { last_seq: 1, status: 'pending' })
    assert.deepEqual(heads.get(b), { last_seq: 0, status: 'success' })
    assert.equal(heads.size, 2)
  })

  test('a hook’s message opens no round', async (t) => {
    const on = await open(t, engine)
    const post = postOf(on, await addLink(on, 'hook:main/ci'), { hasRound: false })
    await on.host.engine.transaction((tx) => work.run(tx, on.host.engine.dialect, [post]))
    assert.equal(await on.host.engine.read((tx) => rounds.count(tx)), 0)
  })
})
