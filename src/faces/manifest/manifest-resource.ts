// How a resource stands in a manifest: which of its columns, and what identifies a row there.
import { z } from 'zod'
import { isMarked } from '../../registry/crud.ts'
import type { ManifestExport, Resource } from '../../registry/resource.ts'
import type { Table } from '../../store/table.ts'

export type ManifestRow = Record<string, unknown>

export interface ManifestResource {
  readonly name: string
  readonly table: Table<z.ZodObject>
  readonly exported: ManifestExport<ManifestRow>
  /** In the order in which they are declared. */
  readonly columns: readonly string[]
  readonly key: readonly string[]
  /** One row as a manifest may say it: what the server sets may be left out. */
  readonly row: z.ZodObject
  /** Columns that stay as they are where a manifest does not say them. */
  readonly kept: readonly string[]
}

/** Of the exported resources, in creation order. */
export function manifestResources(resources: readonly Resource[]): ManifestResource[] {
  return resources.flatMap(({ name, table, exported }) => (exported ? [manifestResource(name, table, exported)] : []))
}

function manifestResource(
  name: string,
  table: Table<z.ZodObject>,
  exported: ManifestExport<ManifestRow>,
): ManifestResource {
  const key = exported.key ?? table.key
  const hidden = table.columns.filter(
    (column) => exported.omit?.includes(column) || isMarked(table.row, column, 'writeOnly'),
  )
  const columns = table.columns.filter((column) => !hidden.includes(column))
  // What is optional is said by leaving it out: there, absent means absent.
  const set = columns.filter(
    (column) =>
      isMarked(table.row, column, 'readOnly') &&
      !key.includes(column) &&
      !(table.row.shape[column] instanceof z.ZodOptional),
  )
  const shown: z.ZodObject = table.row.omit(mask(hidden))
  return { name, table, exported, columns, key, row: shown.partial(mask(set)), kept: [...hidden, ...set] }
}

function mask(names: readonly string[]): Record<string, true> {
  return Object.fromEntries(names.map((name) => [name, true]))
}

/** Equal for equal keys and for no others, whatever stands in the parts. */
export function rowIdentity({ key }: ManifestResource, row: ManifestRow): string {
  return JSON.stringify(key.map((column) => row[column]))
}

/** A row's key for people. */
export function rowTitle({ key }: ManifestResource, row: ManifestRow): string {
  const parts = key.map((column) => String(row[column]))
  return parts.map((part) => (key.length > 1 && /^$|[\s"]/.test(part) ? JSON.stringify(part) : part)).join(' ')
}
