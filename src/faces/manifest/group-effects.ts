// Groups and the rows that refer to them: what a manifest that adds or removes groups does to rows of other resources, which it
// may not name, and the rows that it adds for folders that are not groups.
import { z } from 'zod'
import {
  describeReferences,
  type FolderReferences,
  findFolderReferences,
  findReferencesWithoutGroup,
  type ReadTable,
} from '../../core/groups/folder-references.ts'
import { groups } from '../../core/groups/groups.ts'
import type { Tx } from '../../store/engine.ts'
import type { Table } from '../../store/table.ts'
import type { ResourceChanges } from './change-plan.ts'
import type { ManifestRow } from './manifest-resource.ts'

export const GroupEffect = z.object({
  folder: z.string(),
  ends: z.string().optional().describe('Rows that are deleted with a removed group'),
  stays: z.string().optional().describe('Rows that remain of a removed group'),
  inherits: z.string().optional().describe('Rows of an earlier group that a new group with its name takes over'),
  without_group: z.string().optional().describe('Rows that the manifest adds for a folder that is not a group'),
})
export type GroupEffect = z.output<typeof GroupEffect>

/** Groups without effects are omitted. */
export async function groupEffects(tx: Tx, changes: readonly ResourceChanges[]): Promise<GroupEffect[]> {
  const { before: rowsBefore = [], after: rowsAfter = [] } =
    changes.find(({ resource }) => resource.name === groups.name) ?? {}
  const [before, after] = [foldersOf(rowsBefore), foldersOf(rowsAfter)]
  const [removed, added] = [without(before, after), without(after, before)]
  const { ends, stays } =
    removed.size === 0 ? NO_REFERENCES : await findFolderReferences(tableReader(tx, changes, 'as listed'), removed)
  const inherited =
    added.size === 0 ? NO_REFERENCES : await findFolderReferences(tableReader(tx, changes, 'left out'), added)
  // Rows of removed groups are among those that stay.
  const ungrouped = (await findReferencesWithoutGroup(newRowReader(tx, changes))).filter(
    ({ folder }) => !removed.has(folder),
  )
  return [
    ...[...removed].map((folder) => ({
      folder,
      ends: describeRowsOf(ends, folder),
      stays: describeRowsOf(stays, folder),
    })),
    ...[...added].map((folder) => ({ folder, inherits: describeRowsOf(inherited.stays, folder) })),
    ...[...new Set(ungrouped.map(({ folder }) => folder))].map((folder) => ({
      folder,
      without_group: describeRowsOf(ungrouped, folder),
    })),
  ].filter(({ folder: _, ...effects }) => Object.values(effects).some(Boolean))
}

const NO_REFERENCES = { ends: [], stays: [] }

function foldersOf(rows: readonly ManifestRow[]): Set<string> {
  return new Set(rows.map(({ folder }) => String(folder)))
}

function without(folders: ReadonlySet<string>, others: ReadonlySet<string>): Set<string> {
  return new Set([...folders].filter((folder) => !others.has(folder)))
}

function describeRowsOf(references: readonly FolderReferences[], folder: string): string | undefined {
  const own = references.filter((reference) => reference.folder === folder)
  return own.length === 0 ? undefined : describeReferences(own)
}

/** Reads tables that the manifest names as it leaves them, or as empty: the plan reports their rows. */
function tableReader(tx: Tx, changes: readonly ResourceChanges[], named: 'as listed' | 'left out'): ReadTable {
  return async <R extends z.ZodObject>(table: Table<R>) => {
    const change = changes.find(({ resource }) => resource.name === table.name)
    if (!change) return table.list(tx)
    const rows = named === 'as listed' || table.name === groups.name ? change.after : []
    // Validated against the schema of this table when the manifest was read.
    return rows as z.output<R>[]
  }
}

/** Reads only rows that the manifest adds or changes, and all groups as it leaves them. */
function newRowReader(tx: Tx, changes: readonly ResourceChanges[]): ReadTable {
  return async <R extends z.ZodObject>(table: Table<R>) => {
    if (table.name === groups.name) return tableReader(tx, changes, 'as listed')(table)
    const { before = [], after = [] } = changes.find(({ resource }) => resource.name === table.name) ?? {}
    const textOf = (row: ManifestRow): string => JSON.stringify(table.columns.map((column) => row[column]))
    const known = new Set(before.map(textOf))
    // Validated against the schema of this table when the manifest was read.
    return after.filter((row) => !known.has(textOf(row))) as z.output<R>[]
  }
}
