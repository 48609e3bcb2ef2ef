// The contract of lanes, for each engine.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { run } from '../../../test/support/sql.ts'
import { until } from '../../../test/support/until.ts'
import type { Engine } from '../engine.ts'
import { type EngineOpener, entries, refusedAs } from '../things.contract.ts'
import type { Lane, LaneOptions } from './lane.ts'
import { type Note, noteHandler } from './notes.contract.ts'
import { openLane } from './transaction-lane.ts'

type Answer = Awaited<ReturnType<Lane<Note, { id: number; text: string }>['push']>>

/** Long enough for a busy machine. */
const WAIT_MS = 5 * 60_000

const note = (text: string, source = 'a'): Note => ({ source, text, bytes: 100 })

function openTestLane(t: TestContext, engine: Engine, options?: LaneOptions): Lane<Note, Answer> {
  const lane = openLane(engine, noteHandler, { ...options, limits: { waitMs: WAIT_MS, ...options?.limits } })
  let closed: Promise<void> | undefined
  const once: Lane<Note, Answer> = {
    push: (item) => lane.push(item),
    pushFor: (item, waiter) => lane.pushFor(item, waiter),
    close: () => (closed ??= lane.close()),
  }
  t.after(() => once.close())
  return once
}

async function listNames(engine: Engine, start = ''): Promise<string[]> {
  const all = await engine.read((tx) => entries.list(tx, {}, [['id', 'asc']]))
  return all.map(({ name }) => name).filter((name) => name.startsWith(start))
}

export function laneContract(open: EngineOpener): void {
  test('answers each item in order, after it is stored', async (t) => {
    const engine = await open(t)
    const lane = openTestLane(t, engine)
    const texts = Array.from({ length: 600 }, (_, at) => `note ${at}`)
    const answers = await Promise.all(texts.map((text, at) => lane.push(note(text, `source ${at % 7}`))))
    assert.deepEqual(
      answers.map(({ text }) => text),
      texts,
    )
    const rows = await engine.read((tx) => entries.list(tx))
    assert.equal(rows.length, 600)
    const stored = new Map(rows.map(({ id, name }) => [id, name.slice(4)]))
    for (const { id, text } of answers) assert.equal(stored.get(id), text)
    // The ids of one source are in the order of arrival.
    for (let source = 0; source < 7; source++) {
      const ids = answers.filter((_, at) => at % 7 === source).map(({ id }) => id)
      assert.deepEqual(
        ids,
        [...ids].sort((a, b) => a - b),
      )
    }
  })

  test('writes items that arrive during a batch in the next one', async (t) => {
    const engine = await open(t)
    const lane = openTestLane(t, engine)
    const all: Promise<unknown>[] = []
    for (let at = 0; at < 50; at++) {
      all.push(lane.push(note(`${at}`)))
      if (at % 5 === 0) await new Promise(setImmediate)
    }
    await Promise.all(all)
    assert.equal((await listNames(engine)).length, 50)
  })

  test('rolls back a failed batch without affecting the others', async (t) => {
    const engine = await open(t)
    const lane = openTestLane(t, engine)
    await lane.push(note('before'))
    for (const [text, judge] of [
      ['throw', (error: unknown) => error instanceof Error && error.message.includes('a bug in the handler')],
      ['twice', refusedAs('conflict', 'already')],
    ] as const) {
      const outcomes = await Promise.allSettled([lane.push(note('with it')), lane.push(note(text))])
      for (const outcome of outcomes) {
        assert.equal(outcome.status, 'rejected')
        if (outcome.status === 'rejected') assert.ok(judge(outcome.reason), String(outcome.reason))
      }
    }
    await lane.push(note('after'))
    assert.deepEqual(
      (await listNames(engine)).map((name) => name.slice(4)),
      ['before', 'after'],
    )
  })

  test('waits for accepted items on close and refuses later ones', async (t) => {
    const engine = await open(t)
    const lane = openTestLane(t, engine)
    const answers = Promise.all(Array.from({ length: 700 }, (_, at) => lane.push(note(`${at}`))))
    const closing = lane.close()
    await assert.rejects(lane.push(note('late')), refusedAs('unavailable', 'closed'))
    await closing
    assert.equal((await answers).length, 700)
    assert.equal((await listNames(engine)).length, 700)
  })

  test('can be closed twice, and without being used', async (t) => {
    const engine = await open(t)
    const lane = openLane(engine, noteHandler)
    await Promise.all([lane.close(), lane.close()])
    await lane.close()
  })

  test('runs deferred work after the answers and reports its keys', async (t) => {
    const engine = await open(t)
    const keysDone: string[] = []
    const lane = openTestLane(t, engine, { onDeferredCommit: ({ keys }) => void keysDone.push(...(keys ?? [])) })
    await lane.push(note('one'))
    await until(() => keysDone.includes('one'))
    assert.deepEqual(await listNames(engine), ['old one'])
    // More than one piece.
    await Promise.all(Array.from({ length: 35 }, (_, at) => lane.push(note(`more ${at}`))))
    await until(() => keysDone.length === 36)
    assert.equal((await listNames(engine, 'old')).length, 36)
  })

  test('runs the deferred work that an earlier process left', async (t) => {
    const engine = await open(t)
    await engine.transaction(async (tx) => {
      for (let at = 0; at < 25; at++) await entries.insertReturning(tx, { name: `new ${at}` })
    })
    const keysDone: string[] = []
    openTestLane(t, engine, { onDeferredCommit: ({ keys }) => void keysDone.push(...(keys ?? [])) })
    await until(() => keysDone.length === 25)
    assert.equal((await listNames(engine, 'old')).length, 25)
  })

  test('runs deferred work under load', async (t) => {
    const engine = await open(t)
    const keysDone: string[] = []
    const lane = openTestLane(t, engine, { onDeferredCommit: ({ keys }) => void keysDone.push(...(keys ?? [])) })
    let isOver = false
    const load = Array.from({ length: 64 }, async (_, at) => {
      while (!isOver) await lane.push(note('load', `source ${at}`))
    })
    await until(() => keysDone.length > 50)
    isOver = true
    await Promise.all(load)
  })

  test('keeps items whose deferred work fails, and retries it', async (t) => {
    const engine = await open(t)
    // The deferred work cannot rename "new same" while "old same" exists.
    await engine.transaction((tx) => run(tx, 'create unique index one_name on entries (name)'))
    await engine.transaction((tx) => entries.insertReturning(tx, { name: 'old same' }))
    const keysDone: string[] = []
    const lane = openTestLane(t, engine, { onDeferredCommit: ({ keys }) => void keysDone.push(...(keys ?? [])) })
    await lane.push(note('same'))
    await lane.push(note('other'))
    assert.equal(keysDone.length, 0)
    await engine.transaction((tx) => run(tx, `delete from entries where name = 'old same'`))
    await until(() => keysDone.includes('same') && keysDone.includes('other'))
  })

  test('runs the deferred work of urgent items in the same commit', async (t) => {
    const engine = await open(t)
    const keysDone: (readonly string[] | undefined)[] = []
    const lane = openTestLane(t, engine, { onDeferredCommit: ({ keys }) => void keysDone.push(keys) })
    // The first run looks for work of an earlier process.
    await until(() => keysDone.length === 1)
    // Its commit is announced before it is on disk, and it is over with that.
    await engine.transaction(async () => {})
    // Read at once after the answer, before later deferred work can run.
    await lane.push(note('urgent one'))
    assert.deepEqual(await listNames(engine), ['old urgent one'])
    await until(() => keysDone.length === 2)
    assert.deepEqual(keysDone, [[], ['urgent one']])
    const many = Array.from({ length: 15 }, (_, at) => lane.push(note(`urgent ${at}`)))
    await Promise.all(many)
    await until(async () => (await listNames(engine, 'old')).length === 16)
  })

  test('writes urgent items even if their deferred work fails', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => run(tx, 'create unique index one_name on entries (name)'))
    await engine.transaction((tx) => entries.insertReturning(tx, { name: 'old urgent' }))
    const keysDone: string[] = []
    let times = 0
    const lane = openTestLane(t, engine, {
      onDeferredCommit: ({ keys }) => {
        times++
        keysDone.push(...(keys ?? []))
      },
    })
    await until(() => times === 1)
    const { text } = await lane.push(note('urgent'))
    assert.deepEqual([text, keysDone], ['urgent', []])
    assert.deepEqual(await listNames(engine), ['old urgent', 'new urgent'])
    await engine.transaction((tx) => run(tx, `delete from entries where name = 'old urgent'`))
    await until(() => keysDone.includes('urgent'))
  })

  test('uses the given limits', async (t) => {
    const engine = await open(t)
    const lane = openTestLane(t, engine, { limits: { queueItems: 3 } })
    const outcomes = await Promise.allSettled(['a', 'b', 'c', 'd'].map((text) => lane.push(note(text))))
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['fulfilled', 'fulfilled', 'fulfilled', 'rejected'],
    )
    await lane.push(note('e'))
  })

  test('keeps the items of two lanes on one store', async (t) => {
    const engine = await open(t)
    const lanes = [openTestLane(t, engine), openTestLane(t, engine)]
    const pushed = Array.from({ length: 200 }, (_, at) => lanes[at % 2]?.push(note(`${at}`)))
    const writes = Array.from({ length: 20 }, () =>
      engine.transaction((tx) => entries.insertReturning(tx, { name: 'beside' })),
    )
    await Promise.all([...pushed, ...writes])
    assert.equal((await listNames(engine)).length, 220)
  })
}
