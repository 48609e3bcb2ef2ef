// Measures how much of a store a statement reads: its plan, and the rows that one execution visits. Changes are rolled back.
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import pg from 'pg'
import type { StoreAddress } from '../../src/store/index.ts'
import { replaceOutsideQuotes } from '../../src/store/statement.ts'
import type { Statement } from './statements.ts'

export interface Reading {
  readonly sql: string
  /** Full scans in the plan, of the given tables. */
  readonly scans: readonly string[]
  /** SQLite: steps of the virtual machine. PostgreSQL: rows that any part of the plan visited. */
  readonly visited: number
  readonly plan: string
}

export interface Reader extends AsyncDisposable {
  read(statement: Statement): Promise<Reading>
}

/** `tables` must not be scanned completely. */
export function openReader(address: StoreAddress, tables: ReadonlySet<string>): Promise<Reader> {
  return 'url' in address ? openPostgresReader(address.url, tables) : openSqliteReader(address.path, tables)
}

/** An API of Node that is not in its types yet. */
interface Counting extends StatementSync {
  stat(counter: 'vmStep'): number
}

async function openSqliteReader(path: string, tables: ReadonlySet<string>): Promise<Reader> {
  const db = new DatabaseSync(path, { timeout: 10_000 })
  const indexes = new Map(
    db
      .prepare(`select name, tbl_name, sql from sqlite_schema where type = 'index' and sql is not null`)
      .all()
      .map(({ name, tbl_name, sql }) => [String(name), { table: String(tbl_name), sql: String(sql) }]),
  )
  /** Small partial indexes may be scanned completely. */
  const isSmall = (index: string): boolean => {
    const known = indexes.get(index)
    const only = /\bwhere\b(.*)$/is.exec(known?.sql ?? '')?.[1]
    if (!known || only === undefined) return false
    const row = db.prepare(`select count(*) as n from ${known.table} indexed by ${index} where ${only}`).get()
    return Number(row?.n) < FEW
  }
  const scanOf = (detail: string): string | undefined => {
    const [, table = '', index] = /^SCAN (\S+)(?:.* USING (?:COVERING )?INDEX (\S+))?/.exec(detail) ?? []
    return index !== undefined && isSmall(index) ? undefined : table || undefined
  }
  return {
    read: async ({ sql, first, last }) => {
      const text = replaceOutsideQuotes(sql, (part) => part.replace(/\$(\d+)/g, '?$1'))
      const names = aliases(sql)
      const plan = db
        .prepare(`explain query plan ${text}`)
        .all(...first.map(bindable))
        .map(({ detail }) => String(detail))
      const scans = plan.flatMap((detail) => scanOf(detail) ?? []).map((name) => names.get(name) ?? name)
      let visited = 0
      for (const parameters of [first, last]) {
        db.exec('begin immediate')
        try {
          const statement = db.prepare(text) as Counting
          if (statement.columns().length > 0) statement.all(...parameters.map(bindable))
          else statement.run(...parameters.map(bindable))
          visited = Math.max(visited, statement.stat('vmStep'))
        } catch (error) {
          // The row exists already. Detecting that is the work that is measured.
          if (!/constraint/i.test(String(error))) throw new Error(`${sql}: ${error}`, { cause: error })
        } finally {
          if (db.isTransaction) db.exec('rollback')
        }
      }
      return { sql, scans: scans.filter((name) => tables.has(name)), visited, plan: plan.join('\n') }
    },
    [Symbol.asyncDispose]: async () => db.close(),
  }
}

const FEW = 100

/** The aliases of a table in a statement. */
function aliases(sql: string): Map<string, string> {
  const found = sql.matchAll(/\b(?:from|join|update|into)\s+([a-z_]+)(?:\s+(?:as\s+)?([a-z]\w*))?/gi)
  return new Map([...found].flatMap(([, table = '', alias]) => (alias === undefined ? [] : [[alias, table] as const])))
}

function bindable(value: unknown): SQLInputValue {
  if (value === undefined || value === null) return null
  if (typeof value === 'boolean') return value ? 1 : 0
  return value as SQLInputValue
}

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Join Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly Plans?: readonly PlanNode[]
}

async function openPostgresReader(url: string, tables: ReadonlySet<string>): Promise<Reader> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return {
    read: async ({ sql, first, last }) => {
      let [visited, plan] = [0, '']
      const scans: string[] = []
      if (!/^\s*(select|insert|update|delete|with)\b/i.test(sql)) return { sql, scans, visited, plan }
      for (const parameters of [first, last]) {
        await client.query('begin')
        try {
          const { rows } = await client.query({
            text: `explain (analyze, timing off, format json) ${sql}`,
            values: [...parameters],
          })
          const [{ Plan }] = rows[0]['QUERY PLAN']
          for (const node of nodes(Plan)) {
            const table = node['Relation Name'] ?? ''
            if (node['Node Type'] === 'Seq Scan' && node['Actual Loops'] > 0 && tables.has(table)) scans.push(table)
            visited = Math.max(visited, looked(node))
          }
          plan = JSON.stringify(Plan, undefined, 1)
        } catch (error) {
          if (!/duplicate key/.test(String(error))) throw new Error(`${sql}: ${error}`, { cause: error })
        } finally {
          await client.query('rollback')
        }
      }
      return { sql, scans, visited, plan }
    },
    [Symbol.asyncDispose]: () => client.end(),
  }
}

function* nodes(node: PlanNode): Generator<PlanNode> {
  yield node
  for (const child of node.Plans ?? []) yield* nodes(child)
}

function looked(node: PlanNode): number {
  const removed = (name: 'Filter' | 'Join Filter' | 'Index Recheck'): number => node[`Rows Removed by ${name}`] ?? 0
  const each = node['Actual Rows'] + removed('Filter') + removed('Join Filter') + removed('Index Recheck')
  return each * node['Actual Loops']
}
