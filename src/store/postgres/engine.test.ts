import assert from 'node:assert/strict'
import { after, before, suite, type TestContext, test } from 'node:test'
import { Client } from 'pg'
import { needs } from '../../../test/support/needs.ts'
import { openPostgres as openServer, type Postgres } from '../../../test/support/postgres.ts'
import { run } from '../../../test/support/sql.ts'
import { until } from '../../../test/support/until.ts'
import { engineContract } from '../engine.contract.ts'
import type { Engine, Tx } from '../engine.ts'
import { listenContract } from '../listen.contract.ts'
import { eventLoopTurns, prepare, refusedAs, thing, things } from '../things.contract.ts'
import { openPostgres, postgresDialect } from './engine.ts'

const skip = needs('postgres')
const shared: { server?: Postgres } = {}
if (!skip.skip) {
  before(async () => {
    shared.server = await openServer({ durable: false })
  })
  after(() => shared.server?.stop())
}

async function createDatabase(): Promise<string> {
  return (await shared.server?.createDatabase()) ?? assert.fail('no server')
}

const LOCK = postgresDialect.lockTableSql('things') ?? assert.fail('no lock statement')

async function open(t: TestContext): Promise<Engine> {
  return prepare(t, openPostgres(await createDatabase()))
}

engineContract('PostgreSQL', open, skip)

suite('listening on PostgreSQL', skip, () => {
  listenContract(async (t) => {
    const url = await createDatabase()
    return [await prepare(t, openPostgres(url)), await prepare(t, openPostgres(url))]
  })
})

suite('PostgreSQL', skip, () => {
  test('refuses the transaction if the server ends its connection', async (t) => {
    const engine = await open(t)
    const endConnections = (tx: Tx) =>
      run(
        tx,
        `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`,
      )
    const began = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const victim = engine.transaction(async (tx) => {
      await things.insert(tx, thing('a'))
      began.resolve()
      await release.promise
      await things.insert(tx, thing('b'))
    })
    await began.promise
    await engine.read(endConnections)
    await eventLoopTurns(100)
    release.resolve()
    await assert.rejects(victim, refusedAs('unavailable', 'PostgreSQL cannot be reached'))
    // A connection that ends itself gets no answer.
    const selfEnding = engine.read((tx) => run(tx, 'select pg_terminate_backend(pg_backend_pid())'))
    await assert.rejects(selfEnding, refusedAs('unavailable', 'PostgreSQL cannot be reached'))
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
  })

  test('reconnects a listener once and notifies it of possibly missed commits', async (t) => {
    const engine = await open(t)
    const received: string[] = []
    t.after(engine.listen((payload) => received.push(payload)))
    const listening = `from pg_stat_activity where datname = current_database() and query like 'listen %'`
    const count = async (): Promise<number> =>
      Number((await engine.read((tx) => run(tx, `select count(*) as n ${listening}`))).rows[0]?.n)
    await until(() => received.length > 0)
    received.length = 0
    await engine.read((tx) => run(tx, `select pg_terminate_backend(pid) ${listening}`))
    await until(() => received.length > 0)
    assert.deepEqual([received, await count()], [[''], 1])
  })

  test('sends broadcasts up to their limit to all engines, and no others', async (t) => {
    const url = await createDatabase()
    const [one, other] = [await prepare(t, openPostgres(url)), await prepare(t, openPostgres(url))]
    const [broadcasts, commits]: string[][] = [[], []]
    if (!other.broadcast || !one.broadcast) return assert.fail('no broadcast')
    t.after(other.broadcast.listen((payload) => broadcasts?.push(payload)))
    t.after(other.listen((payload) => commits?.push(payload)))
    const longest = 'x'.repeat(one.broadcast.max)
    await until(async () => {
      await one.broadcast?.send('ready?')
      return broadcasts?.includes('ready?') ?? false
    })
    await one.broadcast.send(longest)
    await until(() => broadcasts?.includes(longest) ?? false)
    // That it listens is the only signal that it gets.
    await until(() => commits?.length !== 0)
    assert.deepEqual(new Set(commits), new Set(['']))
  })

  test('queues transactions while all connections are in use', async (t) => {
    const engine = await open(t)
    const ids = Array.from({ length: 60 }, (_, index) => `${index}`)
    await Promise.all(ids.map((id) => engine.transaction((tx) => things.insert(tx, thing(id)))))
    assert.equal(await engine.read((tx) => things.count(tx)), 60)
  })

  test('takes the lock of a paused transaction within seconds and retries it later', async (t) => {
    const url = await createDatabase()
    const [paused, other] = [await prepare(t, openPostgres(url)), await prepare(t, openPostgres(url))]
    const [began, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let runs = 0
    const first = paused.transaction(async (tx) => {
      runs++
      await run(tx, LOCK)
      await things.insert(tx, thing('a'))
      began.resolve()
      await release.promise
      await things.insert(tx, thing('b'))
    })
    await began.promise
    const start = performance.now()
    await other.transaction(async (tx) => {
      await run(tx, LOCK)
      assert.equal(await things.count(tx), 0)
      await things.insert(tx, thing('c'))
    })
    assert.ok(performance.now() - start > 1000, 'the lock was held')
    release.resolve()
    await first
    assert.equal(runs, 2)
    assert.deepEqual((await paused.read((tx) => things.list(tx))).map(({ id }) => id).sort(), ['a', 'b', 'c'])
  })

  test('retries while another open transaction uses up the lock memory', async (t) => {
    const settings = ['max_connections=25', 'max_pred_locks_per_transaction=10']
    const server = await openServer({ durable: false, settings })
    t.after(() => server.stop())
    const url = await server.createDatabase()
    const engine = await prepare(t, openPostgres(url))
    const clients = [await connect(t, url), await connect(t, url)] as const
    await fillLocks(...clients)
    let runs = 0
    const transaction = engine.transaction(async (tx) => {
      runs++
      await things.insert(tx, thing('a'))
      for (let n = 1; n < 10_000; n += 500) await run(tx, `select n from rows where n = ${300_000 - n}`)
      return things.count(tx)
    })
    await Promise.race([until(() => runs > 1), transaction])
    await clients[0].query('rollback')
    assert.equal(await transaction, 1)
    assert.equal(await engine.read((tx) => things.count(tx)), 1)
  })

  const INSERT = `insert into things (id, size, open, body, tags) values ($1, 1, true, '', '[]')`
  const insertLast = (tx: Tx, id: string) =>
    tx.executeLast?.({ sql: INSERT, parameters: [id] }) ?? assert.fail('no executeLast')

  test('commits with the last statement and refuses a later one', async (t) => {
    const engine = await open(t)
    const late = engine.transaction(async (tx) => {
      await insertLast(tx, 'a')
      assert.equal(await engine.read((other) => things.count(other)), 1)
      await things.insert(tx, thing('b'))
    })
    await assert.rejects(late, /a statement was executed after its transaction ended/)
    assert.deepEqual(
      (await engine.read((tx) => things.list(tx))).map(({ id }) => id),
      ['a'],
    )
  })

  test('commits nothing if the last statement fails', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => insertLast(tx, 'a'))
    const failing = engine.transaction(async (tx) => {
      await things.insert(tx, thing('b'))
      await insertLast(tx, 'a')
    })
    await assert.rejects(failing, refusedAs('conflict'))
    assert.equal(await engine.read((tx) => things.count(tx)), 1)
  })

  test('retries a transaction whose last statement has a conflict', async (t) => {
    const engine = await open(t)
    const counted = Promise.withResolvers<void>()
    let runs = 0
    const count = (id: string): Promise<number> => {
      let seen = 0
      const work = async (tx: Tx): Promise<void> => {
        seen = await things.count(tx)
        if (++runs === 2) counted.resolve()
        await counted.promise
        await insertLast(tx, id)
      }
      return engine.transaction(work).then(() => seen)
    }
    // Both count before either inserts, which no serial order explains.
    assert.deepEqual((await Promise.all([count('a'), count('b')])).sort(), [0, 1])
    assert.ok(runs > 2, `${runs} runs`)
  })

  test('keeps the connection usable if a statement fails together with its lock', async (t) => {
    const engine = await open(t)
    for (let n = 0; n < 20; n++) {
      const failing = engine.transaction(async (tx) => {
        await run(tx, LOCK)
        await run(tx, 'select 1 from nowhere')
      })
      await assert.rejects(failing, /nowhere/)
    }
    await engine.transaction(async (tx) => {
      await run(tx, LOCK)
      await run(tx, LOCK)
    })
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
  })

  test('sets the timeouts of reads, writes, locks and connections', async (t) => {
    const engine = await open(t)
    const show = async (tx: Tx, name: string) => Object.values((await run(tx, `show ${name}`)).rows[0] ?? {})[0]
    const idle = 'idle_in_transaction_session_timeout'
    assert.equal(await engine.read((tx) => show(tx, idle)), '1min')
    assert.equal(await engine.transaction((tx) => show(tx, idle)), '2s')
    for (const [name, value] of [
      ['lock_timeout', '5s'],
      ['tcp_user_timeout', '10000'],
      ['tcp_keepalives_idle', '4'],
      ['tcp_keepalives_interval', '2'],
    ] as const)
      assert.equal(await engine.read((tx) => show(tx, name)), value, name)
  })

  test('lets at most two transactions of a process wait for a lock, and the others use no connection', async (t) => {
    const url = await createDatabase()
    const [one, other] = [await prepare(t, openPostgres(url)), await prepare(t, openPostgres(url))]
    const [locked, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const owner = other.transaction(async (tx) => {
      await run(tx, LOCK)
      locked.resolve()
      // Regular statements prevent the idle timeout.
      while (!(await Promise.race([release.promise.then(() => true), eventLoopTurns(1).then(() => false)])))
        await run(tx, 'select 1')
    })
    await locked.promise
    const waiting = Array.from({ length: 20 }, (_, at) =>
      one.transaction(async (tx) => {
        await run(tx, LOCK)
        await things.insert(tx, thing(`${at}`))
      }),
    )
    const countWaiting = async () =>
      (await one.read((tx) => run(tx, 'select count(*) as n from pg_locks where not granted'))).rows[0]?.n
    await until(async () => (await countWaiting()) === 2)
    await eventLoopTurns(100)
    assert.equal(await countWaiting(), 2)
    release.resolve()
    await Promise.all([owner, ...waiting])
    assert.equal(await one.read((tx) => things.count(tx)), 20)
  })

  test('completes queued transactions on close', async (t) => {
    const engine = await open(t)
    const all = Array.from({ length: 40 }, (_, index) =>
      engine.transaction((tx) => things.insert(tx, thing(`${index}`))),
    )
    await Promise.all([...all, engine.close()])
  })

  test('reports a missing server, a missing database and a wrong password', async () => {
    const url = new URL(await createDatabase())
    const changed = (change: (url: URL) => void): string => {
      const other = new URL(url)
      change(other)
      return other.href
    }
    const wrong = [
      changed((url) => {
        url.port = '1'
      }),
      changed((url) => {
        url.pathname = '/none'
      }),
      changed((url) => {
        url.password = 'wrong'
      }),
      changed((url) => {
        url.hostname = 'no-such-host.invalid'
      }),
      'postgres://no url at all',
    ]
    for (const address of wrong) {
      await assert.rejects(openPostgres(address), (error) => {
        assert.ok(refusedAs('unavailable', 'PostgreSQL cannot be reached')(error))
        assert.ok(error instanceof Error && !error.message.includes('wrong') && !error.message.includes('\n'))
        return true
      })
    }
  })

  test('refuses a database that is not UTF-8', async (t) => {
    const client = await openPostgres(await createDatabase())
    t.after(() => client.close())
    const url = new URL(await createDatabase())
    const { Client } = await import('pg')
    const admin = new Client({ connectionString: url.href })
    await admin.connect()
    const name = `${url.pathname.slice(1)}_latin`
    await admin.query(`create database ${name} template template0 encoding 'LATIN1' locale_provider libc locale 'C'`)
    t.after(async () => {
      await admin.query(`drop database ${name} with (force)`)
      await admin.end()
    })
    url.pathname = `/${name}`
    await assert.rejects(openPostgres(url.href), refusedAs('unavailable', 'UTF8'))
  })

  test('makes text columns sort by bytes', () => {
    const adapted = {
      'create table a (text text not null, b  text)':
        'create table a (text text collate "C" not null, b  text collate "C")',
      'alter table a add column b text': 'alter table a add column b text collate "C"',
      "create table a (b text default 'some text')": `create table a (b text collate "C" default 'some text')`,
      'create table a (context text, n integer, primary key (text, n))':
        'create table a (context text collate "C", n integer, primary key (text, n))',
      'create index a on b (text)': 'create index a on b (text)',
    }
    for (const [ddl, expected] of Object.entries(adapted)) assert.equal(postgresDialect.adapt(ddl), expected)
  })
})

async function connect(t: TestContext, url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  t.after(() => client.end())
  return client
}

/** The open transaction of `holder` makes the server keep the locks of all transactions of `reader`. */
async function fillLocks(holder: Client, reader: Client): Promise<void> {
  await reader.query(
    'create table rows as select n from generate_series(1, 300000) as n; create index on rows (n); analyze rows',
  )
  await holder.query('begin isolation level serializable; select 1 from pg_class limit 1')
  for (let n = 1; ; n += 300) {
    try {
      await reader.query(`begin isolation level serializable; select n from rows where n = ${n}; commit`)
    } catch (error) {
      await reader.query('rollback')
      assert.equal((error as { code?: string }).code, '53200')
      return
    }
  }
}
