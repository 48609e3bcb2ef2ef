// Installs, upgrades and removes packages: checks everything, stages the files, commits the rows and moves the files.
import { join } from 'node:path'
import type { z } from 'zod'
import { groups } from '../../core/groups/groups.ts'
import { updateSkillCopies } from '../../core/groups/package-skills.ts'
import { openHome } from '../../core/groups/workspace-home.ts'
import type { Layout } from '../../core/layout.ts'
import { findChangedRows, findRowConflicts, NO_ROWS, readRecordedRows } from '../../core/packages/package-rows.ts'
import type { OpenHost } from '../../daemons/process/host.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { NamedVerb } from '../../registry/resource.ts'
import { installedPackagesResource } from '../../resources/installed-packages.ts'
import { listValidFragments } from '../valid-fragments.ts'
import {
  compareFile,
  discardChange,
  findJournals,
  hashesOf,
  isPathTaken,
  moveFiles,
  type PackageJournal,
  type PackageState,
  stageChange,
} from './package-journal.ts'
import { assetHashes, type Package } from './package-manifest.ts'

const { table, verbs } = installedPackagesResource

export type InstalledPackageRow = z.output<typeof table.row>

export interface PackageInstance {
  readonly layout: Layout
  readonly host: OpenHost
  /** Calls a verb as the operator. */
  call<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: z.input<I>): Promise<O>
}

export function findInstalled(
  { host }: Pick<PackageInstance, 'host'>,
  name: string,
): Promise<InstalledPackageRow | undefined> {
  return host.engine.read((tx) => table.find(tx, { folder: '', name }))
}

export async function mustFindInstalled(instance: PackageInstance, name: string): Promise<InstalledPackageRow> {
  return (await findInstalled(instance, name)) ?? refuse('not_found', `the package ${name} is not installed`)
}

function stateOf(row: InstalledPackageRow | undefined): PackageState | undefined {
  return row && { revision: row.revision, hashes: row.asset_hashes ?? {} }
}

/** Files and rows of an installed package that were changed or removed since. */
export async function findDirtyParts(instance: PackageInstance, row: InstalledPackageRow): Promise<string[]> {
  const dirty: string[] = []
  for (const [path, recorded] of Object.entries(row.asset_hashes ?? {})) {
    const state = await compareFile(join(instance.layout.root, path), recorded)
    if (state !== 'same') dirty.push(`${path} was ${state === 'missing' ? 'removed' : 'changed'}`)
  }
  const rows = await instance.host.engine.read((tx) => findChangedRows(tx, row.name, readRecordedRows(row.manifest)))
  return [...dirty, ...rows]
}

/** What would be overwritten or taken over. Nothing may be written if there is any. */
export async function findConflicts(
  instance: PackageInstance,
  added: Package,
  installed?: InstalledPackageRow,
): Promise<string[]> {
  const { name, rows: after } = added
  const before = installed ? readRecordedRows(installed.manifest) : NO_ROWS
  const rowConflicts = await instance.host.engine.read((tx) => findRowConflicts(tx, { name, before, after }))
  return [
    ...(await findFileConflicts(instance.layout, added, installed)),
    ...(await findServiceConflicts(instance.layout, added)),
    ...rowConflicts,
  ]
}

/** A skill or a directory of files is taken over as a whole or not at all. */
async function findFileConflicts(
  { root }: Layout,
  { assets }: Package,
  installed?: InstalledPackageRow,
): Promise<string[]> {
  const unitOf = (path: string): string => path.split('/').slice(0, 2).join('/')
  const own = new Set(Object.keys(installed?.asset_hashes ?? {}).map(unitOf))
  const units = new Set([...assets.keys()].map(unitOf))
  const conflicts: string[] = []
  for (const unit of units)
    if (!own.has(unit) && (await isPathTaken(join(root, unit)))) conflicts.push(`${unit} already exists`)
  return conflicts
}

async function findServiceConflicts(layout: Layout, { name, fragment }: Package): Promise<string[]> {
  if (!fragment) return []
  const others = (await listValidFragments(layout.services)).filter((other) => other.name !== name)
  return [...fragment.services.keys()].flatMap((service) =>
    others
      .filter(({ services }) => services.has(service))
      .map((other) => `${other.name} already has a service ${service}`),
  )
}

/** Also upgrades. Returns notes about files that it left alone. */
export async function applyPackage(
  instance: PackageInstance,
  added: Package,
  { installed, force }: { readonly installed?: InstalledPackageRow | undefined; readonly force: boolean },
): Promise<string[]> {
  const { name, source, revision, rows, fragment, skills, settings, assets } = added
  const hashes = assetHashes(added)
  const journal = { name, before: stateOf(installed), after: { revision, hashes }, force }
  await stageChange(instance.layout, journal, assets)
  return completeChange(instance, journal, async () => {
    await instance.call(verbs.install, {
      ...{ name, source, revision, force, ...(installed ? { replaces: installed.revision } : {}) },
      ...{ proxyd_routes: [...rows.proxyd_routes], acl: [...rows.acl] },
      services: [...(fragment?.services.keys() ?? [])],
      hosts: [...(fragment?.hosts ?? [])],
      skills: [...skills],
      settings: settings.map(({ key }) => key),
      asset_hashes: hashes,
    })
    return []
  })
}

/** Returns notes about what it kept, because it was changed since. */
export async function removePackage(
  instance: PackageInstance,
  installed: InstalledPackageRow,
  { force }: { readonly force: boolean },
): Promise<string[]> {
  const { name, revision } = installed
  const journal = { name, before: stateOf(installed), force }
  await stageChange(instance.layout, journal, new Map())
  return completeChange(instance, journal, async () => {
    const { kept } = await instance.call(verbs.remove, { name, revision, force })
    return kept.map((label) => `kept ${label}: it was changed since`)
  })
}

async function completeChange(
  instance: PackageInstance,
  journal: PackageJournal,
  commit: () => Promise<string[]>,
): Promise<string[]> {
  let notes: string[]
  try {
    notes = await commit()
  } catch (error) {
    // The outcome of the commit may be unknown, so the record decides.
    if (!(await isCommitted(instance, journal))) await discardChange(instance.layout, journal.name)
    throw error
  }
  try {
    return [...notes, ...(await finishChange(instance, journal))]
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new Refusal(
      error.code,
      `the rows of ${journal.name} are written, but not all of its files: ${error.message}`,
      'remove the cause; the next svc packages command completes it',
    )
  }
}

async function finishChange(instance: PackageInstance, journal: PackageJournal): Promise<string[]> {
  const kept = await moveFiles(instance.layout, journal)
  const notes = kept.map((path) => `kept ${path}: it was changed since`)
  notes.push(...(await updateWorkspaces(instance, journal)))
  await discardChange(instance.layout, journal.name)
  return notes
}

async function updateWorkspaces({ host, layout }: PackageInstance, journal: PackageJournal): Promise<string[]> {
  const change = { name: journal.name, before: hashesOf(journal.before), after: hashesOf(journal.after) }
  const notes: string[] = []
  for (const { folder } of await host.engine.read((tx) => groups.list(tx))) {
    try {
      await using home = await openHome(layout, folder)
      const kept = home ? await updateSkillCopies(layout, home, change) : []
      notes.push(...kept.map((path) => `kept ${path} of ${folder}: it is the agent's own or was changed by it`))
    } catch (error) {
      // One workspace that an agent has broken does not stop the others.
      if (!(error instanceof Refusal) || error.code !== 'conflict') throw error
      notes.push(`skipped the workspace of ${folder}: ${error.message}`)
    }
  }
  return notes
}

async function isCommitted(instance: PackageInstance, { name, after }: PackageJournal): Promise<boolean> {
  const row = await findInstalled(instance, name)
  if (!after || !row) return !after && !row
  return row.revision === after.revision && isSameRecord(row.asset_hashes ?? {}, after.hashes)
}

function isSameRecord(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  return Object.keys(a).length === Object.keys(b).length && Object.entries(a).every(([key, value]) => b[key] === value)
}

/** Completes or undoes changes that were interrupted. Returns what it did. */
export async function recoverPackages(instance: PackageInstance): Promise<string[]> {
  const done: string[] = []
  for (const journal of await findJournals(instance.layout)) {
    const { name, before, after } = journal
    const change = `the ${after ? (before ? 'upgrade' : 'install') : 'removal'} of ${name}`
    if (await isCommitted(instance, journal)) {
      const notes = await finishChange(instance, journal)
      done.push(`completed ${change}, which was interrupted`, ...notes)
    } else {
      await discardChange(instance.layout, name)
      done.push(`undid ${change}, which was interrupted`)
    }
  }
  return done
}
