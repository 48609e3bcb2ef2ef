// Rows of a store in a form that either engine reads: what a backup holds. A store is read from one snapshot, and a new one
// is filled in one transaction.
import { isUtf8 } from 'node:buffer'
import { refuse } from '../lib/refusal.ts'
import type { Value } from './engine.ts'
import type { StoredTable } from './migrate.ts'

export interface TableShape {
  readonly name: string
  readonly columns: readonly string[]
}

export type BackupRow = readonly Value[]

/** A step of the schema that has been applied: the name of its table, and its number. */
export type AppliedStep = readonly [name: string, step: number]

/** A store at one moment. What others write meanwhile does not show. */
export interface StoreSnapshot extends AsyncDisposable {
  readonly engine: 'sqlite' | 'postgres'
  readonly tables: readonly TableShape[]
  readonly steps: readonly AppliedStep[]
  /** Of tables that number their rows: the last number that was given out. */
  readonly counters: Readonly<Record<string, number>>
  /** Values are in the order of the columns; a few hundred rows at a time. */
  rows(table: TableShape): AsyncIterable<readonly BackupRow[]>
}

/** A new store that is being filled. Closed before `finish`, nothing of it stays. */
export interface StoreLoad extends AsyncDisposable {
  readonly tables: readonly TableShape[]
  insert(table: TableShape, rows: readonly BackupRow[]): Promise<void>
  finish(counters: Readonly<Record<string, number>>): Promise<void>
}

/** The tables as the program had them when it had applied just these steps. */
export function tablesAtSteps(steps: readonly AppliedStep[], tables: readonly StoredTable[]): StoredTable[] {
  const applied = new Set(steps.map(([name, step]) => `${name} ${step}`))
  return tables.map(({ name, storage }) => ({
    name,
    storage: storage.filter((_, index) => applied.has(`${name} ${index}`)),
  }))
}

/** One line of JSON. Bytes are `{"u": text}` where they are UTF-8, and `{"b": base64}` where they are not. */
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
  return refuse('invalid', `the backup holds a row that does not fit the table ${table}`)
}
