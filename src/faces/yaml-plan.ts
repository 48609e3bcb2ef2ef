// What a manifest changes: worked out whole before the first write, then written. What stays is updated in place, so that
// nothing which hangs on a row (links, run logs, the next run) goes with it.
import { Refusal } from '../lib/refusal.ts'
import type { Context } from '../registry/context.ts'
import type { Tx } from '../store/engine.ts'
import type { ListedRow, Manifest, Section } from './yaml-check.ts'
import { Faults } from './yaml-faults.ts'
import { identityOf, type Row, type Shape, titleOf } from './yaml-shape.ts'

/** Keys as people read them. */
export interface ResourcePlan {
  resource: string
  added: string[]
  changed: string[]
  removed: string[]
}

interface Update {
  readonly where: Row
  readonly patch: Row
}

export interface Changes {
  readonly shape: Shape
  readonly before: readonly Row[]
  readonly inserts: readonly Row[]
  readonly updates: readonly Update[]
  readonly removes: readonly Row[]
  readonly plan: ResourcePlan
}

/** In creation order. Refuses, with the manifest's lines, what only the store can tell. */
export async function planChanges(ctx: Context, { sections }: Manifest, shapes: readonly Shape[]): Promise<Changes[]> {
  const faults = new Faults()
  const changes: Changes[] = []
  for (const shape of shapes) {
    const section = shape.exported.ignoredByApply ? undefined : sections.get(shape.name)
    if (!section) continue
    await noteOrphans(ctx.tx, section, { sections, shapes, faults })
    changes.push(await changesOf(ctx, section, faults))
  }
  faults.settle()
  return changes
}

/** A row comes after what it refers to and goes before it, because resources are listed in creation order. */
export async function writeChanges(tx: Tx, changes: readonly Changes[]): Promise<void> {
  for (const { shape, inserts, updates } of changes) {
    // Not `insert`: a key that the store counts up itself must not be named.
    for (const row of inserts) await shape.table.append(tx, row)
    for (const { where, patch } of updates) await shape.table.update(tx, where, patch)
  }
  for (const { shape, removes } of changes.toReversed())
    for (const where of removes) await shape.table.remove(tx, where)
}

async function changesOf(ctx: Context, { shape, rows }: Section, faults: Faults): Promise<Changes> {
  const before: Row[] = await shape.table.list(ctx.tx)
  const current = new Map(before.map((row) => [identityOf(shape, row), row]))
  const plan: ResourcePlan = { resource: shape.name, added: [], changed: [], removed: [] }
  const inserts: Row[] = []
  const updates: Update[] = []
  for (const listed of rows) {
    const standing = current.get(listed.identity)
    current.delete(listed.identity)
    const row = filled(ctx, shape, { listed, standing, faults })
    if (!row) continue
    const differing = standing ? shape.table.columns.filter((column) => !isSame(row[column], standing[column])) : []
    if (!standing) {
      inserts.push(row)
      plan.added.push(titleOf(shape, row))
    } else if (differing.length > 0) {
      updates.push({ where: pick(standing, shape.table.key), patch: pick(row, differing) })
      plan.changed.push(titleOf(shape, row))
    }
  }
  plan.removed = [...current.values()].map((row) => titleOf(shape, row))
  const removes = [...current.values()].map((row) => pick(row, shape.table.key))
  return { shape, before, inserts, updates, removes, plan }
}

interface Filling {
  readonly listed: ListedRow
  readonly standing: Row | undefined
  readonly faults: Faults
}

/** The row as it will stand. What the manifest may leave out is kept; what it does not carry is the resource's to set. */
function filled(ctx: Context, shape: Shape, { listed, standing, faults }: Filling): Row | undefined {
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

interface Surroundings {
  readonly sections: Manifest['sections']
  readonly shapes: readonly Shape[]
  readonly faults: Faults
}

/** Rows that name what will not be there: the engine would refuse them too, but without a line. */
async function noteOrphans(tx: Tx, { shape, rows }: Section, around: Surroundings): Promise<void> {
  for (const [column, name] of Object.entries(shape.exported.refers ?? {})) {
    if (name === undefined) continue
    const keys = await keysAfter(tx, name, around)
    for (const { line, row } of rows) {
      if (row[column] === undefined || keys.has(row[column])) continue
      around.faults.add(line, `${shape.name}: ${column} is ${row[column]}, and ${name} will have no such row`)
    }
  }
}

async function keysAfter(tx: Tx, name: string, { sections, shapes }: Surroundings): Promise<Set<unknown>> {
  const shape = shapes.find((known) => known.name === name)
  const [column] = shape?.key ?? []
  if (!shape || column === undefined) throw new Error(`${name} is referred to and not exported`)
  const rows = sections.get(name)?.rows.map(({ row }) => row) ?? (await shape.table.list(tx))
  return new Set(rows.map((row) => row[column]))
}

function pick(row: Row, columns: readonly string[]): Row {
  return Object.fromEntries(columns.map((column) => [column, row[column]]))
}

function isSame(one: unknown, other: unknown): boolean {
  return one === other || (typeof one === 'object' && JSON.stringify(one) === JSON.stringify(other))
}
