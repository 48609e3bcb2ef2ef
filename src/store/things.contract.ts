// The tables of the engine contract: every type of column, a foreign key, a counter.
import type { TestContext } from 'node:test'
import { z } from 'zod'
import { Refusal, type RefusalCode } from '../lib/refusal.ts'
import type { Engine } from './engine.ts'
import { migrate } from './migrate.ts'
import { Table } from './table.ts'

const Bytes = z.custom<Uint8Array>((value) => value instanceof Uint8Array)

export const things = new Table({
  name: 'things',
  row: z.object({
    id: z.string(),
    size: z.int(),
    open: z.boolean(),
    body: Bytes,
    tags: z.array(z.string()),
    note: z.string().optional(),
    weight: z.int().optional(),
    loud: z.boolean().optional(),
    seal: Bytes.optional(),
    extra: z.record(z.string(), z.unknown()).optional(),
  }),
  key: 'id',
  storage: [
    `create table things (
       id text primary key, size bigint not null, open boolean not null, body bytea not null, tags text not null,
       note text, weight bigint, loud boolean, seal bytea, extra text)`,
  ],
})
export type Thing = z.output<typeof things.row>

export const parts = new Table({
  name: 'parts',
  row: z.object({ thing_id: z.string(), part: z.string(), label: z.string().optional() }),
  key: ['thing_id', 'part'],
  storage: [
    `create table parts (
       thing_id text not null references things (id), part text not null, label text unique,
       primary key (thing_id, part))`,
  ],
})

export const entries = new Table({
  name: 'entries',
  row: z.object({ id: z.int(), name: z.string() }),
  key: 'id',
  storage: [(dialect) => `create table entries (id ${dialect.counter}, name text not null)`],
})

export const THING_TABLES = [things, parts, entries]

export function thing(id: string, rest: Partial<Thing> = {}): Thing {
  return { id, size: 0, open: true, body: new Uint8Array(), tags: [], ...rest }
}

/** Opens an engine with the tables; it is closed after the test. */
export type EngineOpener = (t: TestContext) => Promise<Engine>

export async function prepare(t: TestContext, opened: Engine | Promise<Engine>): Promise<Engine> {
  const engine = await opened
  t.after(() => engine.close())
  await migrate(engine, THING_TABLES, () => '2026-01-01T00:00:00.000Z')
  return engine
}

/** For `assert.rejects`: checks the code and text of a refusal. */
export function refusedAs(code: RefusalCode, text = ''): (error: unknown) => boolean {
  return (error) => {
    if (!(error instanceof Refusal)) throw error
    if (error.code !== code || !error.message.includes(text)) throw new Error(`${error.code}: ${error.message}`)
    return true
  }
}

/** Waits for several event loop turns, so that everything that is not blocked can run. */
export async function eventLoopTurns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate)
}
