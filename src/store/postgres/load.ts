// Fills a new PostgreSQL store from a backup, in one transaction: afterwards the database has the complete store or none.
import type pg from 'pg'
import { refuse } from '../../lib/refusal.ts'
import { type BackupRow, refuseRow, type StoreLoad, type TableShape } from '../backup-rows.ts'
import { createTables, type StoredTable } from '../migrate.ts'
import { RunningTx } from '../running-transaction.ts'
import { placeholders } from '../statement.ts'
import { ClientConnection, postgresDialect, requireSupportedServer } from './engine.ts'
import { postgresErrorCode, translatePostgresError } from './errors.ts'
import { connectClient, readPostgresTables, readSequences } from './snapshot.ts'

/** The protocol counts the parameters of a statement in 16 bits. */
const PARAMETERS_MAX = 60_000
const BATCH_BYTES = 4 * 1024 * 1024

export async function openPostgresLoad(url: string, steps: readonly StoredTable[]): Promise<StoreLoad> {
  const client = await connectClient(url)
  try {
    const { rows } = await client.query<{ version: string; encoding: string }>(
      `select current_setting('server_version_num') as version, current_setting('server_encoding') as encoding`,
    )
    requireSupportedServer(Number(rows[0]?.version), rows[0]?.encoding)
    await client.query('begin')
    const existing = new Set((await readPostgresTables(client)).map(({ name }) => name))
    if (['migrations', ...steps.map(({ name }) => name)].some((name) => existing.has(name)))
      refuse(
        'conflict',
        'the database of DATABASE_URL already contains a store; nothing was changed',
        'create an empty database and name it with --database postgres://…, or use --sqlite',
      )
    await new RunningTx(new ClientConnection(client)).runWork((tx) => createTables(tx, postgresDialect, steps))
    const tables = await readPostgresTables(client)
    return new PostgresLoad(client, tables, await clearTables(client, tables))
  } catch (error) {
    await client.end()
    throw translatePostgresError(error)
  }
}

/** Disables triggers and removes foreign keys and rows. Returns the statements that restore the foreign keys. */
async function clearTables(client: pg.Client, tables: readonly TableShape[]): Promise<string[]> {
  const { rows: keys } = await client.query<{ table: string; name: string; definition: string }>(
    `select conrelid::regclass::text as table, quote_ident(conname) as name, pg_get_constraintdef(oid) as definition
       from pg_constraint where contype = 'f' and connamespace = current_schema()::regnamespace`,
  )
  for (const { table, name } of keys) await client.query(`alter table ${table} drop constraint ${name}`)
  for (const { name } of tables) {
    await client.query(`alter table ${name} disable trigger user`)
    await client.query(`delete from ${name}`)
  }
  return keys.map(({ table, name, definition }) => `alter table ${table} add constraint ${name} ${definition}`)
}

class PostgresLoad implements StoreLoad {
  readonly tables: readonly TableShape[]
  readonly #client: pg.Client
  readonly #foreignKeys: readonly string[]

  constructor(client: pg.Client, tables: readonly TableShape[], keys: readonly string[]) {
    this.#client = client
    this.tables = tables
    this.#foreignKeys = keys
  }

  async insert(table: TableShape, rows: readonly BackupRow[]): Promise<void> {
    const rowsMax = Math.floor(PARAMETERS_MAX / table.columns.length)
    for (let from = 0; from < rows.length; ) {
      const until = findBatchEnd(rows, from, rowsMax)
      await this.#insert(table, rows.slice(from, until))
      from = until
    }
  }

  async #insert({ name, columns }: TableShape, rows: readonly BackupRow[]): Promise<void> {
    const values = rows.map((row, at) => `(${placeholders(row.length, at * columns.length)})`).join(', ')
    await this.#attempt(name, `insert into ${name} (${columns.join(', ')}) values ${values}`, rows.flat())
  }

  async finish(counters: Readonly<Record<string, number>>): Promise<void> {
    for (const sql of this.#foreignKeys) await this.#attempt(/alter table (\S+)/.exec(sql)?.[1] ?? '', sql)
    for (const { name } of this.tables) await this.#attempt(name, `alter table ${name} enable trigger user`)
    for (const { table, sequence } of await readSequences(this.#client)) {
      const last = counters[table] ?? 0
      await this.#attempt(table, 'select setval($1, $2, $3)', [sequence, Math.max(1, last), last > 0])
    }
    await this.#attempt('', 'commit')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end()
  }

  async #attempt(table: string, sql: string, parameters: readonly unknown[] = []): Promise<void> {
    try {
      await this.#client.query(sql, [...parameters])
    } catch (error) {
      // A value of a wrong type, or a violated constraint.
      if (/^(22|23|42)/.test(postgresErrorCode(error) ?? '')) refuseRow(table)
      throw translatePostgresError(error)
    }
  }
}

function findBatchEnd(rows: readonly BackupRow[], from: number, rowsMax: number): number {
  let bytes = 0
  let at = from
  while (at < rows.length && at - from < rowsMax && bytes < BATCH_BYTES) {
    for (const value of rows[at] ?? [])
      bytes += typeof value === 'string' || value instanceof Uint8Array ? value.length : 8
    at++
  }
  return at
}
