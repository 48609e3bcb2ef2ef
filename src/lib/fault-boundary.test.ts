import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { setImmediate as turnOver } from 'node:timers/promises'
import { FAULTS, FaultBoundary, type FaultPlace, guard } from './fault-boundary.ts'
import { MetricRegistry } from './log/metric-registry.ts'
import { Refusal } from './refusal.ts'

function open() {
  const metrics = new MetricRegistry()
  const logged: [FaultPlace, unknown][] = []
  const faults = new FaultBoundary(metrics, (error, place) => logged.push([place, error]))
  return { faults, logged, countOf: (place: FaultPlace) => metrics.count(FAULTS, { place }) }
}

suite('a guarded callback', () => {
  test('passes its arguments on, and its exceptions to the handler', () => {
    const [called, caught]: [unknown[], unknown[]] = [[], []]
    const error = new TypeError('odd')
    const callback = guard(
      (fault) => caught.push(fault),
      (...args: unknown[]) => {
        called.push(args)
        if (args.length > 1) throw error
      },
    )
    callback(1)
    callback(1, 2)
    callback(3)
    assert.deepEqual(called, [[1], [1, 2], [3]])
    assert.deepEqual(caught, [error])
  })

  test('passes rejections of an async callback to the handler', async () => {
    const caught: unknown[] = []
    guard(
      (fault) => caught.push(fault),
      async () => {
        await turnOver()
        throw new Error('late')
      },
    )()
    await turnOver()
    await turnOver()
    assert.deepEqual(caught.map(String), ['Error: late'])
  })
})

suite('a fault boundary', () => {
  test('counts and logs a fault once, and then ends what it belongs to', () => {
    const { faults, logged, countOf } = open()
    const error = new Error('odd')
    const ended: unknown[] = []
    const callback = faults.guard(
      'stream',
      () => {
        throw error
      },
      (fault) => ended.push(fault),
    )
    callback()
    assert.deepEqual(logged, [['stream', error]])
    assert.deepEqual(ended, [error])
    assert.deepEqual([countOf('stream'), countOf('turn')], [1, 0])
  })

  test('reports an exception of the end as well', () => {
    const { faults, logged } = open()
    const fail = faults.handler('turn', () => {
      throw new Error('second')
    })
    fail(new Error('first'))
    assert.deepEqual(
      logged.map(([, error]) => String(error)),
      ['Error: first', 'Error: second'],
    )
  })

  test('logs a refusal without counting it', () => {
    const { faults, logged, countOf } = open()
    faults.report('job', new Refusal('unavailable', 'the store is busy'))
    assert.deepEqual([logged.length, countOf('job')], [1, 0])
  })

  test('survives an error whose members cannot be read', () => {
    const lines: string[] = []
    const metrics = new MetricRegistry()
    const faults = new FaultBoundary(metrics, (error) => lines.push(`${Reflect.get(Object(error), 'message')}`))
    const odd = Object.defineProperty({}, 'message', {
      get: () => {
        throw new Error('getter')
      },
    })
    faults.report('turn', odd)
    assert.deepEqual(lines, ['an error that cannot be logged'])
    assert.equal(metrics.count(FAULTS, { place: 'turn' }), 1)
  })
})
