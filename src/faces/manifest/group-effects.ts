// What a manifest that adds or removes groups does to rows of other resources, which it may not name.
import { z } from 'zod'
import {
  describeReferences,
  type FolderReferences,
  findFolderReferences,
  type ReadTable,
} from '../../core/groups/folder-references.ts'
import { groups } from '../../core/groups/groups.ts'
import type { Tx } from '../../store/engine.ts'
import type { Table } from '../../store/table.ts'
import type { ResourceChanges } from './change-plan.ts'
import type { ManifestRow } from './manifest-resource.ts'

export const GroupEffect = z.object({
  folder: z.string(),
  ends: z.string().optional().describe('What ends with a group that is removed'),
  stays: z.string().optional().describe('What stays of a group that is removed'),
  inherits: z.string().optional().describe('What a new group takes over from an earlier one of its name'),
})
export type GroupEffect = z.output<typeof GroupEffect>

/** Only of groups where there is something to tell. */
export async function groupEffects(tx: Tx, changes: readonly ResourceChanges[]): Promise<GroupEffect[]> {
  const turn = changes.find(({ shape }) => shape.name === groups.name)
  if (!turn) return []
  const [before, after] = [foldersOf(turn.before), foldersOf(turn.after)]
  const [removed, added] = [without(before, after), without(after, before)]
  const { ends, stays } =
    removed.size === 0 ? NOTHING : await findFolderReferences(reader(tx, changes, 'as listed'), removed)
  const inherited = added.size === 0 ? NOTHING : await findFolderReferences(reader(tx, changes, 'left out'), added)
  return [
    ...[...removed].map((folder) => ({
      folder,
      ends: describeRowsOf(ends, folder),
      stays: describeRowsOf(stays, folder),
    })),
    ...[...added].map((folder) => ({ folder, inherits: describeRowsOf(inherited.stays, folder) })),
  ].filter(({ folder: _, ...effects }) => Object.values(effects).some(Boolean))
}

const NOTHING = { ends: [], stays: [] }

function foldersOf(rows: readonly ManifestRow[]): Set<string> {
  return new Set(rows.map(({ folder }) => String(folder)))
}

function without(folders: ReadonlySet<string>, others: ReadonlySet<string>): Set<string> {
  return new Set([...folders].filter((folder) => !others.has(folder)))
}

function describeRowsOf(rows: readonly FolderReferences[], folder: string): string | undefined {
  const its = rows.filter((row) => row.folder === folder)
  return its.length === 0 ? undefined : describeReferences(its)
}

/** Tables that the manifest names are read as it leaves them, or left out: what it says itself needs no telling. */
function reader(tx: Tx, changes: readonly ResourceChanges[], named: 'as listed' | 'left out'): ReadTable {
  return async <R extends z.ZodObject>(table: Table<R>) => {
    const change = changes.find(({ shape }) => shape.name === table.name)
    if (!change) return table.list(tx)
    const rows = named === 'as listed' || table.name === groups.name ? change.after : []
    // Checked against this table's schema when the manifest was read.
    return rows as z.output<R>[]
  }
}
