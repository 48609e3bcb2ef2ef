// What the lane of every engine must do.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { run } from '../../../test/support/sql.ts'
import { until } from '../../../test/support/until.ts'
import type { Engine } from '../engine.ts'
import { entries, type Open, refusedAs } from '../things.contract.ts'
import type { Lane, LaneOptions } from './lane.ts'
import { type Note, noteHandler } from './notes.contract.ts'

type Answer = Awaited<ReturnType<Lane<Note, { id: number; text: string }>['push']>>

/** Longer than a busy machine takes; a test of the limit sets its own. */
const PATIENCE_MS = 5 * 60_000

const note = (text: string, source = 'a'): Note => ({ source, text, bytes: 100 })

function openLane(t: TestContext, engine: Engine, options?: LaneOptions): Lane<Note, Answer> {
  const lane = engine.openLane(noteHandler, { ...options, limits: { waitMs: PATIENCE_MS, ...options?.limits } })
  let closed: Promise<void> | undefined
  const once: Lane<Note, Answer> = {
    push: (item) => lane.push(item),
    pushFor: (item, waiter) => lane.pushFor(item, waiter),
    close: () => (closed ??= lane.close()),
  }
  t.after(() => once.close())
  return once
}

async function names(engine: Engine, start = ''): Promise<string[]> {
  const all = await engine.read((tx) => entries.list(tx, {}, [['id', 'asc']]))
  return all.map(({ name }) => name).filter((name) => name.startsWith(start))
}

export function laneContract(open: Open): void {
  test('each item gets its own answer, in the order in which they came, after they are stored', async (t) => {
    const engine = await open(t)
    const lane = openLane(t, engine)
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
    // Of one source, the order of the numbers is the order of arrival.
    for (let source = 0; source < 7; source++) {
      const ids = answers.filter((_, at) => at % 7 === source).map(({ id }) => id)
      assert.deepEqual(
        ids,
        [...ids].sort((a, b) => a - b),
      )
    }
  })

  test('what comes while a batch is written is written next, not lost', async (t) => {
    const engine = await open(t)
    const lane = openLane(t, engine)
    const all: Promise<unknown>[] = []
    for (let at = 0; at < 50; at++) {
      all.push(lane.push(note(`${at}`)))
      if (at % 5 === 0) await new Promise(setImmediate)
    }
    await Promise.all(all)
    assert.equal((await names(engine)).length, 50)
  })

  test('a batch that fails fails alone, and leaves nothing', async (t) => {
    const engine = await open(t)
    const lane = openLane(t, engine)
    await lane.push(note('before'))
    for (const [text, judge] of [
      ['throw', (error: unknown) => error instanceof Error && error.message.includes('a bug in the work')],
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
      (await names(engine)).map((name) => name.slice(4)),
      ['before', 'after'],
    )
  })

  test('closing waits for what was taken, and refuses what comes later', async (t) => {
    const engine = await open(t)
    const lane = openLane(t, engine)
    const answers = Promise.all(Array.from({ length: 700 }, (_, at) => lane.push(note(`${at}`))))
    const closing = lane.close()
    await assert.rejects(lane.push(note('late')), refusedAs('unavailable', 'closed'))
    await closing
    assert.equal((await answers).length, 700)
    assert.equal((await names(engine)).length, 700)
  })

  test('closing twice is fine, and so is closing what was never used', async (t) => {
    const engine = await open(t)
    const lane = engine.openLane(noteHandler)
    await Promise.all([lane.close(), lane.close()])
    await lane.close()
  })

  test('what is behind the answers is done while nobody waits, and told', async (t) => {
    const engine = await open(t)
    const told: string[] = []
    const lane = openLane(t, engine, { onTidied: ({ keys }) => void told.push(...(keys ?? [])) })
    await lane.push(note('one'))
    await until(() => told.includes('one'))
    assert.deepEqual(await names(engine), ['old one'])
    // More than a piece of it.
    await Promise.all(Array.from({ length: 35 }, (_, at) => lane.push(note(`more ${at}`))))
    await until(() => told.length === 36)
    assert.equal((await names(engine, 'old')).length, 36)
  })

  test('what an earlier process left behind is done by the next one', async (t) => {
    const engine = await open(t)
    await engine.transaction(async (tx) => {
      for (let at = 0; at < 25; at++) await entries.insertReturning(tx, { name: `new ${at}` })
    })
    const told: string[] = []
    openLane(t, engine, { onTidied: ({ keys }) => void told.push(...(keys ?? [])) })
    await until(() => told.length === 25)
    assert.equal((await names(engine, 'old')).length, 25)
  })

  test('what is behind the answers is done under load too', async (t) => {
    const engine = await open(t)
    const told: string[] = []
    const lane = openLane(t, engine, { onTidied: ({ keys }) => void told.push(...(keys ?? [])) })
    let isOver = false
    const load = Array.from({ length: 64 }, async (_, at) => {
      while (!isOver) await lane.push(note('load', `source ${at}`))
    })
    await until(() => told.length > 50)
    isOver = true
    await Promise.all(load)
  })

  test('tidying that fails does not fail what is written, and is tried again', async (t) => {
    const engine = await open(t)
    // Nothing can be renamed as long as this is there.
    const taken = (tx: Parameters<Parameters<Engine['transaction']>[0]>[0]) =>
      run(tx, 'create unique index one_name on entries (name)')
    await engine.transaction(taken)
    await engine.transaction((tx) => entries.insertReturning(tx, { name: 'old same' }))
    const told: string[] = []
    const lane = openLane(t, engine, { onTidied: ({ keys }) => void told.push(...(keys ?? [])) })
    await lane.push(note('same'))
    await lane.push(note('other'))
    assert.equal(told.length, 0)
    await engine.transaction((tx) => run(tx, `delete from entries where name = 'old same'`))
    await until(() => told.includes('same') && told.includes('other'))
  })

  test('what somebody waits for is tidied in the commit of its answer', async (t) => {
    const engine = await open(t)
    const told: (readonly string[] | undefined)[] = []
    const lane = openLane(t, engine, { onTidied: ({ keys }) => void told.push(keys) })
    // What an earlier process might have left is looked for first.
    await until(() => told.length === 1)
    // The store is asked as soon as the answer is there: nothing that is done after it has happened.
    await lane.push(note('urgent one'))
    assert.deepEqual(await names(engine), ['old urgent one'])
    await until(() => told.length === 2)
    assert.deepEqual(told, [[], ['urgent one']])
    const many = Array.from({ length: 15 }, (_, at) => lane.push(note(`urgent ${at}`)))
    await Promise.all(many)
    await until(async () => (await names(engine, 'old')).length === 16)
  })

  test('where that tidying fails, what is written is written all the same', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => run(tx, 'create unique index one_name on entries (name)'))
    await engine.transaction((tx) => entries.insertReturning(tx, { name: 'old urgent' }))
    const told: string[] = []
    let times = 0
    const lane = openLane(t, engine, {
      onTidied: ({ keys }) => {
        times++
        told.push(...(keys ?? []))
      },
    })
    await until(() => times === 1)
    const { text } = await lane.push(note('urgent'))
    assert.deepEqual([text, told], ['urgent', []])
    assert.deepEqual(await names(engine), ['old urgent', 'new urgent'])
    await engine.transaction((tx) => run(tx, `delete from entries where name = 'old urgent'`))
    await until(() => told.includes('urgent'))
  })

  test('bounds are those that were given', async (t) => {
    const engine = await open(t)
    const lane = openLane(t, engine, { limits: { queueItems: 3 } })
    const outcomes = await Promise.allSettled(['a', 'b', 'c', 'd'].map((text) => lane.push(note(text))))
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['fulfilled', 'fulfilled', 'fulfilled', 'rejected'],
    )
    await lane.push(note('e'))
  })

  test('two lanes on one store do not lose what the other writes', async (t) => {
    const engine = await open(t)
    const lanes = [openLane(t, engine), openLane(t, engine)]
    const pushed = Array.from({ length: 200 }, (_, at) => lanes[at % 2]?.push(note(`${at}`)))
    const writes = Array.from({ length: 20 }, () =>
      engine.transaction((tx) => entries.insertReturning(tx, { name: 'beside' })),
    )
    await Promise.all([...pushed, ...writes])
    assert.equal((await names(engine)).length, 220)
  })
}
