// A snapshot of a PostgreSQL store: one repeatable-read transaction, read through cursors.
import pg from 'pg'
import { refuse } from '../../lib/refusal.ts'
import type { AppliedStep, BackupRow, StoreSnapshot, TableShape } from '../backup-rows.ts'
import type { Value } from '../engine.ts'
import { clientOptions } from './engine.ts'
import { translatePostgresError } from './errors.ts'

const BATCH_ROWS = 500

export async function openPostgresSnapshot(url: string): Promise<StoreSnapshot> {
  const client = await connectClient(url)
  try {
    await client.query('begin isolation level repeatable read read only')
    const tables = await readPostgresTables(client)
    if (!tables.some(({ name }) => name === 'migrations')) refuse('not_found', 'this database contains no svc store')
    const { rows } = await client.query<{ name: string; step: number }>(
      'select name, step from migrations order by name, step',
    )
    return {
      engine: 'postgres',
      tables,
      steps: rows.map(({ name, step }): AppliedStep => [name, step]),
      counters: await readCounters(client),
      rows: (table) => readRows(client, table),
      [Symbol.asyncDispose]: () => client.end(),
    }
  } catch (error) {
    await client.end()
    throw translatePostgresError(error)
  }
}

export async function connectClient(url: string): Promise<pg.Client> {
  const client = new pg.Client(clientOptions(url))
  // Without a listener, a lost connection would end the process. The running statement fails anyway.
  client.on('error', () => {})
  try {
    await client.connect()
    return client
  } catch (error) {
    throw translatePostgresError(error)
  }
}

export async function readPostgresTables(client: pg.Client): Promise<TableShape[]> {
  const { rows } = await client.query<{ name: string; columns: string[] }>(
    `select c.relname as name, array_agg(a.attname::text order by a.attnum) as columns
       from pg_class c join pg_attribute a on a.attrelid = c.oid
       where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
       group by c.oid, c.relname order by c.oid`,
  )
  return rows
}

/** Lists the sequences of auto-increment columns. */
export async function readSequences(client: pg.Client): Promise<{ table: string; sequence: string }[]> {
  const { rows } = await client.query<{ table: string; sequence: string }>(
    `select table_name as table, pg_get_serial_sequence(quote_ident(table_name), column_name) as sequence
       from information_schema.columns where table_schema = current_schema() and is_identity = 'YES'`,
  )
  return rows
}

async function readCounters(client: pg.Client): Promise<Record<string, number>> {
  const counters: Record<string, number> = {}
  for (const { table, sequence } of await readSequences(client)) {
    const { rows } = await client.query<{ last: number }>(
      `select case when is_called then last_value else last_value - 1 end as last from ${sequence}`,
    )
    counters[table] = rows[0]?.last ?? 0
  }
  return counters
}

async function* readRows(client: pg.Client, { name, columns }: TableShape): AsyncGenerator<readonly BackupRow[]> {
  try {
    await client.query(`declare reading no scroll cursor for select ${columns.join(', ')} from ${name}`)
    for (;;) {
      const { rows } = await client.query<Value[]>({ text: `fetch ${BATCH_ROWS} from reading`, rowMode: 'array' })
      if (rows.length === 0) break
      yield rows
    }
    await client.query('close reading')
  } catch (error) {
    throw translatePostgresError(error)
  }
}
