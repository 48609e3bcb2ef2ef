import assert from 'node:assert/strict'
import { after, before, suite, type TestContext, test } from 'node:test'
import { needs } from '../../../test/support/needs.ts'
import { openPostgres as openServer, type Postgres } from '../../../test/support/postgres.ts'
import { until } from '../../../test/support/until.ts'
import { engineContract } from '../engine.contract.ts'
import type { Engine } from '../engine.ts'
import { listenContract } from '../listen.contract.ts'
import { run } from '../statement.ts'
import { prepare, refusedAs, thing, things, turns } from '../things.contract.ts'
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
    await turns(100)
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
