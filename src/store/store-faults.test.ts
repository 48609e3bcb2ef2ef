// Exceptions in callbacks of an engine.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, emptyStore, onEveryEngineQuickly } from '../../test/support/host.ts'
import { until } from '../../test/support/until.ts'
import type { Engine } from './engine.ts'
import { openEngine } from './index.ts'
import { execute, query } from './statement.ts'

/** A commit that other processes are notified of. */
async function commit(engine: Engine, onCommit: () => void = () => undefined): Promise<void> {
  const { notifySql } = engine.dialect
  await engine.transaction(async (tx) => {
    tx.onCommit(onCommit)
    await execute(tx, 'insert into seen values (1)')
    if (notifySql !== undefined) await query(tx, {}, notifySql, [''])
  })
}

async function openPair(
  t: TestContext,
  name: EngineName,
  onFault: (error: unknown) => void,
): Promise<[Engine, Engine]> {
  const store = await emptyStore(t, name)
  const [engine, other] = [await openEngine(store, onFault), await openEngine(store)]
  t.after(async () => {
    await engine.close()
    await other.close()
  })
  await engine.transaction((tx) => execute(tx, 'create table seen (at integer)'))
  return [engine, other]
}

onEveryEngineQuickly('an engine', (name) => {
  test('calls the other callbacks of a commit when one throws, and reports it', async (t) => {
    const faults: unknown[] = []
    const [engine] = await openPair(t, name, (error) => faults.push(error))
    const called: string[] = []
    await engine.transaction(async (tx) => {
      tx.onCommit(() => {
        throw new TypeError('odd row')
      })
      tx.onCommit(() => called.push('second'))
      await execute(tx, 'insert into seen values (1)')
    })
    await commit(engine, () => called.push('next'))
    await until(() => called.length > 1)
    assert.deepEqual(called, ['second', 'next'])
    assert.deepEqual(faults.map(String), ['TypeError: odd row'])
  })

  test('notifies the other listeners when one throws, and reports it', async (t) => {
    const faults: unknown[] = []
    const [engine, other] = await openPair(t, name, (error) => faults.push(error))
    let heard = 0
    engine.listen(() => {
      throw new TypeError('odd payload')
    })
    engine.listen(() => heard++)
    await until(async () => {
      await commit(other)
      return heard > 2 && faults.length > 2
    })
    assert.equal(String(faults[0]), 'TypeError: odd payload')
  })
})
