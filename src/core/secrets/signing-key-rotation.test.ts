import assert from 'node:assert/strict'
import { test } from 'node:test'
import { calculateJwkThumbprint } from 'jose'
import { freshStore, isRefusal, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { timestamp } from '../../lib/clock.ts'
import { issueBearer, publicKeys, verifyBearer } from '../access/bearers.ts'
import { ensureSigningKey, retireSigningKeys, rotateOldKey, rotateSigningKey } from './signing-key-rotation.ts'
import { signingKeys } from './signing-keys.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const invalid = isRefusal('unauthenticated', /^the bearer is not valid$/)

onEveryEngine('rotation of signing keys', (engine) => {
  test('old bearers verify until they expire, and the private part of the old key is gone', async (t) => {
    const { host, clock } = await testHost(t, engine)
    const old = await issueBearer(host, { sub: 'github:1', ttlMs: 30 * DAY_MS })
    const { created } = await host.engine.transaction((tx) => rotateSigningKey(tx, host, { endsNow: false }))
    const next = await issueBearer(host, { sub: 'github:2', ttlMs: 30 * DAY_MS })
    for (const bearer of [old, next]) assert.equal((await verifyBearer(host, bearer)).kind, 'person')
    const rows = await host.engine.read((tx) => signingKeys.list(tx))
    assert.deepEqual(
      rows.filter(({ active }) => active).map(({ kid }) => kid),
      [created.kid],
    )
    const retiring = rows.find(({ status }) => status === 'retiring')
    assert.equal(retiring?.private_sealed.length, 0)
    assert.equal(retiring?.serves_until, timestamp(clock.now() + 30 * DAY_MS + 30_000))
    assert.equal((await publicKeys(host)).keys.length, 2)
    // The bearer has 30 seconds of clock tolerance, and its key serves as long.
    clock.advance(30 * DAY_MS + 29_999)
    assert.equal((await verifyBearer(host, old)).kind, 'person')
    clock.advance(1)
    await assert.rejects(verifyBearer(host, old), invalid)
    assert.equal((await publicKeys(host)).keys.length, 1)
    await host.engine.transaction((tx) => retireSigningKeys(tx, clock.now()))
    const after = await host.engine.read((tx) => signingKeys.list(tx))
    assert.deepEqual(after.map(({ status }) => status).sort(), ['active', 'retired'])
  })

  test('the id of a key is its thumbprint', async (t) => {
    const { host } = await testHost(t, engine)
    const { kid, public_jwk } = await ensureSigningKey(host)
    assert.equal(kid, await calculateJwkThumbprint(JSON.parse(public_jwk)))
  })

  test('a rotation that ends earlier keys counts at once in other processes', async (t) => {
    const store = await freshStore(t, engine)
    const { host } = await testHost(t, engine, store)
    const { host: other } = await testHost(t, engine, store)
    const first = await issueBearer(host, { sub: 'github:1' })
    await host.engine.transaction((tx) => rotateSigningKey(tx, host, { endsNow: false }))
    const second = await issueBearer(host, { sub: 'github:1' })
    for (const bearer of [first, second]) assert.equal((await verifyBearer(other, bearer)).kind, 'person')
    const { ended } = await host.engine.transaction((tx) => rotateSigningKey(tx, host, { endsNow: true }))
    assert.equal(ended.length, 2)
    for (const bearer of [first, second]) {
      await assert.rejects(verifyBearer(other, bearer), invalid)
      await assert.rejects(verifyBearer(host, bearer), invalid)
    }
    const third = await issueBearer(host, { sub: 'github:1' })
    assert.equal((await verifyBearer(other, third)).kind, 'person')
    assert.equal((await publicKeys(other)).keys.length, 1)
  })

  test('concurrent rotations of two processes leave one active key, which all use', async (t) => {
    const store = await freshStore(t, engine)
    const { host } = await testHost(t, engine, store)
    const { host: other } = await testHost(t, engine, store)
    await ensureSigningKey(host)
    const hosts = [host, other, host, other, host, other]
    await Promise.all(
      hosts.map((each) => each.engine.transaction((tx) => rotateSigningKey(tx, each, { endsNow: false }))),
    )
    const rows = await host.engine.read((tx) => signingKeys.list(tx))
    assert.equal(rows.filter(({ active }) => active).length, 1)
    assert.equal(rows.filter(({ status }) => status === 'retiring').length, rows.length - 1)
    for (const each of [host, other]) {
      const bearer = await issueBearer(each, { sub: 'github:1' })
      for (const at of [host, other]) assert.equal((await verifyBearer(at, bearer)).kind, 'person')
    }
  })

  test('of two processes one replaces an old key, exactly at its age', async (t) => {
    const store = await freshStore(t, engine)
    const { host, clock } = await testHost(t, engine, store)
    const { host: other, clock: otherClock } = await testHost(t, engine, store)
    const first = await ensureSigningKey(host)
    const rotate = (each: typeof host) => each.engine.transaction((tx) => rotateOldKey(tx, each, DAY_MS))
    for (const each of [clock, otherClock]) each.advance(DAY_MS - 1)
    assert.equal(await rotate(host), undefined)
    for (const each of [clock, otherClock]) each.advance(1)
    const results = await Promise.all([rotate(host), rotate(other)])
    assert.equal(results.filter((result) => result !== undefined).length, 1)
    const rows = await host.engine.read((tx) => signingKeys.list(tx))
    assert.deepEqual([rows.length, rows.find(({ kid }) => kid === first.kid)?.status], [2, 'retiring'])
    // A clock that is set back replaces nothing.
    clock.advance(-10 * DAY_MS)
    assert.equal(await rotate(host), undefined)
  })
})
