// Packages installed for the instance or for a folder, with their source. Read-only.
import { z } from 'zod'
import { FolderOrRoot, line, Timestamp } from '../core/values.ts'
import { INSTANCE_SCOPE, readableFolderFilter, requireToolForAgents } from '../registry/authorization.ts'
import { ascending, listVerb } from '../registry/crud.ts'
import { defineResource } from '../registry/resource.ts'
import { Table } from '../store/table.ts'

const InstalledPackage = z
  .object({
    folder: FolderOrRoot.describe('Empty: the whole instance'),
    name: line(64),
    source: line(1024),
    revision: line(256),
    installed_at: Timestamp.meta({ readOnly: true }),
    manifest: z.record(z.string(), z.array(z.string())).optional(),
    asset_hashes: z.record(z.string(), z.string()).optional(),
  })
  .meta({ id: 'InstalledPackages' })

const installedPackages = new Table({
  name: 'installed_packages',
  row: InstalledPackage,
  key: ['folder', 'name'],
  storage: [
    `create table installed_packages (
       folder text not null, name text not null, source text not null, revision text not null,
       installed_at text not null, manifest text, asset_hashes text, primary key (folder, name))`,
  ],
})

export const installedPackagesResource = defineResource({
  of: installedPackages,
  title: 'InstalledPackages',
  servedBy: 'routd',
  verbs: (table) => ({
    list: listVerb(table, 'installed_packages', {
      authorize: requireToolForAgents,
      order: ascending('folder', 'name'),
      keep: async (ctx) => {
        const maySee = await readableFolderFilter(ctx)
        return ({ folder }) => maySee(folder || INSTANCE_SCOPE)
      },
      when: 'See which packages are installed and where they came from.',
    }),
  }),
})
