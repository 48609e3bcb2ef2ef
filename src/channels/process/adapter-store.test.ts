import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { AdapterStore } from './adapter-store.ts'

const DAY_MS = 24 * 3_600_000

function setUp(t: TestContext, cacheMax?: number) {
  const directory = tempDir(t)
  const clock = { now: 1_800_000_000_000 }
  const open = (): AdapterStore => {
    const store = new AdapterStore(directory, () => clock.now, cacheMax)
    t.after(() => store.close())
    return store
  }
  return { clock, open, store: open() }
}

suite('the store of an adapter', () => {
  test('keeps cursors, keys and parts across restarts', (t) => {
    const { store, open } = setUp(t)
    store.setCursor('a/1', 'one')
    store.setCursor('a/2', 'two')
    store.setCursor('b', 'three')
    store.setCursor('b', undefined)
    store.beginSend('sent', 0)
    store.endSend('sent', 0, 'id')
    store.beginSend('begun', 0)
    store.beginSend('undone', 0)
    store.undoSend('undone', 0)
    store.setParts('chat', '1', ['1', '2', '3'])
    const next = open()
    assert.deepEqual(next.cursors('a/'), [
      { name: 'a/1', value: 'one' },
      { name: 'a/2', value: 'two' },
    ])
    assert.equal(next.cursor('b'), undefined)
    assert.deepEqual(next.sendAttempt('sent', 0), { id: 'id', isSent: true, beganAt: 1_800_000_000_000 })
    assert.deepEqual(next.sendAttempt('begun', 0), { id: undefined, isSent: false, beganAt: 1_800_000_000_000 })
    assert.equal(next.sendAttempt('undone', 0), undefined)
    assert.deepEqual(next.partsOf('chat', '1'), ['1', '2', '3'])
    assert.deepEqual(next.partsOf('other', '1'), ['1'])
  })

  test('forgets old keys and parts while it runs', (t) => {
    const { store, clock } = setUp(t)
    store.beginSend('old', 0)
    store.setParts('chat', '1', ['1', '2'])
    clock.now += 6 * DAY_MS
    store.beginSend('middle', 0)
    assert.ok(store.sendAttempt('old', 0))
    clock.now += 2 * DAY_MS
    store.beginSend('new', 0)
    assert.equal(store.sendAttempt('old', 0), undefined)
    assert.ok(store.sendAttempt('middle', 0))
    assert.deepEqual(store.partsOf('chat', '1'), ['1', '2'])
    clock.now += 400 * DAY_MS
    store.beginSend('last', 0)
    assert.deepEqual(store.partsOf('chat', '1'), ['1'])
  })

  test('keeps the newest values of its cache', (t) => {
    const { store, clock } = setUp(t, 20)
    for (let at = 0; at < 60; at++) {
      clock.now++
      store.setCached(`name ${at}`, `${at}`)
    }
    const kept = Array.from({ length: 60 }, (_, at) => at).filter((at) => store.cached(`name ${at}`) !== undefined)
    assert.ok(kept.length >= 20 && kept.length <= 23, String(kept.length))
    assert.deepEqual(
      kept,
      kept.map((_, at) => 60 - kept.length + at),
    )
  })

  test('forgets a key together with the parts that it stands for', (t) => {
    const { store } = setUp(t)
    store.beginSend('edit', 0)
    store.setParts('chat', '1', ['1', '2'], 'edit')
    assert.equal(store.sendAttempt('edit', 0), undefined)
    assert.deepEqual(store.partsOf('chat', '1'), ['1', '2'])
    store.setParts('chat', '1', ['1'])
    assert.deepEqual(store.partsOf('chat', '1'), ['1'])
  })
})
