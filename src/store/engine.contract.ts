// The contract of engines. The test of each engine runs this suite.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { run } from '../../test/support/sql.ts'
import type { Tx } from './engine.ts'
import { laneContract } from './lanes/lane.contract.ts'
import { multiRowStatementContract } from './multi-row-statement.contract.ts'
import { tableContract } from './table.contract.ts'
import { type EngineOpener, entries, eventLoopTurns, parts, refusedAs, thing, things } from './things.contract.ts'
import { valueContract } from './value.contract.ts'

export function engineContract(name: string, open: EngineOpener, options: { skip?: string } = {}): void {
  suite(`the contract of engines: ${name}`, options, () => {
    suite('transactions', () => transactionContract(open))
    suite('reads', () => readContract(open))
    suite('concurrent transactions', () => concurrencyContract(open))
    suite('closing', () => closingContract(open))
    suite('values', () => valueContract(open))
    suite('tables', () => tableContract(open))
    suite('multi-row statements', () => multiRowStatementContract(open))
    suite('lanes', () => laneContract(open))
  })
}

function transactionContract(open: EngineOpener): void {
  test('commits and returns the result of the work', async (t) => {
    const engine = await open(t)
    const answer = await engine.transaction(async (tx) => {
      await things.insert(tx, thing('a'))
      return (await things.find(tx, { id: 'a' }))?.id
    })
    assert.equal(answer, 'a')
    assert.equal((await engine.read((tx) => things.find(tx, { id: 'a' })))?.id, 'a')
  })

  test('calls commit callbacks before the caller resumes, and not after a rollback', async (t) => {
    const engine = await open(t)
    const events: string[] = []
    await engine.transaction(async (tx) => {
      tx.onCommit(() => events.push('committed'))
      await things.insert(tx, thing('a'))
    })
    events.push('answered')
    const failing = engine.transaction(async (tx) => {
      tx.onCommit(() => events.push('rolled back'))
      await things.insert(tx, thing('b'))
      throw new Error('no')
    })
    await assert.rejects(failing, /no/)
    assert.deepEqual(events, ['committed', 'answered'])
  })

  test('rolls back if the work throws, and passes on the same error', async (t) => {
    const engine = await open(t)
    const error = new Error('no')
    const failing = engine.transaction(async (tx) => {
      await things.insert(tx, thing('a'))
      throw error
    })
    await assert.rejects(failing, (thrown) => thrown === error)
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
  })

  test('does not translate errors of the work, whatever their code', async (t) => {
    const engine = await open(t)
    for (const code of ['ENOENT', 'ERR_ASSERTION', 'ETIMEDOUT', '28P01', 5]) {
      const error = Object.assign(new Error('mine'), { code })
      const failing = async (): Promise<never> => {
        throw error
      }
      await assert.rejects(engine.transaction(failing), (thrown) => thrown === error)
      await assert.rejects(engine.read(failing), (thrown) => thrown === error)
    }
  })

  test('does not affect other transactions of the same commit by a failure', async (t) => {
    const engine = await open(t)
    const outcomes = await Promise.allSettled(
      Array.from({ length: 30 }, (_, index) =>
        engine.transaction(async (tx) => {
          await things.insert(tx, thing(`${index}`))
          if (index % 3 === 0) throw new Error('no')
          if (index % 3 === 1) await things.insert(tx, thing(`${index}`))
          return index
        }),
      ),
    )
    for (const [index, outcome] of outcomes.entries())
      assert.equal(outcome.status, index % 3 === 2 ? 'fulfilled' : 'rejected', `${index}`)
    const left = await engine.read((tx) => things.list(tx))
    const expected = Array.from({ length: 30 }, (_, index) => `${index}`).filter((id) => Number(id) % 3 === 2)
    assert.deepEqual(left.map(({ id }) => id).sort(), expected.sort())
  })

  test('refuses a duplicate key as a conflict', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
    await assert.rejects(
      engine.transaction((tx) => things.insert(tx, thing('a'))),
      refusedAs('conflict', 'already'),
    )
    await engine.transaction((tx) => parts.insert(tx, { thing_id: 'a', part: '1', label: 'x' }))
    const duplicate = engine.transaction((tx) => parts.insert(tx, { thing_id: 'a', part: '2', label: 'x' }))
    await assert.rejects(duplicate, refusedAs('conflict', 'already'))
  })

  test('refuses a violated foreign key as a conflict, on both sides', async (t) => {
    const engine = await open(t)
    const orphan = engine.transaction((tx) => parts.insert(tx, { thing_id: 'none', part: '1' }))
    await assert.rejects(orphan, refusedAs('conflict', 'refers to'))
    await engine.transaction(async (tx) => {
      await things.insert(tx, thing('a'))
      await parts.insert(tx, { thing_id: 'a', part: '1' })
    })
    const needed = engine.transaction((tx) => things.remove(tx, { id: 'a' }))
    await assert.rejects(needed, refusedAs('conflict', 'refers to'))
  })

  test('lets the work catch a refusal and throw another error', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
    const reworded = engine.transaction((tx) =>
      things.insert(tx, thing('a')).catch((error: unknown) => {
        assert.ok(refusedAs('conflict')(error))
        throw new Error('there is an a')
      }),
    )
    await assert.rejects(reworded, /there is an a/)
  })

  test('fails the transaction after a failed statement, even if the work catches its error', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
    const swallowing = engine.transaction(async (tx) => {
      await things.insert(tx, thing('b'))
      await things.insert(tx, thing('a')).catch(() => {})
      return 'fine'
    })
    await assert.rejects(swallowing, refusedAs('conflict'))
    const continuing = engine.transaction(async (tx) => {
      await things.insert(tx, thing('a')).catch(() => {})
      await things.insert(tx, thing('c'))
    })
    await assert.rejects(continuing, refusedAs('conflict'))
    assert.equal(await engine.read((tx) => things.count(tx)), 1)
  })

  test('throws a plain error for invalid SQL and stays usable', async (t) => {
    const engine = await open(t)
    const wrong = engine.transaction((tx) => run(tx, 'select nothing from nowhere'))
    await assert.rejects(wrong, (error) => error instanceof Error && error.name !== 'Refusal')
    const several = engine.transaction((tx) => run(tx, `delete from things; delete from parts`))
    await assert.rejects(several, Error)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
  })

  test('throws on nested transactions, also after an await', async (t) => {
    const engine = await open(t)
    const inner = async (): Promise<void> => {
      await engine.transaction(async () => {})
    }
    const nested = [
      () => engine.transaction(inner),
      () => engine.read(inner),
      () => engine.transaction(() => engine.read(async () => {})),
      () =>
        engine.transaction(async (tx) => {
          await things.count(tx)
          await eventLoopTurns(2)
          await inner()
        }),
    ]
    for (const attempt of nested) await assert.rejects(attempt(), /a transaction was opened inside another one/)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
  })

  test('lets background work of an ended transaction open its own', async (t) => {
    const engine = await open(t)
    const left: { later?: Promise<void> } = {}
    const ended = Promise.withResolvers<void>()
    await engine.transaction(async () => {
      left.later = ended.promise.then(() => engine.transaction((tx) => things.insert(tx, thing('later'))))
    })
    ended.resolve()
    await left.later
    assert.equal(await engine.read((tx) => things.count(tx)), 1)
  })

  test('throws on a statement after the end of its transaction', async (t) => {
    const engine = await open(t)
    const left: { tx?: Tx } = {}
    await engine.transaction(async (tx) => {
      left.tx = tx
    })
    const { tx } = left
    assert.ok(tx)
    await assert.rejects(things.insert(tx, thing('late')), /after its transaction ended/)
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
  })

  test('accepts a retry at once after a refusal', async (t) => {
    const engine = await open(t)
    const attempt = (): Promise<void> => engine.transaction((tx) => things.insert(tx, thing('a')))
    await attempt()
    for (let time = 0; time < 20; time++) await assert.rejects(attempt(), refusedAs('conflict'))
    await engine.transaction((tx) => things.insert(tx, thing('b')))
  })
}

function readContract(open: EngineOpener): void {
  test('sees earlier commits', async (t) => {
    const engine = await open(t)
    for (let index = 0; index < 50; index++) {
      await engine.transaction((tx) => things.insert(tx, thing(`${index}`)))
      assert.equal(await engine.read((tx) => things.count(tx)), index + 1)
    }
  })

  test('does not wait for a writer or see its uncommitted rows', async (t) => {
    const engine = await open(t)
    const wrote = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const writing = engine.transaction(async (tx) => {
      await things.insert(tx, thing('a'))
      wrote.resolve()
      await release.promise
    })
    await wrote.promise
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
    release.resolve()
    await writing
    assert.equal(await engine.read((tx) => things.count(tx)), 1)
  })

  test('reads from one snapshot', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
    const go = Promise.withResolvers<void>()
    const writing = go.promise.then(() => engine.transaction((tx) => things.insert(tx, thing('b'))))
    await engine.read(async (tx) => {
      assert.equal(await things.count(tx), 1)
      go.resolve()
      await writing
      assert.equal(await things.count(tx), 1)
      assert.equal(await things.find(tx, { id: 'b' }), undefined)
    })
    assert.equal(await engine.read((tx) => things.count(tx)), 2)
  })

  test('completes many reads at once', async (t) => {
    const engine = await open(t)
    const counts = await Promise.all(Array.from({ length: 200 }, () => engine.read((tx) => things.count(tx))))
    assert.deepEqual(new Set(counts), new Set([0]))
  })

  test('stays usable after a failed read', async (t) => {
    const engine = await open(t)
    for (let time = 0; time < 30; time++) {
      await assert.rejects(engine.read((tx) => run(tx, 'select nothing from nowhere')))
      await assert.rejects(
        engine.read(() => Promise.reject(new Error('no'))),
        /no/,
      )
    }
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
  })

  test('cannot write', async (t) => {
    const engine = await open(t)
    const writing = engine.read((tx) => things.insert(tx, thing('a')))
    await assert.rejects(writing, /a read-only transaction tried to write/)
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
  })
}

function concurrencyContract(open: EngineOpener): void {
  test('loses none of a hundred concurrent increments', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => things.insert(tx, thing('count')))
    const increment = async (tx: Tx): Promise<void> => {
      const { size } = (await things.find(tx, { id: 'count' })) ?? assert.fail()
      await things.update(tx, { id: 'count' }, { size: size + 1 })
    }
    await Promise.all(Array.from({ length: 100 }, () => engine.transaction(increment)))
    assert.equal((await engine.read((tx) => things.find(tx, { id: 'count' })))?.size, 100)
  })

  test('lets exactly one of fifty concurrent inserts of a key succeed', async (t) => {
    const engine = await open(t)
    const claim = async (tx: Tx): Promise<boolean> => {
      if (await things.find(tx, { id: 'one' })) return false
      await things.insert(tx, thing('one'))
      return true
    }
    const claims = await Promise.all(Array.from({ length: 50 }, () => engine.transaction(claim)))
    assert.equal(claims.filter(Boolean).length, 1)
    const inserted = await Promise.all(
      Array.from({ length: 50 }, () => engine.transaction((tx) => things.insertIfMissing(tx, thing('two')))),
    )
    assert.equal(inserted.filter(Boolean).length, 1)
  })

  test('prevents write skew', async (t) => {
    const engine = await open(t)
    for (let time = 0; time < 5; time++) {
      await engine.transaction(async (tx) => {
        await things.upsert(tx, thing('a', { size: 1 }))
        await things.upsert(tx, thing('b', { size: 1 }))
      })
      const leave = (id: string) => async (tx: Tx) => {
        const present = (await things.list(tx)).filter(({ size }) => size === 1)
        if (present.length > 1) await things.update(tx, { id }, { size: 0 })
      }
      await Promise.all([engine.transaction(leave('a')), engine.transaction(leave('b'))])
      const left = await engine.read((tx) => things.list(tx, { size: 1 }))
      assert.equal(left.length, 1)
    }
  })

  test('never reuses a counter value, even after its row is deleted', async (t) => {
    const engine = await open(t)
    const add = async (): Promise<number> =>
      (await engine.transaction((tx) => entries.insertReturning(tx, { name: 'x' }))).id
    const seen = new Set(await Promise.all(Array.from({ length: 40 }, add)))
    assert.equal(seen.size, 40)
    for (let time = 0; time < 3; time++) {
      const highest = Math.max(...seen)
      await engine.transaction((tx) => entries.remove(tx, { id: highest }))
      const next = await add()
      assert.ok(next > highest, `${next} after ${highest}`)
      seen.add(next)
    }
    await engine.transaction((tx) => run(tx, 'delete from entries'))
    assert.ok((await add()) > Math.max(...seen))
  })
}

function closingContract(open: EngineOpener): void {
  test('waits for running operations and refuses later ones', async (t) => {
    const engine = await open(t)
    const release = Promise.withResolvers<void>()
    const order: string[] = []
    const slow = (name: string) => async (tx: Tx) => {
      await things.count(tx)
      await release.promise
      await things.count(tx)
      order.push(name)
    }
    const writing = engine.transaction(slow('write'))
    const waiting = engine.transaction(async (tx) => {
      await things.insert(tx, thing('queued'))
      order.push('queued')
    })
    const reading = engine.read(slow('read'))
    await eventLoopTurns()
    const closing = engine.close().then(() => order.push('closed'))
    await eventLoopTurns()
    assert.ok(!order.includes('closed'))
    await assert.rejects(
      engine.transaction(async () => {}),
      refusedAs('unavailable', 'closed'),
    )
    await assert.rejects(
      engine.read(async () => {}),
      refusedAs('unavailable', 'closed'),
    )
    release.resolve()
    await Promise.all([writing, waiting, reading, closing])
    assert.equal(order.at(-1), 'closed')
    assert.deepEqual(order.slice(0, 3).sort(), ['queued', 'read', 'write'])
  })

  test('can be closed twice, and without being used', async (t) => {
    const engine = await open(t)
    await Promise.all([engine.close(), engine.close()])
    await engine.close()
  })
}
