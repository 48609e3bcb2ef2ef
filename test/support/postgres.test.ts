import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { Client } from 'pg'
import { needs } from './needs.ts'
import { openPostgres, SHARED_POSTGRES } from './postgres.ts'

async function ask(address: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: address })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows.flatMap((row) => Object.values(row))
  } finally {
    await client.end()
  }
}

test('every database is new, and sorts text as an operator’s server would', needs('postgres'), async (t) => {
  const postgres = await openPostgres()
  t.after(() => postgres.stop())
  const [one, two] = await Promise.all([postgres.createDatabase(), postgres.createDatabase()])
  assert.notEqual(one, two)
  await ask(one, 'create table words (word text)')
  await ask(one, `insert into words values ('b'), ('B'), ('a')`)
  // In byte order, B comes before a and b.
  assert.deepEqual(await ask(one, 'select word from words order by word'), ['a', 'b', 'B'])
  assert.deepEqual(await ask(two, `select to_regclass('words')`), [null])
})

test('stopping takes the databases along', needs('postgres'), async () => {
  const postgres = await openPostgres()
  const address = await postgres.createDatabase()
  await postgres.stop()
  await assert.rejects(ask(address, 'select 1'), /does not exist|ECONNREFUSED/)
})

test('a durable server is not shared, and syncs', needs('postgres'), async (t) => {
  const postgres = await openPostgres({ durable: true })
  t.after(() => postgres.stop())
  assert.notEqual(postgres.url(), process.env[SHARED_POSTGRES])
  assert.deepEqual(await ask(postgres.url(), 'show fsync'), ['on'])
})

test('a server ends when the process that opened it is killed', needs('postgres'), async () => {
  const module = JSON.stringify(new URL('./postgres.ts', import.meta.url).href)
  const script = `const p = await (await import(${module})).openPostgres(); console.log(p.url()); setInterval(() => {}, 1e6)`
  const { [SHARED_POSTGRES]: _, ...env } = process.env
  const owner = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = await once(owner.stdout, 'data')
  const port = Number(new URL(String(line).trim()).port)
  assert.ok(await answers(port))
  owner.kill('SIGKILL')
  // Another process ends it, so there is no event to wait for; the timeout of the test is the limit.
  while (await answers(port)) await wait(20)
})

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => socket.destroy())
    socket.once('error', () => resolve(false))
    socket.once('close', (failed) => resolve(!failed))
  })
}
