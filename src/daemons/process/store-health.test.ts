import assert from 'node:assert/strict'
import { test } from 'node:test'
import { overrideEngine } from '../../../test/support/engine-override.ts'
import { isRefusal, testHost } from '../../../test/support/host.ts'
import { until } from '../../../test/support/until.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { storeHealthCheck } from './store-health.ts'

function reading(host: InstanceHost, read: () => Promise<never>): InstanceHost {
  return { ...host, engine: overrideEngine(host.engine, { read }) }
}

test('concurrent checks share one read of the store', async (t) => {
  const { host } = await testHost(t)
  let reads = 0
  const { engine } = host
  const read: typeof engine.read = (work) => {
    reads++
    return engine.read(work)
  }
  const health = storeHealthCheck({ ...host, engine: overrideEngine(engine, { read }) })
  await Promise.all(Array.from({ length: 50 }, () => health()))
  await health()
  assert.equal(reads, 1)
})

test('a store that fails or does not respond is refused with a reason', async (t) => {
  const { host } = await testHost(t)
  const failing = reading(host, () => Promise.reject(new Error('/var/lib/secret path')))
  await assert.rejects(storeHealthCheck(failing)(), isRefusal('unavailable', /^the store cannot be read$/))
  const silent = reading(host, () => new Promise(() => {}))
  await assert.rejects(storeHealthCheck(silent, 10)(), isRefusal('unavailable', 'in time'))
})

test('a store that cannot be written is unhealthy without a path in the reason, and recovers', async (t) => {
  const { host } = await testHost(t)
  let isFull = true
  const { engine } = host
  const transaction: typeof engine.transaction = (work) =>
    isFull
      ? Promise.reject(new Refusal('unavailable', 'the disk under /var/lib/secret is full'))
      : engine.transaction(work)
  const ill = { ...host, engine: overrideEngine(engine, { transaction }) }
  await assert.rejects(storeHealthCheck(ill)(), isRefusal('unavailable', /^the store cannot be written$/))
  const health = storeHealthCheck(ill)
  await assert.rejects(health(), isRefusal('unavailable'))
  isFull = false
  await until(() =>
    health().then(
      () => true,
      () => false,
    ),
  )
})

test('a recent write is not probed again', async (t) => {
  const { host } = await testHost(t)
  let written = 0
  const { engine } = host
  const transaction: typeof engine.transaction = (work) => {
    written++
    return engine.transaction(work)
  }
  const health = storeHealthCheck({ ...host, engine: overrideEngine(engine, { transaction }) })
  await health()
  await health()
  assert.equal(written, 1)
})
