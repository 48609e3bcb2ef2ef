import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { run } from '../../../test/support/sql.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../engine.ts'
import { refusedAs } from '../things.contract.ts'
import { SqliteConnection } from './connection.ts'
import { Writer } from './writer.ts'

const BUSY = 5
const IO_ERROR = 10
const FULL = 13

/** An error as node:sqlite throws it. */
function sqliteError(errcode: number): Error {
  return Object.assign(new Error('injected'), { errcode })
}

interface TestWriter {
  writer: Writer
  connection: SqliteConnection
  /** The statements of the writer itself, without those of the work. */
  executed: string[]
  /** Called before each statement; may throw. */
  fault: { before?: (sql: string) => void }
  ids(): unknown[]
  diskErrors: unknown[]
}

function openTestWriter(
  t: TestContext,
  {
    busyMs = 1000,
    strict = false,
    ...others
  }: Partial<Pick<ConstructorParameters<typeof Writer>[1], 'busyMs' | 'strict' | 'now' | 'onBusy' | 'onWait'>> = {},
): TestWriter {
  const connection = new SqliteConnection(join(tempDir(t), 'a.db'))
  connection.configure()
  t.after(() => connection.close())
  connection.exec('create table a (id text primary key)')
  const executed: string[] = []
  const fault: TestWriter['fault'] = {}
  const recorded = {
    path: connection.path,
    get isInTransaction() {
      return connection.isInTransaction
    },
    exec: (sql: string) => {
      executed.push(sql)
      fault.before?.(sql)
      connection.exec(sql)
    },
    query: connection.query.bind(connection),
    translateError: connection.translateError.bind(connection),
  }
  const ids = (): unknown[] =>
    connection.query('select id from a order by id', []).rows.flatMap((row) => Object.values(row ?? {}))
  const diskErrors: unknown[] = []
  const onDiskError = (error: unknown): void => void diskErrors.push(error)
  return {
    writer: new Writer(recorded, { busyMs, strict, onDiskError, ...others }),
    connection,
    executed,
    fault,
    ids,
    diskErrors,
  }
}

const insert =
  (id: string) =>
  async (tx: Tx): Promise<string> => {
    await run(tx, 'insert into a (id) values ($1)', [id])
    return id
  }
const createIds = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => String(index).padStart(3, '0'))

test('commits the transactions of one turn together and returns each result', async (t) => {
  const { writer, executed, ids } = openTestWriter(t, { now: () => 0 })
  assert.deepEqual(await Promise.all(createIds(64).map((id) => writer.run(insert(id)))), createIds(64))
  assert.deepEqual(ids(), createIds(64))
  assert.equal(executed.filter((sql) => sql === 'begin immediate').length, 1)
  assert.equal(executed.filter((sql) => sql === 'commit').length, 1)
})

test('uses no savepoint for a single transaction', async (t) => {
  const { writer, executed } = openTestWriter(t)
  await writer.run(insert('a'))
  assert.deepEqual(executed, ['begin immediate', 'commit'])
})

test('limits the number of transactions in a batch', async (t) => {
  const { writer, executed } = openTestWriter(t)
  await Promise.all(createIds(600).map((id) => writer.run(insert(id))))
  assert.equal(executed.filter((sql) => sql === 'commit').length >= 3, true)
})

test('limits the duration of a batch', async (t) => {
  let nowMs = 0
  const { writer, executed } = openTestWriter(t, { now: () => nowMs++ })
  await Promise.all(createIds(60).map((id) => writer.run(insert(id))))
  assert.equal(executed.filter((sql) => sql === 'commit').length, 3)
})

test('runs transactions that arrive during a batch or just after its end', async (t) => {
  const { writer, ids } = openTestWriter(t)
  const chain = async (prefix: string): Promise<void> => {
    for (let index = 0; index < 50; index++) {
      await writer.run(insert(`${prefix}${index}`))
      // Vary the number of turns to hit every state of the writer.
      for (let turn = 0; turn < index % 4; turn++) await (turn % 2 ? Promise.resolve() : new Promise(setImmediate))
    }
  }
  await Promise.all(['a', 'b', 'c'].map(chain))
  assert.equal(ids().length, 150)
})

test('accepts a retry at once after a busy error', async (t) => {
  const { writer, fault, ids } = openTestWriter(t, { busyMs: 0 })
  let left = 3
  fault.before = (sql) => {
    if (sql === 'begin immediate' && left-- > 0) throw sqliteError(BUSY)
  }
  const insertWithRetries = async (): Promise<void> => {
    for (;;) {
      try {
        await writer.run(insert('a'))
        return
      } catch (error) {
        assert.ok(refusedAs('unavailable', 'busy')(error))
      }
    }
  }
  await insertWithRetries()
  assert.deepEqual(ids(), ['a'])
})

test('counts the busy timeout from the start of each transaction', async (t) => {
  const { writer, fault } = openTestWriter(t, { busyMs: 300 })
  fault.before = (sql) => {
    if (sql === 'begin immediate') throw sqliteError(BUSY)
  }
  const started = performance.now()
  const waits = [0, 100, 200].map(async (delay) => {
    await pause(delay)
    await assert.rejects(writer.run(insert('a')), refusedAs('unavailable', 'busy'))
    return performance.now() - started
  })
  for (const [index, ended] of (await Promise.all(waits)).entries())
    assert.ok(ended >= 300 + index * 100 - 5, `${ended}`)
})

test('rejects all waiting transactions on a disk error at the lock, and continues', async (t) => {
  const { writer, fault, ids } = openTestWriter(t)
  fault.before = () => {
    throw sqliteError(10)
  }
  const refused = await Promise.allSettled(createIds(3).map((id) => writer.run(insert(id))))
  assert.ok(
    refused.every((outcome) => outcome.status === 'rejected' && refusedAs('unavailable', 'disk')(outcome.reason)),
  )
  delete fault.before
  await writer.run(insert('a'))
  assert.deepEqual(ids(), ['a'])
})

test('retries each transaction alone if a shared commit fails, and rejects only the faulty one', async (t) => {
  const { writer, fault, ids, connection, executed } = openTestWriter(t)
  fault.before = (sql) => {
    if (sql !== 'commit' || !ids().includes('big')) return
    connection.exec('rollback')
    throw sqliteError(FULL)
  }
  const all = ['a', 'b', 'big', 'c']
  const outcomes = await Promise.allSettled(all.map((id) => writer.run(insert(id))))
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  )
  assert.ok(outcomes[2]?.status === 'rejected' && refusedAs('unavailable', 'full')(outcomes[2].reason))
  assert.deepEqual(ids(), ['a', 'b', 'c'])
  assert.equal(executed.filter((sql) => sql === 'commit').length, 5)
})

test('rejects all transactions of a commit with a disk error, does not retry, and reports it', async (t) => {
  const { writer, fault, executed, ids, diskErrors } = openTestWriter(t)
  fault.before = (sql) => {
    if (sql === 'commit') throw sqliteError(IO_ERROR | (4 << 8))
  }
  const outcomes = await Promise.allSettled(['a', 'b', 'c'].map((id) => writer.run(insert(id))))
  for (const outcome of outcomes)
    assert.ok(outcome.status === 'rejected' && refusedAs('unavailable', 'reported an error')(outcome.reason))
  assert.equal(executed.filter((sql) => sql === 'commit').length, 1)
  assert.deepEqual(ids(), [])
  assert.equal(diskErrors.length, 1)
  assert.ok(refusedAs('unavailable', 'reported an error')(diskErrors[0]))
})

test('rejects only the transaction that met a disk error in a batch', async (t) => {
  const { writer, connection, ids } = openTestWriter(t)
  const failing = async (tx: Tx): Promise<void> => {
    await insert('x')(tx)
    connection.exec('rollback')
    throw sqliteError(FULL)
  }
  const outcomes = await Promise.allSettled([
    writer.run(insert('a')),
    writer.run(insert('b')),
    writer.run(failing),
    writer.run(insert('c')),
  ])
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  )
  assert.deepEqual(ids(), ['a', 'b', 'c'])
})

test('retries the batch if a savepoint cannot be rolled back', async (t) => {
  const { writer, fault, ids } = openTestWriter(t)
  fault.before = (sql) => {
    if (sql === 'rollback to job') throw sqliteError(10)
  }
  const outcomes = await Promise.allSettled([
    writer.run(insert('a')),
    writer.run(() => Promise.reject(new Error('no'))),
    writer.run(insert('b')),
  ])
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
  assert.deepEqual(ids(), ['a', 'b'])
})

test('does not return results based on rows of a lost batch', async (t) => {
  const { writer, fault, connection } = openTestWriter(t)
  let commits = 0
  fault.before = (sql) => {
    if (sql !== 'commit' || commits++ > 0) return
    connection.exec('rollback')
    connection.exec(`delete from a`)
    throw sqliteError(FULL)
  }
  const looking = async (tx: Tx): Promise<string> => {
    const { rows } = await run(tx, 'select id from a')
    if (rows.length > 0 && commits === 0) refuse('conflict', 'there is one')
    return 'none'
  }
  // In the lost batch the second transaction saw the row of the first; only the retry counts.
  const [, seen] = await Promise.all([writer.run(insert('a')), writer.run(looking)])
  assert.equal(seen, 'none')
})

test('fails a strict transaction that awaits anything but the store', async (t) => {
  const { writer, ids } = openTestWriter(t, { strict: true })
  const waiting = writer.run(async (tx) => {
    await insert('a')(tx)
    await pause(1)
  })
  await assert.rejects(waiting, /waited for something outside the store/)
  await assert.rejects(
    writer.run(() => new Promise((resolve) => setImmediate(resolve))),
    /waited for something outside the store/,
  )
  await writer.run(async (tx) => {
    for (const id of createIds(100)) {
      await insert(id)(tx)
      await Promise.resolve()
    }
  })
  assert.deepEqual(ids(), createIds(100))
})

test('tells when another process has the lock, once per wait, and how long each batch waited', async (t) => {
  const notes: string[] = []
  const waits: number[] = []
  const { writer, fault } = openTestWriter(t, {
    onBusy: () => notes.push('busy'),
    onWait: (seconds) => waits.push(seconds),
  })
  let refusals = 3
  fault.before = (sql) => {
    if (sql === 'begin immediate' && refusals-- > 0) throw sqliteError(BUSY)
  }
  await writer.run((tx) => run(tx, `insert into a (id) values ('x')`))
  assert.deepEqual(notes, ['busy'])
  assert.equal(waits.length, 1)
  assert.ok((waits[0] ?? 0) >= 0.003, 'three pauses of at least a millisecond')
  await writer.run((tx) => run(tx, `insert into a (id) values ('y')`))
  assert.deepEqual([notes.length, waits.length], [1, 2])
})

test('gives way once: another connection gets the lock between two batches', async (t) => {
  const { writer, connection, ids } = openTestWriter(t)
  const other = new SqliteConnection(connection.path)
  t.after(() => other.close())
  const second = Promise.withResolvers<unknown>()
  await writer.run(async (tx) => {
    await run(tx, `insert into a (id) values ('first')`)
    tx.onCommit(() => {
      writer.giveWay()
      void writer.run((next) => run(next, `insert into a (id) values ('last')`)).then(second.resolve)
      // Before the pause is over.
      setTimeout(() => other.exec(`insert into a (id) select 'between ' || count(*) from a`), 1)
    })
  })
  await second.promise
  assert.deepEqual(ids(), ['between 1', 'first', 'last'])
})
