// Runs each declaration's storage steps, each once, all pending ones in one transaction.
import { rm } from 'node:fs/promises'
import { refuse } from '../lib/refusal.ts'
import type { Dialect, Engine, Tx } from './engine.ts'
import { run } from './statement.ts'

/** One change of the schema, in the words both engines know, or as a function of the dialect. Only ever appended. */
export type Step = string | ((dialect: Dialect) => string | readonly string[])

export interface Stored {
  readonly name: string
  readonly storage: readonly Step[]
}

const LEDGER = `create table if not exists migrations (
  name text not null, step integer not null, applied_at text not null, primary key (name, step))`

/** How many steps were applied. */
export async function migrate(engine: Engine, tables: readonly Stored[], now: () => string): Promise<number> {
  for (;;) {
    const before = await engine.read((tx) => applied(tx, engine))
    mustBeKnown(before, tables)
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

/** How many steps `migrate` would apply. */
export async function pendingSteps(engine: Engine, tables: readonly Stored[]): Promise<number> {
  const done = await engine.read((tx) => applied(tx, engine))
  mustBeKnown(done, tables)
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

function applyPending(engine: Engine, tables: readonly Stored[], now: () => string): Promise<number> {
  return engine.transaction(async (tx) => {
    await run(tx, LEDGER)
    // Read again under the write lock: another starter may have been quicker.
    const done = await applied(tx, engine)
    mustBeKnown(done, tables)
    const steps = pending(done, tables)
    for (const { name, index, step } of steps) {
      const statements = typeof step === 'string' ? step : step(engine.dialect)
      for (const sql of [statements].flat()) await run(tx, engine.dialect.adapt(sql))
      await run(tx, 'insert into migrations (name, step, applied_at) values ($1, $2, $3)', [name, index, now()])
    }
    return steps.length
  })
}

async function applied(tx: Tx, engine: Engine): Promise<Set<string>> {
  const { rows: ledger } = await run(tx, engine.dialect.hasTable, ['migrations'])
  if (ledger.length === 0) return new Set()
  const { rows } = await run(tx, 'select name, step from migrations')
  return new Set(rows.map(({ name, step }) => `${name} ${step}`))
}

function pending(done: ReadonlySet<string>, tables: readonly Stored[]) {
  return tables.flatMap(({ name, storage }) =>
    storage.map((step, index) => ({ name, index, step })).filter(({ index }) => !done.has(`${name} ${index}`)),
  )
}

function mustBeKnown(done: ReadonlySet<string>, tables: readonly Stored[]): void {
  const known = new Set(tables.flatMap(({ name, storage }) => storage.map((_, index) => `${name} ${index}`)))
  if ([...done].every((step) => known.has(step))) return
  refuse(
    'unavailable',
    'this store was written by a newer svc than this one',
    'run the newer version, or restore a copy',
  )
}
