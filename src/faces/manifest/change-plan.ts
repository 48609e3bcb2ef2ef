// Plans all changes of a manifest before the first write, then writes them. Rows that stay are updated in place, which keeps
// what depends on them: links, run logs, the next run.
import { z } from 'zod'
import { Refusal } from '../../lib/refusal.ts'
import type { Context } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { ManifestErrors } from './manifest-errors.ts'
import { type ManifestResource, type ManifestRow, rowIdentity, rowTitle } from './manifest-resource.ts'
import type { ListedRow, Manifest, ManifestSection } from './validator.ts'

/** Keys of rows, for people. */
export const ResourcePlan = z.object({
  resource: z.string(),
  added: z.array(z.string()),
  changed: z.array(z.string()),
  removed: z.array(z.string()),
})

interface RowUpdate {
  readonly where: ManifestRow
  readonly patch: ManifestRow
}

export interface ResourceChanges {
  readonly resource: ManifestResource
  readonly before: readonly ManifestRow[]
  /** The rows after the changes. */
  readonly after: readonly ManifestRow[]
  /** Keys of rows whose position changes: they are removed and inserted again. */
  readonly moves: readonly ManifestRow[]
  readonly inserts: readonly ManifestRow[]
  readonly updates: readonly RowUpdate[]
  readonly removes: readonly ManifestRow[]
  readonly plan: z.output<typeof ResourcePlan>
}

/** In creation order. Refuses, with lines, errors that only the store reveals. */
export async function planChanges(
  ctx: Context,
  { sections }: Manifest,
  resources: readonly ManifestResource[],
): Promise<ResourceChanges[]> {
  const errors = new ManifestErrors()
  const changes: ResourceChanges[] = []
  for (const resource of resources) {
    const section = resource.exported.ignoredByApply ? undefined : sections.get(resource.name)
    if (!section) continue
    await reportDanglingReferences(ctx.tx, section, { sections, resources, errors })
    changes.push(await planSection(ctx, section, errors))
  }
  errors.throwIfAny()
  return changes
}

/** `changes` is in creation order, so that a row is inserted after the rows it refers to and removed before them. */
export async function writeChanges(tx: Tx, changes: readonly ResourceChanges[]): Promise<void> {
  for (const { resource, moves, inserts, updates } of changes) {
    for (const where of moves) await resource.table.remove(tx, where)
    // Not `insert`, which would set keys that the store generates.
    for (const row of inserts) await resource.table.append(tx, row)
    for (const { where, patch } of updates) await resource.table.update(tx, where, patch)
  }
  for (const { resource, removes } of changes.toReversed())
    for (const where of removes) await resource.table.remove(tx, where)
}

async function planSection(
  ctx: Context,
  { resource, rows }: ManifestSection,
  errors: ManifestErrors,
): Promise<ResourceChanges> {
  const before: ManifestRow[] = await resource.table.list(ctx.tx)
  const current = new Map(before.map((row) => [rowIdentity(resource, row), row]))
  const moved = findMovedRows(resource, rows, current)
  const plan: z.output<typeof ResourcePlan> = { resource: resource.name, added: [], changed: [], removed: [] }
  const [moves, inserts, after]: [ManifestRow[], ManifestRow[], ManifestRow[]] = [[], [], []]
  const updates: RowUpdate[] = []
  for (const listed of rows) {
    const stored = current.get(listed.identity)
    current.delete(listed.identity)
    const row = completeRow(ctx, resource, { listed, stored, errors })
    if (!row) continue
    after.push(row)
    const differing = stored ? resource.table.columns.filter((column) => !isSame(row[column], stored[column])) : []
    if (!stored) {
      inserts.push(row)
      plan.added.push(rowTitle(resource, row))
    } else if (moved.has(listed)) {
      moves.push(pick(stored, resource.table.key))
      inserts.push({ ...row, [resource.exported.ordered?.counter ?? '']: undefined })
      plan.changed.push(rowTitle(resource, row))
    } else if (differing.length > 0) {
      updates.push({ where: pick(stored, resource.table.key), patch: pick(row, differing) })
      plan.changed.push(rowTitle(resource, row))
    }
  }
  const { exportRow = (row: ManifestRow) => row } = resource.exported
  const { shown = [], hidden = [] } = Object.groupBy(current.values(), (row) => (exportRow(row) ? 'shown' : 'hidden'))
  plan.removed = shown.map((row) => rowTitle(resource, row))
  const removes = shown.map((row) => pick(row, resource.table.key))
  return { resource, before, after: [...after, ...hidden], moves, inserts, updates, removes, plan }
}

/** Rows whose counter does not rise in the order of the manifest, including every row after a new one. */
function findMovedRows(
  resource: ManifestResource,
  rows: readonly ListedRow[],
  current: ReadonlyMap<string, ManifestRow>,
): Set<ListedRow> {
  const moved = new Set<ListedRow>()
  const { ordered } = resource.exported
  if (!ordered) return moved
  const last = new Map<unknown, number>()
  for (const listed of rows) {
    const within = listed.row[ordered.within]
    const count = Number(current.get(listed.identity)?.[ordered.counter] ?? Number.POSITIVE_INFINITY)
    if (count > (last.get(within) ?? Number.NEGATIVE_INFINITY)) last.set(within, count)
    else if (current.has(listed.identity)) {
      moved.add(listed)
      last.set(within, Number.POSITIVE_INFINITY)
    }
  }
  return moved
}

interface RowToComplete {
  readonly listed: ListedRow
  readonly stored: ManifestRow | undefined
  readonly errors: ManifestErrors
}

/** The row to write: omitted columns keep their stored value, and the resource sets those that a manifest does not have. */
function completeRow(
  ctx: Context,
  resource: ManifestResource,
  { listed, stored, errors }: RowToComplete,
): ManifestRow | undefined {
  const { exported, keptColumns } = resource
  const row = { ...(stored ? pick(stored, keptColumns) : {}), ...listed.row }
  try {
    return exported.fill ? exported.fill(ctx, row, stored) : row
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    errors.add(listed.line, `${resource.name}: ${error.message}`)
    return undefined
  }
}

interface ReferenceScope {
  readonly sections: Manifest['sections']
  readonly resources: readonly ManifestResource[]
  readonly errors: ManifestErrors
}

/** Reports rows that refer to a missing row. */
async function reportDanglingReferences(
  tx: Tx,
  { resource, rows }: ManifestSection,
  scope: ReferenceScope,
): Promise<void> {
  for (const [column, name] of Object.entries(resource.exported.references ?? {})) {
    if (name === undefined) continue
    const keys = await keysOf(tx, name, scope)
    for (const { line, row } of rows) {
      const value = row[column]
      if (value === undefined || keys.has(value)) continue
      scope.errors.add(line, `${resource.name}: ${column} is ${value}, but ${name} will have no such row`)
    }
  }
}

/** As the manifest leaves them. */
async function keysOf(tx: Tx, name: string, { sections, resources }: ReferenceScope): Promise<ReadonlySet<unknown>> {
  const resource = resources.find((exported) => exported.name === name)
  const [column] = resource?.key ?? []
  if (!resource || column === undefined) throw new Error(`${name} is referenced but not exported`)
  const listed: readonly ManifestRow[] | undefined = sections.get(name)?.rows.map(({ row }) => row)
  return new Set((listed ?? (await resource.table.list(tx))).map((row) => row[column]))
}

function pick(row: ManifestRow, columns: readonly string[]): ManifestRow {
  return Object.fromEntries(columns.map((column) => [column, row[column]]))
}

function isSame(one: unknown, other: unknown): boolean {
  return one === other || (typeof one === 'object' && JSON.stringify(one) === JSON.stringify(other))
}
