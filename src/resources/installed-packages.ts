// Packages installed for the instance or for a folder, with their source. REST and tools only list them; `svc packages`
// installs and removes them, and puts their files in place.
import { z } from 'zod'
import {
  describeGrant,
  findChangedRows,
  findRowConflicts,
  NO_ROWS,
  PackageGrant,
  PackageName,
  PackageRoute,
  readRecordedRows,
  recordRows,
  removePackageRows,
  replacePackageRows,
} from '../core/packages/package-rows.ts'
import { FolderOrRoot, line, SecretKey, Timestamp } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import {
  INSTANCE_SCOPE,
  readableFolderFilter,
  requireToolForAgents,
  requireUnrestrictedOperator,
} from '../registry/authorization.ts'
import { ascending, listVerb } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'
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

const ROWS_MAX = 100
const names = z.array(line(255)).max(ROWS_MAX).default([])

const Install = z.object({
  name: PackageName,
  source: InstalledPackage.shape.source,
  revision: InstalledPackage.shape.revision,
  replaces: line(256).optional().describe('The installed revision, which this one replaces'),
  force: z.boolean().default(false).describe('Also replace rows that were changed since'),
  proxyd_routes: z.array(PackageRoute).max(ROWS_MAX).default([]),
  acl: z.array(PackageGrant).max(ROWS_MAX).default([]),
  services: names,
  hosts: names,
  skills: names,
  settings: z.array(SecretKey).max(ROWS_MAX).default([]),
  asset_hashes: z.record(z.string(), z.string()).default({}),
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

    /** Writes the rows of a package and its record. The files follow after the commit. */
    install: defineVerb({
      input: Install,
      authorize: requireUnrestrictedOperator,
      auditInput: ({ name, source, revision, proxyd_routes, acl }) => ({
        folder: '',
        name,
        source,
        revision,
        proxyd_routes: proxydPaths(proxyd_routes),
        acl: acl.map(describeGrant),
      }),
      run: async ({ tx, now }, input) => {
        const { name, source, revision, replaces, force, proxyd_routes, acl, asset_hashes, ...lists } = input
        const { services, hosts, skills, settings } = lists
        const installed = await table.find(tx, { folder: '', name })
        if (installed?.revision !== replaces) refuseState(name, installed?.revision)
        const before = installed ? readRecordedRows(installed.manifest) : NO_ROWS
        const change = { name, before, after: { proxyd_routes, acl } }
        const changed = force ? [] : await findChangedRows(tx, name, before)
        const faults = [
          ...changed.map((fault) => `${fault} since it was installed`),
          ...(await findRowConflicts(tx, change)),
        ]
        if (faults.length > 0) refuse('conflict', `${name}: ${faults.join('; ')}`)
        await replacePackageRows(tx, change, now)
        const manifest = { services, hosts, skills, settings, ...recordRows(change.after) }
        await table.upsert(tx, { folder: '', name, source, revision, installed_at: now, manifest, asset_hashes })
      },
    }),

    /** Removes the rows of a package and its record. The files follow after the commit. */
    remove: defineVerb({
      input: z.object({
        name: PackageName,
        revision: InstalledPackage.shape.revision.describe('The installed revision'),
        force: z.boolean().default(false).describe('Also remove rows that were changed since'),
      }),
      output: z.object({ kept: z.array(z.string()).describe('Rows that were changed since') }),
      authorize: requireUnrestrictedOperator,
      auditInput: ({ name, revision, force }) => ({ folder: '', name, revision, force }),
      run: async ({ tx }, { name, revision, force }) => {
        const installed = await table.find(tx, { folder: '', name })
        if (!installed) return refuse('not_found', `the package ${name} is not installed`)
        if (installed.revision !== revision) refuseState(name, installed.revision)
        const rows = readRecordedRows(installed.manifest)
        const kept = await removePackageRows(tx, name, { rows, isForced: force })
        await table.remove(tx, { folder: '', name })
        return { kept }
      },
    }),
  }),
})

function proxydPaths(routes: readonly { readonly path: string }[]): string[] {
  return routes.map(({ path }) => path)
}

function refuseState(name: string, revision: string | undefined): never {
  if (revision === undefined) refuse('conflict', `the package ${name} is not installed any more`)
  refuse('conflict', `the package ${name} is already installed, at revision ${revision}`)
}
