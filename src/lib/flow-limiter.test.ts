import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fakeClock } from '../../test/support/clock.ts'
import { until } from '../../test/support/until.ts'
import { FlowLimiter, type FlowLimits } from './flow-limiter.ts'

const LIMITS: FlowLimits = { bytesPerSecond: 100_000, linesPerSecond: 10, burstS: 2 }

function open(limits: Partial<FlowLimits> = {}) {
  const clock = fakeClock()
  return { clock, flow: new FlowLimiter({ ...LIMITS, ...limits }, clock) }
}

suite('the flow of a source', () => {
  test('is free until a burst of lines is used up, and again after the time of one line', () => {
    const { clock, flow } = open()
    flow.countLines(19)
    assert.deepEqual([flow.waitMs(), flow.isFree()], [0, true])
    flow.countLines(1)
    assert.deepEqual([flow.waitMs(), flow.isFree()], [100, false])
    clock.advance(99)
    assert.equal(flow.waitMs(), 1)
    clock.advance(1)
    assert.equal(flow.isFree(), true)
  })

  test('waits longer after work that exceeded the limit', () => {
    const { clock, flow } = open()
    flow.countLines(25)
    assert.equal(flow.waitMs(), 600)
    clock.advance(600)
    assert.equal(flow.waitMs(), 0)
  })

  test('is limited by bytes in the same way, and a read counts as 4 KiB at least', () => {
    const { flow } = open()
    flow.countBytes(199_999)
    assert.equal(flow.waitMs(), 0)
    flow.countBytes(1)
    assert.equal(flow.waitMs(), 1)
    const other = open().flow
    for (let count = 0; count < 48; count++) other.countRead(1)
    assert.equal(other.waitMs(), 0)
    other.countRead(1)
    assert.ok(other.waitMs() > 0)
    other.countRead(100_000)
    assert.ok(other.waitMs() > 1000)
  })

  test('has no limit with 0', () => {
    const { flow } = open({ bytesPerSecond: 0, linesPerSecond: 0 })
    flow.countLines(1e9)
    flow.countRead(1e12)
    assert.equal(flow.isFree(), true)
  })

  test('does waiting work in order, one slice per turn of the event loop', async () => {
    const { flow } = open({ linesPerSecond: 0 })
    const done: string[] = []
    /** Like a connection that always has more. */
    const work = (name: string, left: number): void => {
      done.push(name)
      if (left > 1) flow.later(() => work(name, left - 1))
    }
    for (const name of ['a', 'b']) flow.later(() => work(name, 3))
    assert.deepEqual([done, flow.isFree()], [[], false])
    for (let turn = 1; turn <= 6; turn++) {
      await nextTurn()
      assert.equal(done.length, turn)
    }
    assert.equal(done.join(''), 'ababab')
    assert.equal(flow.isFree(), true)
  })

  test('continues when the time has come, not earlier', async () => {
    const { clock, flow } = open({ linesPerSecond: 100 })
    let slices = 0
    const slice = (): void => {
      slices++
      flow.countLines(1)
      flow.later(slice)
    }
    flow.later(slice)
    await until(() => slices === 200)
    for (let count = 0; count < 100; count++) await nextTurn()
    assert.equal(slices, 200)
    clock.advance(50)
    await until(() => slices === 205)
    for (let count = 0; count < 100; count++) await nextTurn()
    assert.equal(slices, 205)
  })

  test('does all work that waits after the source has ended', async () => {
    const { flow } = open()
    flow.countLines(1000)
    let slices = 0
    for (let count = 0; count < 10; count++) flow.later(() => slices++)
    flow.finish()
    await until(() => slices === 10)
  })

  test('goes on after work that throws', async () => {
    const { flow } = open()
    const thrown = Promise.withResolvers<unknown>()
    const listeners = process.listeners('uncaughtException')
    process.removeAllListeners('uncaughtException')
    process.once('uncaughtException', thrown.resolve)
    let isDone = false
    flow.later(() => {
      throw new Error('broken')
    })
    flow.later(() => {
      isDone = true
    })
    assert.match(String(await thrown.promise), /broken/)
    for (const listener of listeners) process.on('uncaughtException', listener)
    await until(() => isDone)
  })
})
