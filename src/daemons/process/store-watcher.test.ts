import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testHost } from '../../../test/support/host.ts'
import { until } from '../../../test/support/until.ts'
import { FAULTS } from '../../lib/fault-boundary.ts'
import { startPeriodicJob } from './periodic-job.ts'
import { StoreWatcher } from './store-watcher.ts'

test('checks go on after a check, a tick and a subscriber that throw', async (t) => {
  const { host, faults } = await testHost(t)
  let [checks, ticks] = [0, 0]
  host.signals.on(() => {
    throw new TypeError('odd subscriber')
  })
  const watcher = new StoreWatcher({
    host,
    check: async () => {
      if (checks++ === 0) throw new TypeError('odd check')
    },
    onTick: () => {
      ticks++
      throw new TypeError('odd tick')
    },
  })
  t.after(() => watcher.close())
  await until(() => checks > 0)
  host.signals.emit()
  await until(() => checks > 1)
  await until(() => ticks > 1)
  for (const [place, message] of [
    ['job', 'odd check'],
    ['signal', 'odd subscriber'],
    ['job', 'odd tick'],
  ] as const)
    assert.ok(
      faults.some((fault) => fault.place === place && fault.message === message),
      message,
    )
  assert.equal(faults.filter(({ message }) => message === 'odd check').length, 1)
  assert.equal(host.metrics.count(FAULTS, { place: 'signal' }), 1)
})

test('a periodic job goes on after a run that throws before it returns a promise', async () => {
  const errors: unknown[] = []
  let runs = 0
  const stop = startPeriodicJob({
    firstMs: 1,
    everyMs: 1,
    run: () => {
      if (runs++ === 0) throw new TypeError('odd run')
      return Promise.resolve()
    },
    onError: (error) => errors.push(error),
  })
  await until(() => runs > 2)
  await stop()
  assert.deepEqual(errors.map(String), ['TypeError: odd run'])
})
