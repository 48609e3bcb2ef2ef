// The contract of `listen`, for each engine.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { run } from '../../test/support/sql.ts'
import { until } from '../../test/support/until.ts'
import type { Engine } from './engine.ts'
import { noteHandler } from './lanes/notes.contract.ts'
import { openLane } from './lanes/transaction-lane.ts'
import { entries } from './things.contract.ts'

/** Opens two engines on one store, like two processes. */
type EnginePairOpener = (t: TestContext) => Promise<readonly [Engine, Engine]>

async function commit(engine: Engine, payload: string): Promise<void> {
  await engine.transaction(async (tx) => {
    await entries.insertReturning(tx, { name: payload })
    if (engine.dialect.notifySql !== undefined) await run(tx, engine.dialect.notifySql, [payload])
  })
}

export function listenContract(openPair: EnginePairOpener): void {
  test('notifies all listeners of both engines of a commit', async (t) => {
    const [one, other] = await openPair(t)
    const received: string[][] = [[], [], []]
    const stops = [one, one, other].map((engine, at) => engine.listen((payload) => received[at]?.push(payload)))
    t.after(() => {
      for (const stop of stops) stop()
    })
    for (const engine of [one, other]) {
      // Notifications are lost until each listener is connected.
      await untilNotified(engine, received)
      for (const list of received) list.length = 0
      await commit(engine, 'payload')
      await until(() => received.every((list) => list.length > 0))
      if (one.dialect.notifySql !== undefined) for (const list of received) assert.ok(list.includes('payload'))
    }
  })

  test('notifies of commits of a lane, on engines that poll', async (t) => {
    const [one, other] = await openPair(t)
    if (one.dialect.notifySql !== undefined) return
    let count = 0
    t.after(other.listen(() => count++))
    const lane = openLane(one, noteHandler)
    await lane.push({ source: 'a', text: 'a', bytes: 1 })
    await until(() => count > 0)
    await lane.close()
  })

  test('does not notify of a rollback', async (t) => {
    const [one, other] = await openPair(t)
    const received: string[] = []
    t.after(other.listen((payload) => received.push(payload)))
    await untilNotified(one, [received])
    await untilQuiet(received)
    received.length = 0
    await assert.rejects(
      one.transaction(async (tx) => {
        await entries.insertReturning(tx, { name: 'x' })
        if (one.dialect.notifySql !== undefined) await run(tx, one.dialect.notifySql, ['x'])
        throw new Error('no')
      }),
    )
    if (one.dialect.notifySql === undefined) {
      await pause(250)
      assert.deepEqual(received, [])
      return
    }
    // Notifications arrive in the order of the commits.
    await commit(one, 'after it')
    await until(() => received.includes('after it'))
    assert.ok(!received.includes('x'))
  })

  test('does not notify a listener that has stopped, and lets it stop twice', async (t) => {
    const [one] = await openPair(t)
    const stopped: string[][] = Array.from({ length: 8 }, () => [])
    const active: string[] = []
    const stops = stopped.map((received) => one.listen((payload) => received.push(payload)))
    t.after(one.listen((payload) => active.push(payload)))
    await untilNotified(one, [...stopped, active])
    await untilQuiet(active)
    active.length = 0
    await commit(one, 'x')
    for (const stop of [...stops, ...stops]) stop()
    const before = stopped.map((received) => received.length)
    await until(() => active.length > 0)
    await untilQuiet(active)
    assert.deepEqual(
      stopped.map((received) => received.length),
      before,
    )
  })

  test('stops its listeners on close', async (t) => {
    const [one] = await openPair(t)
    const received: string[] = []
    one.listen((payload) => received.push(payload))
    one.listen(() => {})
    await untilNotified(one, [received])
    await one.close()
    received.length = 0
    // Longer than the poll interval: no timer throws.
    await pause(300)
    assert.deepEqual(received, [])
  })
}

/** Waits until no notification arrives for longer than the poll interval. */
async function untilQuiet(received: readonly string[]): Promise<void> {
  await until(async () => {
    const before = received.length
    await pause(250)
    return received.length === before
  })
}

async function untilNotified(engine: Engine, received: readonly (readonly string[])[]): Promise<void> {
  const before = received.map((list) => list.length)
  await until(async () => {
    await commit(engine, 'first')
    await pause(20)
    return received.every((list, at) => list.length > (before[at] ?? 0))
  })
}
