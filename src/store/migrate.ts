// Runs each declaration's storage steps, each once, all pending ones in one transaction.
import { rm } from 'node:fs/promises'
import { refuse } from '../lib/refusal.ts'
import type { Dialect, Engine, Tx } from './engine.ts'
import { execute, integer, query, text } from './statement.ts'

/** One change of the schema, in the words both engines know, or as a function of the dialect. Only ever appended. */
export type MigrationStep = string | ((dialect: Dialect) => string | readonly string[])

export interface StoredTable {
  readonly name: string
  readonly storage: readonly MigrationStep[]
}

const LEDGER = `create table if not exists migrations (
  name text not null, step integer not null, applied_at text not null, primary key (name, step))`

/** How many steps were applied. */
export async function migrate(engine: Engine, tables: readonly StoredTable[], now: () => string): Promise<number> {
  for (;;) {
    const before = await engine.read((tx) => applied(tx, engine))
    refuseUnknownSteps(before, tables)
    if (pending(before, tables).length === 0) return 0
    try {
      return await withCopy(before.size > 0 ? engine : undefined, now, () => applyPending(engine, tables, now))
    } catch (error) {
      // Of two starters that meet on PostgreSQL one fails. When another one got further, there is another look to take.
      const after = await engine.read((tx) => applied(tx, engine))
      if (after.size === before.size) throw error
    }
  }
}

/** Whether just so many steps of each table were applied, and none of another. */
export async function hasSteps(engine: Engine, counts: Readonly<Record<string, number>>): Promise<boolean> {
  const done = await engine.read((tx) => applied(tx, engine))
  const wanted = Object.entries(counts).flatMap(([name, count]) =>
    Array.from({ length: count }, (_, step) => `${name} ${step}`),
  )
  return done.size > 0 && done.size === wanted.length && wanted.every((step) => done.has(step))
}

/** How many steps `migrate` would apply. */
export async function countPendingSteps(engine: Engine, tables: readonly StoredTable[]): Promise<number> {
  const done = await engine.read((tx) => applied(tx, engine))
  refuseUnknownSteps(done, tables)
  return pending(done, tables).length
}

/** Keeps a copy from before where steps were applied; where none were, the store itself is as it was before. */
async function withCopy(engine: Engine | undefined, now: () => string, apply: () => Promise<number>): Promise<number> {
  const copy = await engine?.copy?.(`before-${now().replace(/[^0-9]/g, '')}`)
  let count = 0
  try {
    count = await apply()
    return count
  } finally {
    if (copy !== undefined && count === 0) await rm(copy, { force: true })
  }
}

function applyPending(engine: Engine, tables: readonly StoredTable[], now: () => string): Promise<number> {
  return engine.transaction(async (tx) => {
    const { disableLockTimeoutSql } = engine.dialect
    if (disableLockTimeoutSql !== undefined) await execute(tx, disableLockTimeoutSql)
    await execute(tx, LEDGER)
    // Read again under the write lock: another starter may have been quicker.
    const done = await applied(tx, engine)
    refuseUnknownSteps(done, tables)
    const steps = pending(done, tables)
    for (const { name, index, step } of steps) {
      await applyStep(tx, engine.dialect, step)
      await execute(tx, 'insert into migrations (name, step, applied_at) values ($1, $2, $3)', [name, index, now()])
    }
    return steps.length
  })
}

/** Makes the tables without noting the steps: for a store whose rows, and with them its notes, come from elsewhere. */
export async function createTables(tx: Tx, dialect: Dialect, tables: readonly StoredTable[]): Promise<void> {
  await execute(tx, LEDGER)
  for (const { storage } of tables) for (const step of storage) await applyStep(tx, dialect, step)
}

async function applyStep(tx: Tx, dialect: Dialect, step: MigrationStep): Promise<void> {
  const statements = typeof step === 'string' ? step : step(dialect)
  for (const sql of [statements].flat()) await execute(tx, dialect.adapt(sql))
}

/** Writes a row as it is: whether the store takes writes. */
export async function probeWrite(tx: Tx): Promise<void> {
  await execute(
    tx,
    'update migrations set applied_at = applied_at where name = (select min(name) from migrations) and step = 0',
  )
}

async function applied(tx: Tx, engine: Engine): Promise<Set<string>> {
  const ledger = await query(tx, {}, engine.dialect.findTableSql, ['migrations'])
  if (ledger.length === 0) return new Set()
  const rows = await query(tx, { name: text, step: integer }, 'select name, step from migrations')
  return new Set(rows.map(({ name, step }) => `${name} ${step}`))
}

function pending(done: ReadonlySet<string>, tables: readonly StoredTable[]) {
  return tables.flatMap(({ name, storage }) =>
    storage.map((step, index) => ({ name, index, step })).filter(({ index }) => !done.has(`${name} ${index}`)),
  )
}

/** Refuses steps, as `<table> <number>`, that a newer program has applied. */
export function refuseUnknownSteps(done: ReadonlySet<string>, tables: readonly StoredTable[]): void {
  const known = new Set(tables.flatMap(({ name, storage }) => storage.map((_, index) => `${name} ${index}`)))
  if ([...done].every((step) => known.has(step))) return
  refuse(
    'unavailable',
    'this store was written by a newer svc than this one',
    'run the newer version, or restore a copy',
  )
}
