import assert from 'node:assert/strict'
import { test } from 'node:test'
import { like } from '../../test/support/engine.ts'
import { refused, testHost } from '../../test/support/host.ts'
import type { Host } from '../registry/context.ts'
import { storeHealth } from './health.ts'

function reading(host: Host, read: () => Promise<never>): Host {
  return { ...host, engine: like(host.engine, { read }) }
}

test('a store that answers is asked once for all who want to know', async (t) => {
  const { host } = await testHost(t)
  let asked = 0
  const { engine } = host
  const read: typeof engine.read = (work) => {
    asked++
    return engine.read(work)
  }
  const health = storeHealth({ ...host, engine: like(engine, { read }) })
  await Promise.all(Array.from({ length: 50 }, () => health()))
  await health()
  assert.equal(asked, 1)
})

test('a store that fails or says nothing is a reason', async (t) => {
  const { host } = await testHost(t)
  const failing = reading(host, () => Promise.reject(new Error('/var/lib/secret path')))
  await assert.rejects(storeHealth(failing)(), refused('unavailable', /^the store does not answer$/))
  const silent = reading(host, () => new Promise(() => {}))
  await assert.rejects(storeHealth(silent, 10)(), refused('unavailable', 'in time'))
})
