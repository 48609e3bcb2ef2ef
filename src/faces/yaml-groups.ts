// What a manifest that adds or removes groups does to rows of other resources, which it may not name.
import { z } from 'zod'
import { groups } from '../core/groups.ts'
import { describeRows, type FolderRows, type ReadTable, rowsOf } from '../core/leftovers.ts'
import type { Tx } from '../store/engine.ts'
import type { Table } from '../store/table.ts'
import type { Changes } from './yaml-plan.ts'
import type { Row } from './yaml-shape.ts'

export const GroupEffect = z.object({
  folder: z.string(),
  ends: z.string().optional().describe('What ends with a group that is removed'),
  stays: z.string().optional().describe('What stays of a group that is removed'),
  inherits: z.string().optional().describe('What a new group takes over from an earlier one of its name'),
})
export type GroupEffect = z.output<typeof GroupEffect>

/** Only of groups where there is something to tell. */
export async function groupEffects(tx: Tx, changes: readonly Changes[]): Promise<GroupEffect[]> {
  const turn = changes.find(({ shape }) => shape.name === groups.name)
  if (!turn) return []
  const [before, after] = [foldersOf(turn.before), foldersOf(turn.after)]
  const [removed, added] = [without(before, after), without(after, before)]
  const { ends, stays } = removed.size === 0 ? NOTHING : await rowsOf(reader(tx, changes, 'as listed'), removed)
  const inherited = added.size === 0 ? NOTHING : await rowsOf(reader(tx, changes, 'left out'), added)
  return [
    ...[...removed].map((folder) => ({ folder, ends: told(ends, folder), stays: told(stays, folder) })),
    ...[...added].map((folder) => ({ folder, inherits: told(inherited.stays, folder) })),
  ].filter(({ folder: _, ...effects }) => Object.values(effects).some(Boolean))
}

const NOTHING = { ends: [], stays: [] }

function foldersOf(rows: readonly Row[]): Set<string> {
  return new Set(rows.map(({ folder }) => String(folder)))
}

function without(folders: ReadonlySet<string>, others: ReadonlySet<string>): Set<string> {
  return new Set([...folders].filter((folder) => !others.has(folder)))
}

function told(rows: readonly FolderRows[], folder: string): string | undefined {
  const its = rows.filter((row) => row.folder === folder)
  return its.length === 0 ? undefined : describeRows(its)
}

/** Tables that the manifest names are read as it leaves them, or left out: what it says itself needs no telling. */
function reader(tx: Tx, changes: readonly Changes[], named: 'as listed' | 'left out'): ReadTable {
  return async <R extends z.ZodObject>(table: Table<R>) => {
    const change = changes.find(({ shape }) => shape.name === table.name)
    if (!change) return table.list(tx)
    const rows = named === 'as listed' || table.name === groups.name ? change.after : []
    // Checked against this table's schema when the manifest was read.
    return rows as z.output<R>[]
  }
}
