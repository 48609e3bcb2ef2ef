import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { Timers } from './timers.ts'
import type { Timer } from './transport.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

function lateMs(ms: number): number {
  return Math.max(10, ms / 60)
}

test('each timer fires once, not early and at most a little late', () => {
  const timer = fc.record({ ms: fc.double({ min: 0, max: 100_000, noNaN: true }), isCancelled: fc.boolean() })
  fc.assert(
    fc.property(fc.array(timer, { maxLength: 40 }), fc.nat(1000), (asked, startMs) => {
      const timers = new Timers()
      const rang: { ms: number; atMs: number }[] = []
      let nowMs = startMs
      const made = asked.map(({ ms }) => timers.add(ms, nowMs, () => rang.push({ ms, atMs: nowMs - startMs })))
      for (const [at, { isCancelled }] of asked.entries()) if (isCancelled) made[at]?.cancel()
      for (let next = timers.nextMs(); next !== undefined; next = timers.nextMs()) {
        assert.ok(next >= nowMs)
        nowMs = next
        timers.run(nowMs)
      }
      const expected = asked.filter(({ isCancelled }) => !isCancelled).map(({ ms }) => ms)
      assert.deepEqual(rang.map(({ ms }) => ms).sort(), expected.sort())
      for (const { ms, atMs } of rang) assert.ok(atMs >= ms - 1e-6 && atMs <= ms + lateMs(ms), `${ms} rang at ${atMs}`)
    }),
    { numRuns: 2000 },
  )
})

test('timers of one delay fire in the order they were started', () => {
  const timers = new Timers()
  const rang: number[] = []
  for (let number = 0; number < 5; number++) timers.add(100, number, () => rang.push(number))
  timers.run(102)
  assert.deepEqual(rang, [0, 1, 2])
  timers.run(104)
  assert.deepEqual(rang, [0, 1, 2, 3, 4])
})

test('a firing timer may start and cancel others', () => {
  const timers = new Timers()
  const rang: string[] = []
  const other = timers.add(20, 0, () => rang.push('cancelled'))
  timers.add(10, 0, () => {
    rang.push('first')
    other.cancel()
    timers.add(10, 10, () => rang.push('second'))
  })
  timers.run(10)
  timers.run(20)
  other.cancel()
  assert.deepEqual(rang, ['first', 'second'])
  assert.equal(timers.nextMs(), undefined)
})

test('a hundred thousand slightly different delays cost as little as one', () => {
  const timers = new Timers()
  for (let number = 0; number < 100_000; number++) {
    timers.add(10_000 - number / 100_001, number / 1000, () => {}).cancel()
    timers.add(60_000 - number / 3, number / 1000, () => {}).cancel()
  }
  timers.add(5000, 0, () => {})
  const from = performance.now()
  for (let turn = 0; turn < 1000; turn++) timers.nextMs()
  const ms = performance.now() - from
  // With a list for each delay it takes a minute.
  assert.ok(ms < 2000, `a thousand looks took ${ms} ms`)
})

test('a cancelled timer that is still referenced does not keep later ones in memory', async () => {
  const timers = new Timers()
  const kept: Timer[] = [timers.add(100, 0, () => {})]
  const others: WeakRef<object>[] = []
  const pass = (before: Timer): Timer => {
    const held = { bytes: new Uint8Array(1000) }
    others.push(new WeakRef(held))
    const next = timers.add(100, others.length, () => void held.bytes)
    before.cancel()
    return next
  }
  let last = kept[0] ?? assert.fail()
  for (let count = 0; count < 1000; count++) last = pass(last)
  // Objects created in this turn of the event loop live until the next one.
  await new Promise((go) => setImmediate(go))
  collect()
  const left = others.filter((other) => other.deref() !== undefined)
  assert.ok(left.length < 10, `${left.length} are left`)
  assert.equal(kept.length, 1)
})
