// Installs, upgrades and removes packages: services, routes, grants and skills from a directory, a git repository or the
// catalog that ships with svc.
import type { InstalledPackageRow, PackageInstance } from '../../deploy/packages/package-change.ts'
import type { Package } from '../../deploy/packages/package-manifest.ts'
import type { PackageSource } from '../../deploy/packages/package-source.ts'
import { cell } from '../../lib/command-line/print.ts'
import { refuse } from '../../lib/refusal.ts'
import { installedPackagesResource } from '../../resources/installed-packages.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { openProgress } from '../output/progress.ts'

export const packagesCommands = [
  defineSvcCommand({
    usage: 'packages <instance> list [--json]',
    about: 'list installed packages, and those that ship with svc',
    example: 'packages demo list',
    run: list,
  }),
  defineSvcCommand({
    usage: 'packages <instance> add <name> [--yes|-y] [--dry-run]',
    about: 'install a package that ships with svc; shows what it will write and asks, unless --yes',
    example: 'packages demo add litellm',
    run: async (svc, { instance, name, ...flags }) => {
      const { bundledSource } = await import('../../deploy/packages/package-source.ts')
      await install(svc, { instance, source: bundledSource(name), ...flags })
    },
  }),
  defineSvcCommand({
    usage: 'packages <instance> install <source> [--yes|-y] [--dry-run]',
    about:
      'install a package from a directory or a git URL (git+https://…, https://….git, ssh://…, git@…, file://…; #<branch, tag or commit>)',
    example: 'packages demo install ./my-package --dry-run',
    run: async (svc, { instance, source, ...flags }) => {
      const { parsePackageSource } = await import('../../deploy/packages/package-source.ts')
      await install(svc, { instance, source: parsePackageSource(source), ...flags })
    },
  }),
  defineSvcCommand({
    usage: 'packages <instance> upgrade <name> [--force|-f] [--yes|-y] [--dry-run]',
    about:
      'replace a package by the current state of its source; refused if its files or rows were changed since, unless --force',
    example: 'packages demo upgrade litellm',
    run: upgrade,
  }),
  defineSvcCommand({
    usage: 'packages <instance> remove <name> [--force|-f] [--yes|-y] [--dry-run]',
    about: 'remove everything that a package has added; what was changed since is kept, unless --force',
    example: 'packages demo remove litellm',
    run: remove,
  }),
]

interface ChangeFlags {
  readonly instance: string
  readonly yes: boolean
  readonly dryRun: boolean
}

interface ListedPackage {
  readonly name: string
  readonly state: 'installed' | 'available' | 'local'
  readonly source?: string
  readonly revision?: string
  readonly installed_at?: string
}

async function list(svc: SvcContext): Promise<void> {
  // A command on another machine sees only the records.
  if (!(await svc.isRemote())) await recoverUnlessBusy(svc)
  const rows = await svc.listAll(installedPackagesResource.verbs.list, 'installed_packages', {})
  const installed = rows.map(
    ({ name, source, revision, installed_at }): ListedPackage => ({
      name,
      state: 'installed',
      source,
      revision,
      installed_at,
    }),
  )
  const others = (await svc.isRemote()) ? [] : await listOthers(svc, new Set(installed.map(({ name }) => name)))
  svc.print.table({
    rows: [...installed, ...others],
    columns: {
      NAME: ({ name }) => name,
      STATE: ({ state }) => state,
      REVISION: ({ revision = '' }) => revision.slice(0, 12),
      SOURCE: ({ source = '' }) => source,
    },
    empty: 'no packages',
  })
}

/** Packages of the catalog, and fragments that the operator has put into services/. */
async function listOthers(svc: SvcContext, installed: ReadonlySet<string>): Promise<ListedPackage[]> {
  const [{ listBundledPackages }, { listValidFragments }] = await Promise.all([
    import('../../deploy/packages/package-source.ts'),
    import('../../deploy/valid-fragments.ts'),
  ])
  const { layout } = await svc.open()
  const bundled = (await listBundledPackages()).filter((name) => !installed.has(name))
  const local = (await listValidFragments(layout.services))
    .map(({ name }) => name)
    .filter((name) => !installed.has(name))
  return [
    ...local.map((name) => ({ name, state: 'local' as const, source: `services/${name}.yml` })),
    ...bundled.map((name) => ({ name, state: 'available' as const, source: `bundled:${name}` })),
  ]
}

/** Another command may be waiting for its operator, and a list does not need to wait for it. */
async function recoverUnlessBusy(svc: SvcContext): Promise<void> {
  const [{ tryPackageLock }, { recoverPackages }] = await Promise.all([
    import('../../deploy/packages/package-lock.ts'),
    import('../../deploy/packages/package-change.ts'),
  ])
  const { layout, host } = await svc.open()
  await using lock = await tryPackageLock(layout)
  if (!lock) return
  for (const note of await recoverPackages({ layout, host, call: svc.call })) svc.print.say(note)
}

/** Opens the instance for one command at a time, after completing changes that were interrupted. */
async function withPackages<T>(svc: SvcContext, work: (instance: PackageInstance) => Promise<T>): Promise<T> {
  await svc.mustBeLocal()
  const [{ withPackageLock }, { recoverPackages }] = await Promise.all([
    import('../../deploy/packages/package-lock.ts'),
    import('../../deploy/packages/package-change.ts'),
  ])
  const { layout, host } = await svc.open()
  const instance = { layout, host, call: svc.call }
  return withPackageLock(layout, async () => {
    for (const note of await recoverPackages(instance)) svc.print.say(note)
    return work(instance)
  })
}

async function load(svc: SvcContext, source: PackageSource): Promise<Package> {
  const [{ readPackage }, { parsePackage }] = await Promise.all([
    import('../../deploy/packages/package-source.ts'),
    import('../../deploy/packages/package-manifest.ts'),
  ])
  const progress = openProgress(svc.io.stderr)
  const onProgress = (text: string): void => progress.show(cell(text))
  return parsePackage(await readPackage(source, { onProgress }).finally(progress.end))
}

async function install(svc: SvcContext, { source, ...flags }: ChangeFlags & { source: PackageSource }): Promise<void> {
  const { instance } = flags
  await svc.mustBeLocal()
  const added = await load(svc, source)
  await withPackages(svc, async (opened) => {
    const { applyPackage, findInstalled } = await import('../../deploy/packages/package-change.ts')
    const { name } = added
    if (await findInstalled(opened, name))
      refuse('conflict', `the package ${name} is already installed`, `svc packages ${instance} upgrade ${name}`)
    await mustNotConflict(opened, added)
    if (!(await isConfirmed(svc, flags, { verb: 'install', added }))) return
    const notes = await applyPackage(opened, added, { force: false })
    svc.print.line(`installed ${name} at revision ${added.revision}`)
    showEnd(svc, instance, { notes, hasServices: added.fragment !== undefined })
  })
}

async function upgrade(svc: SvcContext, typed: ChangeFlags & { name: string; force: boolean }): Promise<void> {
  const { instance, name, force } = typed
  await svc.mustBeLocal()
  const { parsePackageSource } = await import('../../deploy/packages/package-source.ts')
  await withPackages(svc, async (opened) => {
    const { applyPackage, findDirtyParts, mustFindInstalled } = await import('../../deploy/packages/package-change.ts')
    const installed = await mustFindInstalled(opened, name)
    const dirty = await findDirtyParts(opened, installed)
    if (dirty.length > 0 && !force)
      refuse(
        'conflict',
        `${name} was changed since it was installed: ${dirty.join('; ')}`,
        `--force replaces these; svc packages ${instance} remove ${name} keeps them`,
      )
    const added = await load(svc, parsePackageSource(installed.source))
    if (added.name !== name)
      refuse('conflict', `${installed.source} now contains the package ${added.name}, not ${name}`)
    if (added.revision === installed.revision && dirty.length === 0)
      return svc.print.line(`${name} is up to date, at revision ${added.revision}; nothing changed`)
    await mustNotConflict(opened, added, installed)
    for (const part of dirty) svc.print.say(`--force replaces it: ${cell(part)}`)
    if (!(await isConfirmed(svc, typed, { verb: 'upgrade', added, installed }))) return
    const notes = await applyPackage(opened, added, { installed, force })
    svc.print.line(`upgraded ${name} from revision ${installed.revision} to ${added.revision}`)
    showEnd(svc, instance, { notes, hasServices: added.fragment !== undefined })
  })
}

async function remove(svc: SvcContext, typed: ChangeFlags & { name: string; force: boolean }): Promise<void> {
  const { instance, name, force } = typed
  await withPackages(svc, async (opened) => {
    const { findDirtyParts, mustFindInstalled, removePackage } = await import('../../deploy/packages/package-change.ts')
    const installed = await mustFindInstalled(opened, name)
    const dirty = await findDirtyParts(opened, installed)
    const changed = dirty.flatMap((part) => /^(.*) was changed$/.exec(part)?.[1] ?? [])
    for (const part of changed)
      svc.print.warn(`${cell(part)} was changed since it was installed: ${force ? 'it will be removed' : 'it is kept'}`)
    if (!(await isConfirmed(svc, typed, { verb: 'remove', installed, kept: force ? [] : changed }))) return
    const notes = await removePackage(opened, installed, { force })
    svc.print.line(`removed ${name}`)
    showEnd(svc, instance, { notes, hasServices: (installed.manifest?.services ?? []).length > 0 })
  })
}

async function mustNotConflict(
  opened: PackageInstance,
  added: Package,
  installed?: InstalledPackageRow,
): Promise<void> {
  const { findConflicts } = await import('../../deploy/packages/package-change.ts')
  const conflicts = await findConflicts(opened, added, installed)
  if (conflicts.length > 0)
    refuse('conflict', `${added.name}: ${conflicts.join('; ')}`, 'remove what exists first; nothing was changed')
}

interface ShownChange {
  readonly verb: 'install' | 'upgrade' | 'remove'
  readonly added?: Package
  readonly installed?: InstalledPackageRow
  /** Files and rows that a removal leaves. */
  readonly kept?: readonly string[]
}

/** Shows everything that the change writes. False for a dry run; refuses unless the operator agrees. */
async function isConfirmed(svc: SvcContext, { yes, dryRun }: ChangeFlags, change: ShownChange): Promise<boolean> {
  const { io, print } = svc
  const { verb, added, installed, kept = [] } = change
  const { neededSettings, planChange } = await import('../../deploy/packages/package-plan.ts')
  const name = added?.name ?? installed?.name ?? ''
  if (added) print.line(cell(`${name}: ${added.about}`))
  print.line(
    cell(
      `source ${added?.source ?? installed?.source ?? ''}, revision ${added?.revision ?? installed?.revision ?? ''}`,
    ),
  )
  const isKept = (text: string): boolean => kept.some((part) => `${text} `.replace(/^file /, '').startsWith(`${part} `))
  for (const { mark, text } of planChange(added, installed)) if (!isKept(text)) print.line(cell(`${mark} ${text}`))
  const { sources, layout } = await svc.open()
  for (const { key, required, isSet, hint } of added ? neededSettings(added, sources) : []) {
    const state = isSet ? 'set' : required ? `required in ${layout.env}` : 'optional'
    print.line(cell(`  setting ${key} (${state}): ${hint}`))
  }
  if (dryRun) {
    print.say('dry run: nothing was changed')
    return false
  }
  if (yes) return true
  if (!io.prompt) refuse('invalid', `${verb} needs confirmation, but stdin is not a terminal`, 'add --yes to confirm')
  const answer = await io.prompt(`${verb} ${name}? [y/N]`)
  if (!/^y(es)?$/i.test(answer.trim())) refuse('invalid', 'stopped: nothing was changed')
  return true
}

function showEnd(
  { print }: SvcContext,
  instance: string,
  { notes, hasServices }: { readonly notes: readonly string[]; readonly hasServices: boolean },
): void {
  for (const note of notes) print.warn(cell(note))
  if (hasServices)
    print.say(`next: svc generate ${instance} writes the services, then svc run ${instance} applies them`)
}
