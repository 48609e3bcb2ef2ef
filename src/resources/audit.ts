// The audit log as a resource: who changed what, and who was refused. Read-only.
import { z } from 'zod'
import { contains } from '../core/tiers.ts'
import { Folder, limit, line } from '../core/values.ts'
import { audit } from '../registry/audit.ts'
import { EVERYTHING, listing, Paging, pageOf } from '../registry/crud.ts'
import { INSTANCE, listed, sightOf } from '../registry/needs.ts'
import { resource, verb } from '../registry/resource.ts'

const Filters = z.object({
  folder: Folder.optional().describe('Only what callers of this folder and below did'),
  category: z.enum(['mutation', 'authz']).optional(),
  actor: line(256).optional().describe('Only this principal'),
})

export const auditResource = resource({
  of: audit,
  title: 'Audit',
  servedBy: ['routd', 'authd', 'runed'],
  verbs: (table) => ({
    list: verb({
      http: 'GET /',
      reads: true,
      when: 'See who changed what, newest first.',
      input: Paging.extend({ ...Filters.shape, limit: limit(50, 200) }),
      toolInput: z
        .strictObject({ ...Filters.shape, limit: limit(50, 200) })
        .transform((input) => ({ ...EVERYTHING, ...input })),
      output: listing(table, 'audit'),
      needs: listed,
      run: async (ctx, { folder, category, actor, ...paging }) => {
        const maySee = await sightOf(ctx)
        return pageOf(ctx, table, 'audit', {
          where: { ...(category ? { category } : {}), ...(actor ? { actor } : {}) },
          order: [['id', 'desc']],
          keep: (row) =>
            maySee(row.folder ?? INSTANCE) && (folder === undefined || contains(folder, row.folder ?? INSTANCE)),
          ...paging,
        })
      },
    }),
  }),
})
