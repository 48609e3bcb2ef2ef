// The rows of a backup, in a format that both engines read. A backup reads one snapshot of a store, and a restore fills a new
// store in one transaction.
import { isUtf8 } from 'node:buffer'
import { refuse } from '../lib/refusal.ts'
import type { Value } from './engine.ts'
import type { StoredTable } from './migrate.ts'

export interface TableShape {
  readonly name: string
  readonly columns: readonly string[]
}

export type BackupRow = readonly Value[]

/** An applied migration step. */
export type AppliedStep = readonly [name: string, step: number]

/** The state of a store at one moment. */
export interface StoreSnapshot extends AsyncDisposable {
  readonly engine: 'sqlite' | 'postgres'
  readonly tables: readonly TableShape[]
  readonly steps: readonly AppliedStep[]
  /** The last used value of each auto-increment key, by table. */
  readonly counters: Readonly<Record<string, number>>
  /** Yields batches of a few hundred rows, with values in the order of the columns. */
  rows(table: TableShape): AsyncIterable<readonly BackupRow[]>
}

/** A new store that is being filled. If it is disposed before `finish`, nothing is kept. */
export interface StoreLoad extends AsyncDisposable {
  readonly tables: readonly TableShape[]
  insert(table: TableShape, rows: readonly BackupRow[]): Promise<void>
  finish(counters: Readonly<Record<string, number>>): Promise<void>
}

/** The tables with only these steps. */
export function tablesAtSteps(steps: readonly AppliedStep[], tables: readonly StoredTable[]): StoredTable[] {
  const applied = new Set(steps.map(([name, step]) => `${name} ${step}`))
  return tables.map(({ name, storage }) => ({
    name,
    storage: storage.filter((_, index) => applied.has(`${name} ${index}`)),
  }))
}

/** Writes a line of JSON. Bytes are `{"u": text}` if they are UTF-8, else `{"b": base64}`. */
export function writeRow(row: BackupRow): string {
  return `${JSON.stringify(row.map((value) => (value instanceof Uint8Array ? writeBytes(value) : value)))}\n`
}

function writeBytes(value: Uint8Array): { u: string } | { b: string } {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  return isUtf8(bytes) ? { u: bytes.toString() } : { b: bytes.toString('base64') }
}

export function readRow(line: string, { name, columns }: TableShape): BackupRow {
  let row: unknown
  try {
    row = JSON.parse(line)
  } catch {
    return refuseRow(name)
  }
  if (!Array.isArray(row) || row.length !== columns.length) return refuseRow(name)
  return row.map((value) => readValue(value) ?? (value === null ? null : refuseRow(name)))
}

function readValue(value: unknown): Value | undefined {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  if (typeof value !== 'object' || value === null) return undefined
  if ('u' in value && typeof value.u === 'string') return Buffer.from(value.u)
  return 'b' in value && typeof value.b === 'string' ? Buffer.from(value.b, 'base64') : undefined
}

export function refuseRow(table: string): never {
  return refuse('invalid', `the backup contains a row that does not fit the table ${table}`)
}
