// The plan of a manifest as a diff for people: each row that changes, with its values before and after.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { isMarked } from '../../registry/crud.ts'
import type { ResourceChanges } from './change-plan.ts'
import { type ManifestResource, type ManifestRow, rowIdentity, rowTitle } from './manifest-resource.ts'

const FieldChange = z.object({
  name: z.string(),
  before: z.string().optional(),
  after: z.string().optional(),
})

export const PlannedRow = z.object({
  resource: z.string(),
  /** Its key, as in the lists of the plan. */
  key: z.string(),
  change: z.enum(['added', 'changed', 'moved', 'removed']).describe('moved: only its position changes'),
  fields: z.array(FieldChange).describe('Without columns that the server sets, such as times'),
})
export type PlannedRow = z.output<typeof PlannedRow>

/** In the order of the manifest, removed rows last. Columns that no manifest has are left out: they may be secret. */
export function describePlannedRows(changes: readonly ResourceChanges[]): PlannedRow[] {
  return changes.flatMap(describeResource)
}

function describeResource({ resource, before, after, moves, updates, removes }: ResourceChanges): PlannedRow[] {
  const current = new Map(before.map((row) => [rowIdentity(resource, row), row]))
  const updated = keysOf(
    resource,
    updates.map(({ where }) => where),
  )
  const [moved, removed] = [keysOf(resource, moves), keysOf(resource, removes)]
  const describe = (change: PlannedRow['change'], row: ManifestRow, fields: PlannedRow['fields']): PlannedRow => ({
    resource: resource.name,
    key: rowTitle(resource, row),
    change,
    fields,
  })
  const kept = after.flatMap((row) => {
    const stored = current.get(rowIdentity(resource, row))
    if (!stored) return [describe('added', row, compareRows(resource, {}, row))]
    const fields = compareRows(resource, stored, row)
    const key = tableKey(resource, stored)
    if (fields.length > 0 || updated.has(key)) return [describe('changed', row, fields)]
    return moved.has(key) ? [describe('moved', row, fields)] : []
  })
  const gone = before.filter((row) => removed.has(tableKey(resource, row)))
  return [...kept, ...gone.map((row) => describe('removed', row, compareRows(resource, row, {})))]
}

function compareRows(
  { columns, table }: ManifestResource,
  before: ManifestRow,
  after: ManifestRow,
): PlannedRow['fields'] {
  return columns.flatMap((name) => {
    if (isMarked(table.row, name, 'readOnly')) return []
    const [old, now] = [valueText(before[name]), valueText(after[name])]
    if (old === now) return []
    return [{ name, ...(old === undefined ? {} : { before: old }), ...(now === undefined ? {} : { after: now }) }]
  })
}

function valueText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function keysOf(resource: ManifestResource, rows: readonly ManifestRow[]): ReadonlySet<string> {
  return new Set(rows.map((row) => tableKey(resource, row)))
}

function tableKey({ table }: ManifestResource, row: ManifestRow): string {
  return JSON.stringify(table.key.map((column) => row[column]))
}

/** Equal only for plans with the same effect. */
export function planFingerprint(plan: object): string {
  return createHash('sha256').update(JSON.stringify(plan)).digest('base64url')
}
