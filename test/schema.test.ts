// The columns and keys of every table match its row schema, on every engine.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { PRODUCT_TABLES } from '../src/daemons/tables.ts'
import { resources } from '../src/resources/index.ts'
import type { Tx } from '../src/store/engine.ts'
import { openEngine } from '../src/store/index.ts'
import { migrate } from '../src/store/migrate.ts'
import { Table } from '../src/store/table.ts'
import { type EngineName, emptyStore, onEveryEngineQuickly } from './support/host.ts'
import { run } from './support/sql.ts'

type Kind = 'text' | 'integer' | 'boolean' | 'bytes'

interface Column {
  readonly kind: Kind | string
  readonly isOptional: boolean
}

/** Internal tables, which are not resources and have no row schema. */
const STAMPS = ['access', 'front', 'group', 'route', 'network', 'settings', 'signing_key'].map(
  (name) => `${name}_stamp`,
)
const INTERNAL_TABLES = ['migrations', ...STAMPS]

const KINDS: Record<string, Kind> = {
  text: 'text',
  integer: 'integer',
  bigint: 'integer',
  boolean: 'boolean',
  bytea: 'bytes',
}

/** The column type for values of this schema; maps and lists are JSON text. */
function kindOf(schema: z.core.$ZodType): Kind {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) return kindOf(schema.unwrap())
  // zod does not declare the output of a transform; here no transform changes the kind.
  if (schema instanceof z.ZodPipe) return kindOf(schema.out instanceof z.ZodTransform ? schema.in : schema.out)
  if (schema instanceof z.ZodNumber) return 'integer'
  if (schema instanceof z.ZodBoolean) return 'boolean'
  if (schema instanceof z.ZodCustom) return 'bytes'
  const { type } = schema._zod.def
  const isText = ['string', 'enum', 'literal', 'array', 'object', 'record'].includes(type)
  return isText ? 'text' : assert.fail(`no column type for ${type}`)
}

function declaredColumns(table: Table<z.ZodObject>): Record<string, Column> {
  const fields = Object.entries(table.row.shape)
  return Object.fromEntries(
    fields.map(([name, schema]) => [name, { kind: kindOf(schema), isOptional: schema._zod.optin === 'optional' }]),
  )
}

interface TableLayout {
  columns: Record<string, Column>
  key: string[]
}

const readLayout: Record<EngineName, (tx: Tx, table: string) => Promise<TableLayout>> = {
  sqlite: async (tx, table) => {
    const { rows } = await run(tx, 'select name, type, "notnull" as strict, pk from pragma_table_info($1)', [table])
    return {
      columns: Object.fromEntries(
        // SQLite allows null in a text key, but keys are never null here.
        rows.map(({ name, type, strict, pk }) => [
          name,
          { kind: KINDS[String(type).toLowerCase()] ?? `${type}`, isOptional: !strict && !pk },
        ]),
      ),
      key: rows
        .filter(({ pk }) => pk)
        .sort((a, b) => Number(a.pk) - Number(b.pk))
        .map(({ name }) => String(name)),
    }
  },
  postgres: async (tx, table) => {
    const columns = await run(
      tx,
      `select column_name as name, data_type as type, is_nullable as nullable, collation_name as sorted
         from information_schema.columns where table_schema = current_schema() and table_name = $1`,
      [table],
    )
    for (const { name, type, sorted } of columns.rows)
      if (type === 'text') assert.equal(sorted, 'C', `${table}.${name}`)
    const key = await run(
      tx,
      `select a.attname as name from pg_index i, unnest(i.indkey) with ordinality as k (number, place), pg_attribute a
         where i.indrelid = $1::regclass and i.indisprimary and a.attrelid = i.indrelid and a.attnum = k.number
         order by k.place`,
      [table],
    )
    return {
      columns: Object.fromEntries(
        columns.rows.map(({ name, type, nullable }) => [
          name,
          { kind: KINDS[String(type).toLowerCase()] ?? `${type}`, isOptional: nullable === 'YES' },
        ]),
      ),
      key: key.rows.map(({ name }) => String(name)),
    }
  },
}

const ALL_TABLES: Record<EngineName, string> = {
  sqlite: `select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'`,
  postgres: 'select tablename as name from pg_tables where schemaname = current_schema()',
}

const tables = PRODUCT_TABLES.map((table) =>
  table instanceof Table ? table : assert.fail(`${table.name} has no row schema`),
)

onEveryEngineQuickly('the schema', (engine) => {
  test('has the columns and the key of every row schema', async (t) => {
    const store = await openEngine(await emptyStore(t, engine))
    t.after(() => store.close())
    await migrate(store, PRODUCT_TABLES, () => '2026-01-01T00:00:00.000Z')
    await store.read(async (tx) => {
      for (const table of tables) {
        const { columns, key } = await readLayout[engine](tx, table.name)
        assert.deepEqual(columns, declaredColumns(table), table.name)
        assert.deepEqual(key, table.key, `the key of ${table.name}`)
      }
      const { rows } = await run(tx, ALL_TABLES[engine])
      const names = rows.map(({ name }) => String(name))
      assert.deepEqual(names.sort(), [...tables.map(({ name }) => name), ...INTERNAL_TABLES].sort())
    })
  })
})

test('tables and resources have unique names, and each resource has the name of its table', () => {
  const isUnique = (names: readonly string[]): void => assert.equal(new Set(names).size, names.length, names.join(' '))
  isUnique(PRODUCT_TABLES.map(({ name }) => name))
  isUnique(resources.map(({ name }) => name))
  isUnique(resources.map(({ path }) => path))
  isUnique(resources.flatMap(({ verbs }) => Object.values(verbs).map(({ id }) => id)))
  for (const { name, table } of resources) assert.equal(name, table.name)
})
