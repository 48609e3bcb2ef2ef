// The folders that a person administers, for reports over several folders.
import { groups } from '../core/groups/groups.ts'
import { adminFilter, canOperate, INSTANCE_SCOPE } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { administeredRows } from '../registry/crud.ts'

/** A report over more folders than this would be slow; an operator's report reads the instance as a whole. */
export const OWN_FOLDERS_MAX = 100

/** Undefined for operators and the command line: all folders, and what belongs to none. */
export async function listOwnFolders(ctx: Context): Promise<readonly string[] | undefined> {
  if (ctx.caller.kind === 'host' || (await canOperate(ctx, INSTANCE_SCOPE))) return undefined
  const own = await administeredRows<{ folder: string }>(ctx, 'folder')
  const { rows } = await groups.page(ctx.tx, { ...own, order: [['folder', 'asc']], limit: OWN_FOLDERS_MAX })
  return rows.map(({ folder }) => folder)
}

/** Whether the person may read the reports of a folder; without one, everyone reads those of their own folders. */
export async function mayReadReport(ctx: Context, { folder }: { readonly folder?: string | undefined }) {
  return folder === undefined || (await adminFilter(ctx))(folder)
}
