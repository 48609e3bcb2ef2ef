// A resource in a manifest: its columns there, and the key that identifies a row.
import { z } from 'zod'
import { isMarked } from '../../registry/crud.ts'
import type { ManifestExport, Resource } from '../../registry/resource.ts'
import type { Table } from '../../store/table.ts'

export type ManifestRow = Record<string, unknown>

export interface ManifestResource {
  readonly name: string
  readonly table: Table<z.ZodObject>
  readonly exported: ManifestExport<ManifestRow>
  /** In the declared order. */
  readonly columns: readonly string[]
  readonly key: readonly string[]
  /** One row in a manifest; columns that the server sets are optional. */
  readonly rowSchema: z.ZodObject
  /** Columns that keep their stored value where a manifest omits them. */
  readonly keptColumns: readonly string[]
}

/** The exported resources, in creation order. */
export function manifestResources(resources: readonly Resource[]): ManifestResource[] {
  return resources.flatMap(({ name, table, exported }) =>
    exported ? [createManifestResource(name, table, exported)] : [],
  )
}

function createManifestResource(
  name: string,
  table: Table<z.ZodObject>,
  exported: ManifestExport<ManifestRow>,
): ManifestResource {
  const key = exported.key ?? table.key
  const hidden = table.columns.filter(
    (column) => exported.omit?.includes(column) || isMarked(table.row, column, 'writeOnly'),
  )
  const columns = table.columns.filter((column) => !hidden.includes(column))
  // Omitting an optional column clears it, so only required ones keep their value.
  const setByServer = columns.filter(
    (column) =>
      isMarked(table.row, column, 'readOnly') &&
      !key.includes(column) &&
      !(table.row.shape[column] instanceof z.ZodOptional),
  )
  const visible: z.ZodObject = table.row.omit(mask(hidden))
  const rowSchema = visible.partial(mask(setByServer))
  return { name, table, exported, columns, key, rowSchema, keptColumns: [...hidden, ...setByServer] }
}

function mask(names: readonly string[]): Record<string, true> {
  return Object.fromEntries(names.map((name) => [name, true]))
}

/** Equal for equal keys only, whatever the parts contain. */
export function rowIdentity({ key }: ManifestResource, row: ManifestRow): string {
  return JSON.stringify(key.map((column) => row[column]))
}

/** The key of a row, for people. */
export function rowTitle({ key }: ManifestResource, row: ManifestRow): string {
  const parts = key.map((column) => String(row[column]))
  return parts.map((part) => (key.length > 1 && /^$|[\s"]/.test(part) ? JSON.stringify(part) : part)).join(' ')
}
