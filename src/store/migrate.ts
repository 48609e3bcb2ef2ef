// Migrations: applies the pending storage steps of all tables in one transaction, each step once.
import { rm } from 'node:fs/promises'
import { refuse } from '../lib/refusal.ts'
import type { Dialect, Engine, Tx } from './engine.ts'
import { execute, integer, query, text } from './statement.ts'

/** One change of the schema: SQL for both engines, or a function of the dialect. Steps are only ever appended. */
export type MigrationStep = string | ((dialect: Dialect) => string | readonly string[])

export interface StoredTable {
  readonly name: string
  readonly storage: readonly MigrationStep[]
}

const CREATE_MIGRATIONS = `create table if not exists migrations (
  name text not null, step integer not null, applied_at text not null, primary key (name, step))`

/** Returns the number of applied steps. */
export async function migrate(engine: Engine, tables: readonly StoredTable[], now: () => string): Promise<number> {
  for (;;) {
    const before = await engine.read((tx) => readAppliedSteps(tx, engine))
    refuseUnknownSteps(before, tables)
    if (listPendingSteps(before, tables).length === 0) return 0
    try {
      return await withCopy(before.size > 0 ? engine : undefined, now, () => applyPending(engine, tables, now))
    } catch (error) {
      // Of two processes that migrate PostgreSQL at once, one fails. If the other one made progress, look again.
      const after = await engine.read((tx) => readAppliedSteps(tx, engine))
      if (after.size === before.size) throw error
    }
  }
}

/** Whether exactly these numbers of steps were applied, and none of other tables. */
export async function hasSteps(engine: Engine, counts: Readonly<Record<string, number>>): Promise<boolean> {
  const done = await engine.read((tx) => readAppliedSteps(tx, engine))
  const wanted = Object.entries(counts).flatMap(([name, count]) =>
    Array.from({ length: count }, (_, step) => `${name} ${step}`),
  )
  return done.size > 0 && done.size === wanted.length && wanted.every((step) => done.has(step))
}

/** Returns the number of steps that `migrate` would apply. */
export async function countPendingSteps(engine: Engine, tables: readonly StoredTable[]): Promise<number> {
  const done = await engine.read((tx) => readAppliedSteps(tx, engine))
  refuseUnknownSteps(done, tables)
  return listPendingSteps(done, tables).length
}

/** Copies the store first. The copy is kept only if steps were applied. */
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
    await execute(tx, CREATE_MIGRATIONS)
    // Read again under the write lock: another process may have been faster.
    const done = await readAppliedSteps(tx, engine)
    refuseUnknownSteps(done, tables)
    const steps = listPendingSteps(done, tables)
    for (const { name, index, step } of steps) {
      await applyStep(tx, engine.dialect, step)
      await execute(tx, 'insert into migrations (name, step, applied_at) values ($1, $2, $3)', [name, index, now()])
    }
    return steps.length
  })
}

/** Creates the tables without recording the steps, for a restore: the backup contains the record. */
export async function createTables(tx: Tx, dialect: Dialect, tables: readonly StoredTable[]): Promise<void> {
  await execute(tx, CREATE_MIGRATIONS)
  for (const { storage } of tables) for (const step of storage) await applyStep(tx, dialect, step)
}

async function applyStep(tx: Tx, dialect: Dialect, step: MigrationStep): Promise<void> {
  const statements = typeof step === 'string' ? step : step(dialect)
  for (const sql of [statements].flat()) await execute(tx, dialect.adapt(sql))
}

/** Writes a row without changing it, to test whether the store accepts writes. */
export async function probeWrite(tx: Tx): Promise<void> {
  await execute(
    tx,
    'update migrations set applied_at = applied_at where name = (select min(name) from migrations) and step = 0',
  )
}

async function readAppliedSteps(tx: Tx, engine: Engine): Promise<Set<string>> {
  const found = await query(tx, {}, engine.dialect.findTableSql, ['migrations'])
  if (found.length === 0) return new Set()
  const rows = await query(tx, { name: text, step: integer }, 'select name, step from migrations')
  return new Set(rows.map(({ name, step }) => `${name} ${step}`))
}

function listPendingSteps(done: ReadonlySet<string>, tables: readonly StoredTable[]) {
  return tables.flatMap(({ name, storage }) =>
    storage.map((step, index) => ({ name, index, step })).filter(({ index }) => !done.has(`${name} ${index}`)),
  )
}

/** Refuses steps, as `<table> <number>`, that this version does not have. */
export function refuseUnknownSteps(done: ReadonlySet<string>, tables: readonly StoredTable[]): void {
  const known = new Set(tables.flatMap(({ name, storage }) => storage.map((_, index) => `${name} ${index}`)))
  if ([...done].every((step) => known.has(step))) return
  refuse(
    'unavailable',
    'this store was written by a newer svc than this one',
    'run the newer version, or restore a backup',
  )
}
