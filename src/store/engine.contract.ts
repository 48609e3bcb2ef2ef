// What every engine must do. Its test is three lines that run this suite.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { run } from '../../test/support/sql.ts'
import type { Tx } from './engine.ts'
import { laneContract } from './lanes/lane.contract.ts'
import { rowsContract } from './multi-row-statement.contract.ts'
import { tableContract } from './table.contract.ts'
import { entries, eventLoopTurns, type Open, parts, refusedAs, thing, things } from './things.contract.ts'
import { valueContract } from './value.contract.ts'

export function engineContract(name: string, open: Open, options: { skip?: string } = {}): void {
  suite(`the contract of engines: ${name}`, options, () => {
    suite('transactions', () => transactionContract(open))
    suite('reads', () => readContract(open))
    suite('transactions at the same time', () => concurrencyContract(open))
    suite('closing', () => closingContract(open))
    suite('values', () => valueContract(open))
    suite('tables', () => tableContract(open))
    suite('many rows at once', () => rowsContract(open))
    suite('lanes', () => laneContract(open))
  })
}

function transactionContract(open: Open): void {
  test('what is committed is there, and a transaction answers with what its work answers', async (t) => {
    const engine = await open(t)
    const answer = await engine.transaction(async (tx) => {
      await things.insert(tx, thing('a'))
      return (await things.find(tx, { id: 'a' }))?.id
    })
    assert.equal(answer, 'a')
    assert.equal((await engine.read((tx) => things.find(tx, { id: 'a' })))?.id, 'a')
  })

  test('what asks for it is told of the commit, before the caller is, and of none that did not happen', async (t) => {
    const engine = await open(t)
    const told: string[] = []
    await engine.transaction(async (tx) => {
      tx.onCommit(() => told.push('committed'))
      await things.insert(tx, thing('a'))
    })
    told.push('answered')
    const failing = engine.transaction(async (tx) => {
      tx.onCommit(() => told.push('rolled back'))
      await things.insert(tx, thing('b'))
      throw new Error('no')
    })
    await assert.rejects(failing, /no/)
    assert.deepEqual(told, ['committed', 'answered'])
  })

  test('work that throws leaves nothing, and its error comes out as it is', async (t) => {
    const engine = await open(t)
    const error = new Error('no')
    const failing = engine.transaction(async (tx) => {
      await things.insert(tx, thing('a'))
      throw error
    })
    await assert.rejects(failing, (thrown) => thrown === error)
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
  })

  test('an error of the work itself is not taken for one of the store, whatever its code', async (t) => {
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

  test('one that fails does not disturb those that are committed with it', async (t) => {
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

  test('a key that is there already is a conflict', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
    await assert.rejects(
      engine.transaction((tx) => things.insert(tx, thing('a'))),
      refusedAs('conflict', 'already'),
    )
    await engine.transaction((tx) => parts.insert(tx, { thing_id: 'a', part: '1', label: 'x' }))
    const taken = engine.transaction((tx) => parts.insert(tx, { thing_id: 'a', part: '2', label: 'x' }))
    await assert.rejects(taken, refusedAs('conflict', 'already'))
  })

  test('a foreign key that does not hold is a conflict, for either side', async (t) => {
    const engine = await open(t)
    const orphan = engine.transaction((tx) => parts.insert(tx, { thing_id: 'none', part: '1' }))
    await assert.rejects(orphan, refusedAs('conflict', 'another table'))
    await engine.transaction(async (tx) => {
      await things.insert(tx, thing('a'))
      await parts.insert(tx, { thing_id: 'a', part: '1' })
    })
    const needed = engine.transaction((tx) => things.remove(tx, { id: 'a' }))
    await assert.rejects(needed, refusedAs('conflict', 'another table'))
  })

  test('work sees the refusal itself, and may say it in other words', async (t) => {
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

  test('a statement that failed ends its transaction, even when its error is swallowed', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
    const swallowing = engine.transaction(async (tx) => {
      await things.insert(tx, thing('b'))
      await things.insert(tx, thing('a')).catch(() => {})
      return 'fine'
    })
    await assert.rejects(swallowing, refusedAs('conflict'))
    const goingOn = engine.transaction(async (tx) => {
      await things.insert(tx, thing('a')).catch(() => {})
      await things.insert(tx, thing('c'))
    })
    await assert.rejects(goingOn, refusedAs('conflict'))
    assert.equal(await engine.read((tx) => things.count(tx)), 1)
  })

  test('SQL that is wrong is an error, not a refusal, and the next transaction is fine', async (t) => {
    const engine = await open(t)
    const wrong = engine.transaction((tx) => run(tx, 'select nothing from nowhere'))
    await assert.rejects(wrong, (error) => error instanceof Error && error.name !== 'Refusal')
    const several = engine.transaction((tx) => run(tx, `delete from things; delete from parts`))
    await assert.rejects(several, Error)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
  })

  test('a transaction inside another one is an error at once, also after awaiting', async (t) => {
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

  test('what a transaction leaves behind may open one of its own when the transaction has ended', async (t) => {
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

  test('a statement after the end of its transaction is an error, not part of a stranger’s', async (t) => {
    const engine = await open(t)
    const left: { tx?: Tx } = {}
    await engine.transaction(async (tx) => {
      left.tx = tx
    })
    const { tx } = left
    assert.ok(tx)
    await assert.rejects(things.insert(tx, thing('late')), /after its transaction had ended/)
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
  })

  test('whoever is refused may try again at once', async (t) => {
    const engine = await open(t)
    const attempt = (): Promise<void> => engine.transaction((tx) => things.insert(tx, thing('a')))
    await attempt()
    for (let time = 0; time < 20; time++) await assert.rejects(attempt(), refusedAs('conflict'))
    await engine.transaction((tx) => things.insert(tx, thing('b')))
  })
}

function readContract(open: Open): void {
  test('a read sees what was committed before it', async (t) => {
    const engine = await open(t)
    for (let index = 0; index < 50; index++) {
      await engine.transaction((tx) => things.insert(tx, thing(`${index}`)))
      assert.equal(await engine.read((tx) => things.count(tx)), index + 1)
    }
  })

  test('a read never waits for a writer, and sees none of what it has not committed', async (t) => {
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

  test('all of a read is one snapshot', async (t) => {
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

  test('many reads at once all come to their end', async (t) => {
    const engine = await open(t)
    const counts = await Promise.all(Array.from({ length: 200 }, () => engine.read((tx) => things.count(tx))))
    assert.deepEqual(new Set(counts), new Set([0]))
  })

  test('a read that fails is no harm to the next one', async (t) => {
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

  test('a read cannot write', async (t) => {
    const engine = await open(t)
    const writing = engine.read((tx) => things.insert(tx, thing('a')))
    await assert.rejects(writing, /a read tried to write/)
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
  })
}

function concurrencyContract(open: Open): void {
  test('of a hundred increments at once none is lost', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => things.insert(tx, thing('count')))
    const increment = async (tx: Tx): Promise<void> => {
      const { size } = (await things.find(tx, { id: 'count' })) ?? assert.fail()
      await things.update(tx, { id: 'count' }, { size: size + 1 })
    }
    await Promise.all(Array.from({ length: 100 }, () => engine.transaction(increment)))
    assert.equal((await engine.read((tx) => things.find(tx, { id: 'count' })))?.size, 100)
  })

  test('of fifty who look and then insert one key exactly one does', async (t) => {
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

  test('two who each rely on the other’s row do not both change theirs', async (t) => {
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

  test('a counter never gives a number twice, not even when the highest is removed', async (t) => {
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

function closingContract(open: Open): void {
  test('closing waits for what runs, and refuses what comes after', async (t) => {
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

  test('closing twice is fine, and so is closing what was never used', async (t) => {
    const engine = await open(t)
    await Promise.all([engine.close(), engine.close()])
    await engine.close()
  })
}
