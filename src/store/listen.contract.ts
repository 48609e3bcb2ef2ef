// What listening must do on every engine: hints of what was committed, also of other processes.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { run } from '../../test/support/sql.ts'
import { until } from '../../test/support/until.ts'
import type { Engine } from './engine.ts'
import { noteHandler } from './lanes/notes.contract.ts'
import { openLane } from './lanes/transaction-lane.ts'
import { entries } from './things.contract.ts'

/** Another engine on the store of the first: what another process has. */
export type OpenTwo = (t: TestContext) => Promise<readonly [Engine, Engine]>

async function commit(engine: Engine, about: string): Promise<void> {
  await engine.transaction(async (tx) => {
    await entries.insertReturning(tx, { name: about })
    if (engine.dialect.notifySql !== undefined) await run(tx, engine.dialect.notifySql, [about])
  })
}

export function listenContract(openTwo: OpenTwo): void {
  test('a commit is told to listeners of this engine and of another one, to each', async (t) => {
    const [one, other] = await openTwo(t)
    const heard: string[][] = [[], [], []]
    const stops = [one, one, other].map((engine, at) => engine.listen((about) => heard[at]?.push(about)))
    t.after(() => {
      for (const stop of stops) stop()
    })
    for (const engine of [one, other]) {
      // Until each one listens, what is said is lost.
      await untilHeard(engine, heard)
      for (const list of heard) list.length = 0
      await commit(engine, 'told')
      await until(() => heard.every((list) => list.length > 0))
      if (one.dialect.notifySql !== undefined) for (const list of heard) assert.ok(list.includes('told'))
    }
  })

  test('what a lane writes is told too, where it is not the writer’s part to tell', async (t) => {
    const [one, other] = await openTwo(t)
    if (one.dialect.notifySql !== undefined) return
    let count = 0
    t.after(other.listen(() => count++))
    const lane = openLane(one, noteHandler)
    await lane.push({ source: 'a', text: 'a', bytes: 1 })
    await until(() => count > 0)
    await lane.close()
  })

  test('what is rolled back is told to nobody', async (t) => {
    const [one, other] = await openTwo(t)
    const heard: string[] = []
    t.after(other.listen((about) => heard.push(about)))
    await untilHeard(one, [heard])
    await untilQuiet(heard)
    heard.length = 0
    await assert.rejects(
      one.transaction(async (tx) => {
        await entries.insertReturning(tx, { name: 'x' })
        if (one.dialect.notifySql !== undefined) await run(tx, one.dialect.notifySql, ['x'])
        throw new Error('no')
      }),
    )
    if (one.dialect.notifySql === undefined) {
      await pause(250)
      assert.deepEqual(heard, [])
      return
    }
    // What is told comes in the order of the commits.
    await commit(one, 'behind it')
    await until(() => heard.includes('behind it'))
    assert.ok(!heard.includes('x'))
  })

  test('a listener that stops right after a commit hears nothing more, and may stop twice', async (t) => {
    const [one] = await openTwo(t)
    const gone: string[][] = Array.from({ length: 8 }, () => [])
    const there: string[] = []
    const stops = gone.map((heard) => one.listen((about) => heard.push(about)))
    t.after(one.listen((about) => there.push(about)))
    await untilHeard(one, [...gone, there])
    await untilQuiet(there)
    there.length = 0
    await commit(one, 'x')
    for (const stop of [...stops, ...stops]) stop()
    const before = gone.map((heard) => heard.length)
    await until(() => there.length > 0)
    await untilQuiet(there)
    assert.deepEqual(
      gone.map((heard) => heard.length),
      before,
    )
  })

  test('an engine that is closed with listeners ends them', async (t) => {
    const [one] = await openTwo(t)
    const heard: string[] = []
    one.listen((about) => heard.push(about))
    one.listen(() => {})
    await untilHeard(one, [heard])
    await one.close()
    heard.length = 0
    // Longer than an engine looks: nothing is thrown from a timer.
    await pause(300)
    assert.deepEqual(heard, [])
  })
}

/** What was said has all arrived: for longer than an engine looks there is nothing new. */
async function untilQuiet(heard: readonly string[]): Promise<void> {
  await until(async () => {
    const before = heard.length
    await pause(250)
    return heard.length === before
  })
}

async function untilHeard(engine: Engine, heard: readonly (readonly string[])[]): Promise<void> {
  const before = heard.map((list) => list.length)
  await until(async () => {
    await commit(engine, 'first')
    await pause(20)
    return heard.every((list, at) => list.length > (before[at] ?? 0))
  })
}
