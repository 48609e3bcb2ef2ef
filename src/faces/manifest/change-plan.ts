// What a manifest changes: worked out whole before the first write, then written. What stays is updated in place, so that
// nothing which hangs on a row (links, run logs, the next run) goes with it.
import { Refusal } from '../../lib/refusal.ts'
import type { Context } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { ManifestErrors } from './manifest-errors.ts'
import { type ManifestResource, type ManifestRow, rowIdentity, rowTitle } from './manifest-resource.ts'
import type { ListedRow, Manifest, ManifestSection } from './validator.ts'

/** Keys as people read them. */
export interface ResourcePlan {
  resource: string
  added: string[]
  changed: string[]
  removed: string[]
}

interface Update {
  readonly where: ManifestRow
  readonly patch: ManifestRow
}

export interface ResourceChanges {
  readonly shape: ManifestResource
  readonly before: readonly ManifestRow[]
  /** The rows as they will be. */
  readonly after: readonly ManifestRow[]
  /** Keys of rows that get a new place in the order: removed, then inserted again. */
  readonly moves: readonly ManifestRow[]
  readonly inserts: readonly ManifestRow[]
  readonly updates: readonly Update[]
  readonly removes: readonly ManifestRow[]
  readonly plan: ResourcePlan
}

/** In creation order. Refuses, with the manifest's lines, what only the store can tell. */
export async function planChanges(
  ctx: Context,
  { sections }: Manifest,
  shapes: readonly ManifestResource[],
): Promise<ResourceChanges[]> {
  const faults = new ManifestErrors()
  const changes: ResourceChanges[] = []
  for (const shape of shapes) {
    const section = shape.exported.ignoredByApply ? undefined : sections.get(shape.name)
    if (!section) continue
    await reportDanglingReferences(ctx.tx, section, { sections, shapes, faults })
    changes.push(await changesOf(ctx, section, faults))
  }
  faults.throwIfAny()
  return changes
}

/** A row comes after what it refers to and goes before it, because resources are listed in creation order. */
export async function writeChanges(tx: Tx, changes: readonly ResourceChanges[]): Promise<void> {
  for (const { shape, moves, inserts, updates } of changes) {
    for (const where of moves) await shape.table.remove(tx, where)
    // Not `insert`: a key that the store counts up itself must not be named.
    for (const row of inserts) await shape.table.append(tx, row)
    for (const { where, patch } of updates) await shape.table.update(tx, where, patch)
  }
  for (const { shape, removes } of changes.toReversed())
    for (const where of removes) await shape.table.remove(tx, where)
}

async function changesOf(
  ctx: Context,
  { shape, rows }: ManifestSection,
  faults: ManifestErrors,
): Promise<ResourceChanges> {
  const before: ManifestRow[] = await shape.table.list(ctx.tx)
  const current = new Map(before.map((row) => [rowIdentity(shape, row), row]))
  const isMoved = outOfOrder(shape, rows, current)
  const plan: ResourcePlan = { resource: shape.name, added: [], changed: [], removed: [] }
  const [moves, inserts, after]: [ManifestRow[], ManifestRow[], ManifestRow[]] = [[], [], []]
  const updates: Update[] = []
  for (const listed of rows) {
    const standing = current.get(listed.identity)
    current.delete(listed.identity)
    const row = completeRow(ctx, shape, { listed, standing, faults })
    if (!row) continue
    after.push(row)
    const differing = standing ? shape.table.columns.filter((column) => !isSame(row[column], standing[column])) : []
    if (!standing) {
      inserts.push(row)
      plan.added.push(rowTitle(shape, row))
    } else if (isMoved.has(listed)) {
      moves.push(pick(standing, shape.table.key))
      inserts.push({ ...row, [shape.exported.ordered?.counter ?? '']: undefined })
      plan.changed.push(rowTitle(shape, row))
    } else if (differing.length > 0) {
      updates.push({ where: pick(standing, shape.table.key), patch: pick(row, differing) })
      plan.changed.push(rowTitle(shape, row))
    }
  }
  const { exportRow = (row: ManifestRow) => row } = shape.exported
  const { shown = [], hidden = [] } = Object.groupBy(current.values(), (row) => (exportRow(row) ? 'shown' : 'hidden'))
  plan.removed = shown.map((row) => rowTitle(shape, row))
  const removes = shown.map((row) => pick(row, shape.table.key))
  return { shape, before, after: [...after, ...hidden], moves, inserts, updates, removes, plan }
}

/** The rows whose counter does not rise in the manifest's order. A row behind a new one is among them: it is counted after it. */
function outOfOrder(
  shape: ManifestResource,
  rows: readonly ListedRow[],
  current: ReadonlyMap<string, ManifestRow>,
): Set<ListedRow> {
  const moved = new Set<ListedRow>()
  const { ordered } = shape.exported
  if (!ordered) return moved
  const last = new Map<unknown, number>()
  for (const listed of rows) {
    const place = listed.row[ordered.within]
    const count = Number(current.get(listed.identity)?.[ordered.counter] ?? Number.POSITIVE_INFINITY)
    if (count > (last.get(place) ?? Number.NEGATIVE_INFINITY)) last.set(place, count)
    else if (current.has(listed.identity)) {
      moved.add(listed)
      last.set(place, Number.POSITIVE_INFINITY)
    }
  }
  return moved
}

interface RowToComplete {
  readonly listed: ListedRow
  readonly standing: ManifestRow | undefined
  readonly faults: ManifestErrors
}

/** The row as it will stand. What the manifest may leave out is kept; what it does not carry is the resource's to set. */
function completeRow(
  ctx: Context,
  shape: ManifestResource,
  { listed, standing, faults }: RowToComplete,
): ManifestRow | undefined {
  const { exported, kept } = shape
  const row = { ...(standing ? pick(standing, kept) : {}), ...listed.row }
  try {
    return exported.fill ? exported.fill(ctx, row, standing) : row
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    faults.add(listed.line, `${shape.name}: ${error.message}`)
    return undefined
  }
}

interface ReferenceScope {
  readonly sections: Manifest['sections']
  readonly shapes: readonly ManifestResource[]
  readonly faults: ManifestErrors
}

/**
 * Notes rows that name what will not be there. A row that is in the store already and names what is not there now either
 * stays, so that a store can always take its own export.
 */
async function reportDanglingReferences(
  tx: Tx,
  { shape, rows }: ManifestSection,
  around: ReferenceScope,
): Promise<void> {
  for (const [column, name] of Object.entries(shape.exported.references ?? {})) {
    if (name === undefined) continue
    const { before, after } = await keysOf(tx, name, around)
    const orphans = rows.filter(({ row }) => row[column] !== undefined && !after.has(row[column]))
    if (orphans.length === 0) continue
    const current = new Map((await shape.table.list(tx)).map((row: ManifestRow) => [rowIdentity(shape, row), row]))
    for (const { line, identity, row } of orphans) {
      const value = row[column]
      if (!before.has(value) && current.get(identity)?.[column] === value) continue
      around.faults.add(line, `${shape.name}: ${column} is ${value}, and ${name} will have no such row`)
    }
  }
}

async function keysOf(tx: Tx, name: string, { sections, shapes }: ReferenceScope) {
  const shape = shapes.find((known) => known.name === name)
  const [column] = shape?.key ?? []
  if (!shape || column === undefined) throw new Error(`${name} is referred to and not exported`)
  const keys = (rows: readonly ManifestRow[]): Set<unknown> => new Set(rows.map((row) => row[column]))
  const before = keys(await shape.table.list(tx))
  const listed = sections.get(name)?.rows.map(({ row }) => row)
  return { before, after: listed ? keys(listed) : before }
}

function pick(row: ManifestRow, columns: readonly string[]): ManifestRow {
  return Object.fromEntries(columns.map((column) => [column, row[column]]))
}

function isSame(one: unknown, other: unknown): boolean {
  return one === other || (typeof one === 'object' && JSON.stringify(one) === JSON.stringify(other))
}
