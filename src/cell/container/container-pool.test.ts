import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { throwUncaught } from '../../lib/fault-boundary.ts'
import { ContainerPool, type PooledContainer } from './container-pool.ts'

class FakeContainer implements PooledContainer {
  isUsable = true
  isRemoved = false
  readonly #isClean: boolean

  constructor(isClean = true) {
    this.#isClean = isClean
  }

  async awaitClean(): Promise<boolean> {
    return this.#isClean
  }

  async remove(): Promise<void> {
    this.isUsable = false
    this.isRemoved = true
  }

  setRef(): void {}
}

const IDLE_MS = 1000
const IDLE_MAX = 16

suite('containers that wait for a run', () => {
  test('are used again for the same key only, the last one first', async () => {
    const pool = new ContainerPool<FakeContainer>(IDLE_MS, throwUncaught)
    const [one, two] = [new FakeContainer(), new FakeContainer()]
    for (const container of [one, two]) pool.park('a', container)
    assert.equal(await pool.take('b'), undefined)
    assert.equal(await pool.take('a'), two)
    assert.equal(await pool.take('a'), one)
    assert.equal(await pool.take('a'), undefined)
    pool.close()
  })

  test('are removed if anything of the last run is left', async () => {
    const pool = new ContainerPool<FakeContainer>(IDLE_MS, throwUncaught)
    const dirty = new FakeContainer(false)
    pool.park('a', dirty)
    assert.equal(await pool.take('a'), undefined)
    assert.ok(dirty.isRemoved)
    pool.close()
  })

  test('are not kept without an idle time, after the end, or if they ended themselves', async () => {
    const ended = new FakeContainer()
    ended.isUsable = false
    const closed = new ContainerPool<FakeContainer>(IDLE_MS, throwUncaught)
    closed.close()
    for (const [pool, container] of [
      [new ContainerPool<FakeContainer>(0, throwUncaught), new FakeContainer()],
      [closed, new FakeContainer()],
      [new ContainerPool<FakeContainer>(IDLE_MS, throwUncaught), ended],
    ] as const) {
      pool.park('a', container)
      assert.ok(container.isRemoved)
      assert.equal(await pool.take('a'), undefined)
    }
  })

  test('are removed after the idle time', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const pool = new ContainerPool<FakeContainer>(IDLE_MS, throwUncaught)
    const container = new FakeContainer()
    pool.park('a', container)
    t.mock.timers.tick(IDLE_MS - 1)
    assert.ok(!container.isRemoved)
    t.mock.timers.tick(1)
    assert.ok(container.isRemoved)
  })

  test(`are at most ${IDLE_MAX}`, () => {
    const pool = new ContainerPool<FakeContainer>(IDLE_MS, throwUncaught)
    const all = Array.from({ length: IDLE_MAX + 1 }, () => new FakeContainer())
    for (const [at, container] of all.entries()) pool.park(String(at), container)
    assert.deepEqual(
      all.map(({ isRemoved }) => isRemoved),
      [true, ...Array(IDLE_MAX).fill(false)],
    )
    pool.close()
    assert.ok(all.every(({ isRemoved }) => isRemoved))
  })
})
