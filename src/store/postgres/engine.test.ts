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

async function database(): Promise<string> {
  return (await shared.server?.createDatabase()) ?? assert.fail('no server')
}

const LOCK = postgresDialect.lockTableSql('things') ?? assert.fail('writers wait for each other')

async function open(t: TestContext): Promise<Engine> {
  return prepare(t, openPostgres(await database()))
}

engineContract('PostgreSQL', open, skip)

suite('listening on PostgreSQL', skip, () => {
  listenContract(async (t) => {
    const url = await database()
    return [await prepare(t, openPostgres(url)), await prepare(t, openPostgres(url))]
  })
})

suite('PostgreSQL alone', skip, () => {
  test('a connection that the server cuts is a refusal, not the end of the process', async (t) => {
    const engine = await open(t)
    const cut = (tx: Parameters<Parameters<Engine['transaction']>[0]>[0]) =>
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
    await engine.read(cut)
    await eventLoopTurns(100)
    release.resolve()
    await assert.rejects(victim, refusedAs('unavailable', 'PostgreSQL cannot be reached'))
    // Itself included: the answer never comes.
    const suicide = engine.read((tx) => run(tx, 'select pg_terminate_backend(pg_backend_pid())'))
    await assert.rejects(suicide, refusedAs('unavailable', 'PostgreSQL cannot be reached'))
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
  })

  test('a listener whose connection is cut comes again, once, and is told that it may have missed something', async (t) => {
    const engine = await open(t)
    const heard: string[] = []
    t.after(engine.listen((about) => heard.push(about)))
    const listening = `from pg_stat_activity where datname = current_database() and query like 'listen %'`
    const count = async (): Promise<number> =>
      Number((await engine.read((tx) => run(tx, `select count(*) as n ${listening}`))).rows[0]?.n)
    await until(() => heard.length > 0)
    heard.length = 0
    await engine.read((tx) => run(tx, `select pg_terminate_backend(pid) ${listening}`))
    await until(() => heard.length > 0)
    assert.deepEqual([heard, await count()], [[''], 1])
  })

  test('more work than connections waits for its turn', async (t) => {
    const engine = await open(t)
    const ids = Array.from({ length: 60 }, (_, index) => `${index}`)
    await Promise.all(ids.map((id) => engine.transaction((tx) => things.insert(tx, thing(id)))))
    assert.equal(await engine.read((tx) => things.count(tx)), 60)
  })

  test('a transaction that stands still loses its lock within seconds, and is run again when it goes on', async (t) => {
    const url = await database()
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

  test('a transaction waits for memory for its locks when another one stays open', async (t) => {
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

  const STORE = `insert into things (id, size, open, body, tags) values ($1, 1, true, '', '[]')`
  const storeLast = (tx: Tx, id: string) =>
    tx.executeLast?.({ sql: STORE, parameters: [id] }) ?? assert.fail('a statement is a round trip')

  test('the last statement is answered when it is committed, and none may follow', async (t) => {
    const engine = await open(t)
    const late = engine.transaction(async (tx) => {
      await storeLast(tx, 'a')
      assert.equal(await engine.read((other) => things.count(other)), 1)
      await things.insert(tx, thing('b'))
    })
    await assert.rejects(late, /a statement came after its transaction had ended/)
    assert.deepEqual(
      (await engine.read((tx) => things.list(tx))).map(({ id }) => id),
      ['a'],
    )
  })

  test('a last statement that fails commits nothing of its transaction', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => storeLast(tx, 'a'))
    const failing = engine.transaction(async (tx) => {
      await things.insert(tx, thing('b'))
      await storeLast(tx, 'a')
    })
    await assert.rejects(failing, refusedAs('conflict'))
    assert.equal(await engine.read((tx) => things.count(tx)), 1)
  })

  test('a transaction whose last statement crossed another one is run again', async (t) => {
    const engine = await open(t)
    const counted = Promise.withResolvers<void>()
    let runs = 0
    const count = (id: string): Promise<number> => {
      let seen = 0
      const work = async (tx: Tx): Promise<void> => {
        seen = await things.count(tx)
        if (++runs === 2) counted.resolve()
        await counted.promise
        await storeLast(tx, id)
      }
      return engine.transaction(work).then(() => seen)
    }
    // Both count before either has stored its row, and no order of the two explains that.
    assert.deepEqual((await Promise.all([count('a'), count('b')])).sort(), [0, 1])
    assert.ok(runs > 2, `${runs} runs`)
  })

  test('a statement that fails with the lock before it leaves a connection that can be used', async (t) => {
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

  test('reads may stand still for longer, and a lock or a reader is not waited for without end', async (t) => {
    const engine = await open(t)
    const shown = async (tx: Tx, name: string) => Object.values((await run(tx, `show ${name}`)).rows[0] ?? {})[0]
    const idle = 'idle_in_transaction_session_timeout'
    assert.equal(await engine.read((tx) => shown(tx, idle)), '1min')
    assert.equal(await engine.transaction((tx) => shown(tx, idle)), '2s')
    for (const [name, value] of [
      ['lock_timeout', '5s'],
      ['tcp_user_timeout', '10000'],
      ['tcp_keepalives_idle', '10'],
    ] as const)
      assert.equal(await engine.read((tx) => shown(tx, name)), value, name)
  })

  test('a process has two transactions in line at most, and those that wait for a place keep no connection', async (t) => {
    const url = await database()
    const [one, other] = [await prepare(t, openPostgres(url)), await prepare(t, openPostgres(url))]
    const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const holder = other.transaction(async (tx) => {
      await run(tx, LOCK)
      held.resolve()
      // Statements in between: it works, it does not stand still.
      while (!(await Promise.race([release.promise.then(() => true), eventLoopTurns(1).then(() => false)])))
        await run(tx, 'select 1')
    })
    await held.promise
    const waiting = Array.from({ length: 20 }, (_, at) =>
      one.transaction(async (tx) => {
        await run(tx, LOCK)
        await things.insert(tx, thing(`${at}`))
      }),
    )
    const inLine = async () =>
      (await one.read((tx) => run(tx, 'select count(*) as n from pg_locks where not granted'))).rows[0]?.n
    await until(async () => (await inLine()) === 2)
    await eventLoopTurns(100)
    assert.equal(await inLine(), 2)
    release.resolve()
    await Promise.all([holder, ...waiting])
    assert.equal(await one.read((tx) => things.count(tx)), 20)
  })

  test('what is queued for a connection when the engine is closed still comes to its end', async (t) => {
    const engine = await open(t)
    const all = Array.from({ length: 40 }, (_, index) =>
      engine.transaction((tx) => things.insert(tx, thing(`${index}`))),
    )
    await Promise.all([...all, engine.close()])
  })

  test('a server that is not there, a database that is not there, a wrong password: each is one sentence', async () => {
    const url = new URL(await database())
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

  test('a database whose text is not UTF-8 is refused', async (t) => {
    const client = await openPostgres(await database())
    t.after(() => client.close())
    const url = new URL(await database())
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

  test('text columns are told to sort by bytes, and nothing else is', () => {
    const told = {
      'create table a (text text not null, b  text)':
        'create table a (text text collate "C" not null, b  text collate "C")',
      'alter table a add column b text': 'alter table a add column b text collate "C"',
      "create table a (b text default 'some text')": `create table a (b text collate "C" default 'some text')`,
      'create table a (context text, n integer, primary key (text, n))':
        'create table a (context text collate "C", n integer, primary key (text, n))',
      'create index a on b (text)': 'create index a on b (text)',
    }
    for (const [ddl, expected] of Object.entries(told)) assert.equal(postgresDialect.adapt(ddl), expected)
  })
})

async function connect(t: TestContext, url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  t.after(() => client.end())
  return client
}

/** `holder` keeps one transaction open, so that the server keeps the locks of all those that `reader` begins and ends. */
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
