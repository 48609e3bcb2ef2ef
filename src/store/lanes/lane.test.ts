import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { until } from '../../../test/support/until.ts'
import { refusedAs } from '../things.contract.ts'
import { LANE_LIMITS, type LaneHandler, type LaneLimits, QueuedLane, type WriteQueue } from './lane.ts'

interface Item {
  readonly name: string
  readonly source: string
  readonly bytes: number
}

const item = (name: string, source = 'a', bytes = 1): Item => ({ name, source, bytes })

const handler: LaneHandler<Item, string> = {
  byteSize: ({ bytes }) => bytes,
  source: ({ source }) => source,
  isUrgent: () => false,
  run: () => assert.fail('the write queue replaces it'),
  runDeferred: () => assert.fail('the write queue replaces it'),
}

/** A write queue whose batches end when the test calls `finish`. */
function createManualQueue() {
  const batches: (readonly Item[])[] = []
  const finishers: ((error?: Error) => void)[] = []
  let isClosed = false
  const queue: WriteQueue<Item, string> = {
    write: (items) => {
      assert.ok(!isClosed)
      batches.push(items)
      const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>()
      finishers.push((error) => (error ? reject(error) : resolve(items.map(({ name }) => `${name}!`))))
      return promise
    },
    close: async () => {
      isClosed = true
    },
  }
  /** Ends the batch that is being written. */
  const finish = async (error?: Error): Promise<void> => {
    await until(() => finishers.length > 0)
    finishers.shift()?.(error)
  }
  const namesOf = (at: number): string[] => batches[at]?.map(({ name }) => name) ?? []
  return { queue, batches, finish, namesOf, isClosed: () => isClosed }
}

function open(limits: Partial<LaneLimits> = {}) {
  const manual = createManualQueue()
  return { ...manual, lane: new QueuedLane(handler, manual.queue, { limits }) }
}

suite('a lane', () => {
  test('writes the items of one event loop turn in a batch, and those that arrive meanwhile in the next', async () => {
    const { lane, finish, namesOf } = open()
    const first = [lane.push(item('1')), lane.push(item('2'))]
    await until(() => namesOf(0).length > 0)
    const second = [lane.push(item('3')), lane.push(item('4'))]
    await finish()
    assert.deepEqual(await Promise.all(first), ['1!', '2!'])
    await finish()
    assert.deepEqual(await Promise.all(second), ['3!', '4!'])
    assert.deepEqual([namesOf(0), namesOf(1), namesOf(2)], [['1', '2'], ['3', '4'], []])
  })

  test('writes one batch at a time', async () => {
    const { lane, finish, batches, namesOf } = open({ batchItems: 2 })
    const pushed = Promise.all(['1', '2', '3', '4', '5'].map((name) => lane.push(item(name))))
    await until(() => batches.length === 1)
    await new Promise(setImmediate)
    assert.deepEqual([namesOf(0), namesOf(1)], [['1', '2'], []])
    await finish()
    await until(() => batches.length === 2)
    assert.deepEqual(namesOf(1), ['3', '4'])
    await finish()
    await finish()
    assert.deepEqual(await pushed, ['1!', '2!', '3!', '4!', '5!'])
  })

  test('writes a full batch without waiting for the end of the turn', async () => {
    const { lane, batches, finish } = open()
    const pushed = Array.from({ length: LANE_LIMITS.batchItems }, (_, at) => lane.push(item(`${at}`)))
    assert.equal(batches.length, 1)
    await finish()
    // Those that arrived meanwhile.
    await finish()
    await Promise.all(pushed)
  })

  test('refuses items while the queue is full', async () => {
    const { lane, finish } = open({ queueItems: 2 })
    const taken = [lane.push(item('1')), lane.push(item('2'))]
    await assert.rejects(lane.push(item('3')), refusedAs('unavailable', 'queue is full'))
    await finish()
    await Promise.all(taken)
    const next = lane.push(item('4'))
    await finish()
    assert.equal(await next, '4!')
  })

  test('refuses items beyond the byte limit, which includes the batch being written', async () => {
    const { lane, finish } = open({ queueBytes: 100 })
    const taken = lane.push(item('1', 'a', 60))
    await assert.rejects(lane.push(item('2', 'a', 41)), refusedAs('unavailable'))
    const fits = lane.push(item('3', 'a', 40))
    await finish()
    assert.deepEqual(await Promise.all([taken, fits]), ['1!', '3!'])
    const again = lane.push(item('4', 'a', 100))
    await finish()
    await again
  })

  test('does not let a flood from one source delay another', async () => {
    const { lane, finish, batches, namesOf } = open({ batchItems: 8 })
    const flood = Array.from({ length: 300 }, (_, at) => lane.push(item(`f${at}`, 'flood')))
    const other = lane.push(item('other', 'quiet'))
    await finish()
    await finish()
    assert.equal(await other, 'other!')
    // The first batch was full before the other item came. Then each source gets at most a quarter of a batch.
    assert.deepEqual(
      namesOf(0),
      Array.from({ length: 8 }, (_, at) => `f${at}`),
    )
    assert.deepEqual(namesOf(1), ['f8', 'other', 'f9'])
    for (let left = 290; left > 0; left -= 8) await finish()
    await Promise.all(flood)
    assert.deepEqual(
      batches.flat().flatMap(({ name, source }) => (source === 'flood' ? [name] : [])),
      Array.from({ length: 300 }, (_, at) => `f${at}`),
    )
  })

  test('limits the bytes of a batch, but writes a larger item alone', async () => {
    const { lane, finish, namesOf } = open({ batchBytes: 10 })
    const pushed = [item('1', 'a', 6), item('2', 'a', 6), item('large', 'a', 50), item('3', 'a', 4), item('4', 'a', 6)]
    const answers = Promise.all(pushed.map((one) => lane.push(one)))
    for (let at = 0; at < 4; at++) await finish()
    await answers
    assert.deepEqual([0, 1, 2, 3].map(namesOf), [['1'], ['2'], ['large'], ['3', '4']])
  })

  test('rejects items after the time limit and does not write those still in the queue', async () => {
    const { lane, finish, batches, namesOf } = open({ waitMs: 20 })
    const written = lane.push(item('1'))
    await until(() => batches.length > 0)
    const waiting = lane.push(item('2'))
    await assert.rejects(written, refusedAs('unavailable', 'in time'))
    await assert.rejects(waiting, refusedAs('unavailable', 'in time'))
    await finish()
    const next = lane.push(item('3'))
    await until(() => batches.length > 1)
    assert.deepEqual([namesOf(0), namesOf(1)], [['1'], ['3']])
    await finish()
    assert.equal(await next, '3!')
    await lane.close()
  })

  test('rejects only the items of a failed batch', async () => {
    const { lane, finish, batches } = open()
    const failing = Promise.allSettled([lane.push(item('1')), lane.push(item('2'))])
    await until(() => batches.length > 0)
    const good = lane.push(item('3'))
    await finish(new Error('no'))
    for (const outcome of await failing) assert.equal(outcome.status, 'rejected')
    await finish()
    assert.equal(await good, '3!')
  })

  test('rejects the items of a batch with a missing answer', async () => {
    const queue: WriteQueue<Item, string> = { write: async () => ['one only'], close: async () => {} }
    const lane = new QueuedLane(handler, queue)
    const [, missing] = await Promise.allSettled([lane.push(item('1')), lane.push(item('2'))])
    assert.equal(missing.status, 'rejected')
  })

  test('continues after a write queue that throws synchronously', async () => {
    let times = 0
    const queue: WriteQueue<Item, string> = {
      write: (items) => {
        if (times++ === 0) throw new Error('no')
        return Promise.resolve(items.map(({ name }) => name))
      },
      close: async () => {},
    }
    const lane = new QueuedLane(handler, queue)
    await assert.rejects(lane.push(item('1')), /no/)
    assert.equal(await lane.push(item('2')), '2')
    await lane.close()
  })

  test('waits for queued items on close, then closes the write queue, and refuses later items', async () => {
    const { lane, finish, isClosed } = open({ batchItems: 1 })
    const pushed = Promise.all([lane.push(item('1')), lane.push(item('2'))])
    const closing = lane.close()
    await assert.rejects(lane.push(item('3')), refusedAs('unavailable', 'closed'))
    await finish()
    assert.ok(!isClosed())
    await finish()
    await closing
    assert.ok(isClosed())
    assert.deepEqual(await pushed, ['1!', '2!'])
  })

  test('writes each item exactly once, in the order of its source, within the limits', async () => {
    const items = fc.array(fc.record({ source: fc.constantFrom('a', 'b', 'c'), bytes: fc.nat(20), wait: fc.boolean() }))
    const limits = fc.record({
      batchItems: fc.integer({ min: 1, max: 9 }),
      batchBytes: fc.integer({ min: 1, max: 40 }),
    })
    await fc.assert(
      fc.asyncProperty(items, limits, async (given, { batchItems, batchBytes }) => {
        const batches: (readonly Item[])[] = []
        let writing = 0
        const queue: WriteQueue<Item, string> = {
          write: async (batch) => {
            assert.equal(++writing, 1)
            batches.push(batch)
            await new Promise(setImmediate)
            writing--
            return batch.map(({ name }) => name)
          },
          close: async () => {},
        }
        const lane = new QueuedLane(handler, queue, { limits: { batchItems, batchBytes } })
        const answers: Promise<string>[] = []
        for (const [at, { source, bytes, wait }] of given.entries()) {
          answers.push(lane.push({ name: `${at}`, source, bytes }))
          if (wait) await new Promise(setImmediate)
        }
        await lane.close()
        assert.deepEqual(
          await Promise.all(answers),
          given.map((_, at) => `${at}`),
        )
        for (const batch of batches) {
          assert.ok(batch.length <= batchItems && batch.length > 0)
          const bytes = batch.reduce((sum, one) => sum + one.bytes, 0)
          assert.ok(bytes <= batchBytes || batch.length === 1)
        }
        for (const source of ['a', 'b', 'c']) {
          const order = batches.flat().flatMap((one) => (one.source === source ? [Number(one.name)] : []))
          assert.deepEqual(
            order,
            [...order].sort((a, b) => a - b),
          )
        }
      }),
      { numRuns: 60 },
    )
  })
})

test('an exception of one waiter fails neither the others of its batch nor the next batch', async () => {
  const faults: unknown[] = []
  const { queue, finish } = createManualQueue()
  const lane = new QueuedLane(handler, queue, { onFault: (error) => faults.push(error) })
  const odd = {
    resolve: () => assert.fail('resolve threw'),
    reject: () => assert.fail('reject threw'),
  }
  lane.pushFor(item('1'), odd)
  const beside = lane.push(item('2'))
  await finish()
  assert.equal(await beside, '2!')
  lane.pushFor(item('3'), odd)
  const failing = lane.push(item('4'))
  await finish(new Error('disk'))
  await assert.rejects(failing, /disk/)
  const next = lane.push(item('5'))
  await finish()
  assert.equal(await next, '5!')
  assert.deepEqual(
    faults.map((fault) => (fault instanceof Error ? fault.message : fault)),
    ['resolve threw', 'reject threw'],
  )
  await lane.close()
})
