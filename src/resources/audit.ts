// The audit log as a read-only resource.
import { z } from 'zod'
import { containsFolder } from '../core/access/tiers.ts'
import { Folder, line, pageLimit } from '../core/values.ts'
import { Audit, audit } from '../registry/audit.ts'
import {
  administeredRoots,
  hasTool,
  INSTANCE_SCOPE,
  readableFolderFilter,
  requireToolForAgents,
} from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { listPage, listSchema, Paging, UNPAGED } from '../registry/crud.ts'
import { defineResource, defineVerb, toolArguments } from '../registry/resource.ts'
import { listPaths } from '../store/path-list.ts'

const EXAMINED_MAX = 20_000
/** With more folders than this, one pass over all rows is faster than a search in each folder. */
const FOLDERS_MAX = 100

const Filters = z.object({
  folder: Folder.optional().describe('Only calls by callers of this folder and those below it'),
  category: z.enum(['mutation', 'authz']).optional(),
  actor: line(256).optional().describe('Only this principal'),
})

export const auditResource = defineResource({
  of: audit,
  title: 'Audit',
  servedBy: ['routd', 'authd', 'runed'],
  verbs: (table) => ({
    list: defineVerb({
      http: 'GET /',
      isReadOnly: true,
      when: 'See who changed what, newest first.',
      input: Paging.extend({ ...Filters.shape, limit: pageLimit(50, 200) }),
      toolInput: toolArguments({ ...Filters.shape, limit: pageLimit(50, 200) }, (args) => ({ ...UNPAGED, ...args })),
      output: listSchema(table, 'audit'),
      authorize: requireToolForAgents,
      run: async (ctx, { folder, category, actor, ...paging }) => {
        const maySee = await readableFolderFilter(ctx)
        // An actor has an index of its own.
        const folders = actor ? undefined : await listFolders(ctx, folder)
        const categories = category ? [category] : Audit.shape.category.options
        return listPage(ctx, table, 'audit', {
          where: { ...(category ? { category } : {}), ...(actor ? { actor } : {}) },
          anyOf: folders?.flatMap((each) => categories.map((one) => ({ folder: each, category: one }))),
          order: [['id', 'desc']],
          // A person at the dashboard can continue; REST clients and agents expect full pages.
          ...(ctx.face === 'dash' ? { examinedMax: EXAMINED_MAX } : {}),
          keep: (row) =>
            maySee(row.folder ?? INSTANCE_SCOPE) &&
            (folder === undefined || containsFolder(folder, row.folder ?? INSTANCE_SCOPE)),
          ...paging,
        })
      },
    }),
  }),
})

/** The folders that can have rows for the caller; undefined if they are many, or if rows of the instance count, too. */
async function listFolders(ctx: Context, folder: string | undefined): Promise<string[] | undefined> {
  const visibleRoots = async () => ((await hasTool(ctx, INSTANCE_SCOPE)) ? undefined : administeredRoots(ctx))
  const roots = folder === undefined ? await visibleRoots() : [folder]
  return roots && listPaths(ctx.tx, { table: 'audit', column: 'folder', roots, max: FOLDERS_MAX })
}
