import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { believedTime, checkClock, clockChecks, findHeldRemoval } from './retention-clock.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const EVERY_MS = 10 * MINUTE_MS
const KEEP = { KEEP_MESSAGES: HOUR_MS, KEEP_TURNS: HOUR_MS, KEEP_AUDIT: HOUR_MS }

/** An instance whose newest row is from the first hour of 2026, which checks its clock as `runed` does. */
async function open(t: TestContext, engine: EngineName) {
  const on = await testHost(t, engine)
  await on.groups('main')
  const { clock, host } = on
  const check = (elapsedMs: number) => host.engine.transaction((tx) => checkClock(tx, clock.now(), elapsedMs))
  return {
    clock,
    check,
    /** How far the believed time is behind the clock. */
    lag: async () => clock.now() - (await host.engine.read((tx) => believedTime(tx, clock.now()))),
    held: () => host.engine.read((tx) => findHeldRemoval(tx, clock.now(), KEEP)),
    checks: () => host.engine.read((tx) => clockChecks.count(tx)),
    /** The process runs for this long, with a check every ten minutes. */
    run: async (ms: number) => {
      for (let ran = 0; ran < ms; ran += EVERY_MS) {
        clock.advance(EVERY_MS)
        await check(EVERY_MS)
      }
    },
    /** The process starts again after this time. */
    restart: async (afterMs: number) => {
      clock.advance(afterMs)
      await check(0)
    },
  }
}

onEveryEngine('the time of removals', (engine) => {
  test('is that of a clock that goes evenly, also after short restarts', async (t) => {
    const on = await open(t, engine)
    await on.restart(0)
    await on.run(3 * HOUR_MS)
    assert.equal(await on.lag(), 0)
    await on.restart(MINUTE_MS)
    await on.run(HOUR_MS)
    assert.equal(await on.lag(), MINUTE_MS)
    assert.equal(await on.held(), undefined)
  })

  test('ignores a jump of the clock for a day of running, whatever starts in between', async (t) => {
    const on = await open(t, engine)
    await on.restart(0)
    await on.run(HOUR_MS)
    const jump = 10 * 365 * DAY_MS
    on.clock.advance(jump)
    await on.run(HOUR_MS)
    for (let starts = 0; starts < 20; starts++) await on.restart(MINUTE_MS)
    assert.equal(await on.lag(), jump + 20 * MINUTE_MS)
    assert.deepEqual(await on.held(), { believedMs: on.clock.now() - (await on.lag()), waitMs: 23 * HOUR_MS })
    on.clock.advance(-jump)
    await on.restart(0)
    assert.equal(await on.lag(), 20 * MINUTE_MS)
    assert.equal(await on.held(), undefined)
  })

  test('does not believe a clock that is wrong at the first start', async (t) => {
    const on = await open(t, engine)
    on.clock.advance(365 * DAY_MS)
    assert.equal(await on.lag(), 365 * DAY_MS)
    await on.restart(0)
    assert.equal(await on.lag(), 365 * DAY_MS)
    assert.equal((await on.held())?.waitMs, DAY_MS)
  })

  test('catches up after a month without svc, and on a machine that is off every night', async (t) => {
    const on = await open(t, engine)
    await on.restart(0)
    await on.run(HOUR_MS)
    await on.restart(30 * DAY_MS)
    assert.equal(await on.lag(), 30 * DAY_MS)
    for (let day = 0; day < 4; day++) {
      await on.run(8 * HOUR_MS)
      await on.restart(16 * HOUR_MS)
    }
    const lag = await on.lag()
    assert.ok(lag <= 4 * 16 * HOUR_MS, `${lag / HOUR_MS} h`)
    await on.run(DAY_MS + EVERY_MS)
    assert.equal(await on.lag(), 0)
    assert.ok((await on.checks()) < 160)
  })

  test('is that of the slower of two machines, to within the time between two checks', async (t) => {
    const on = await open(t, engine)
    await on.restart(0)
    const ahead = 3 * HOUR_MS
    for (let ran = 0; ran < 12 * HOUR_MS; ran += EVERY_MS) {
      on.clock.advance(EVERY_MS)
      await on.check(EVERY_MS)
      on.clock.advance(ahead)
      await on.check(EVERY_MS)
      const lag = await on.lag()
      assert.ok(lag >= ahead - EVERY_MS && lag <= ahead, `${lag / MINUTE_MS} min`)
      on.clock.advance(-ahead)
    }
    assert.equal(await on.lag(), 0)
  })
})
