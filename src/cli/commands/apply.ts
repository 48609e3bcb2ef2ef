// Makes the store equal to a manifest, or says what would change.
import { existsSync } from 'node:fs'
import { groupDirs } from '../../core/layout.ts'
import type { GroupEffect } from '../../faces/manifest/group-effects.ts'
import { cell } from '../../lib/command-line/print.ts'
import { readFileBytes } from '../../lib/files/atomic-file.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { readStdinBytes } from '../input/stdin.ts'

/** The exit code where the manifest is of another version than the store (decision E6). */
const MISMATCH = 2

export const applyCommands = [
  defineSvcCommand({
    usage: 'apply <instance> <file> [--force|-f] [--dry-run]',
    about:
      'make each resource that <file> (- is stdin) names equal to it, removing rows that it does not list; --force whatever its config_version, --dry-run only says what would change',
    example: 'apply demo config.yaml --dry-run',
    run: (svc, { instance, file, force, dryRun }) => apply(svc, { instance, file, force, dry_run: dryRun }),
  }),
]

interface ApplyArguments {
  readonly instance: string
  readonly file: string
  readonly force: boolean
  readonly dry_run: boolean
}

async function apply(svc: SvcContext, { instance, file, force, dry_run }: ApplyArguments): Promise<number> {
  const { call, io, print } = svc
  const [{ manifestVerbs }, { MANIFEST_MAX_BYTES }, { resources }] = await Promise.all([
    import('../../faces/manifest/manifest-verbs.ts'),
    import('../../faces/manifest/decoder.ts'),
    import('../../resources/index.ts'),
  ])
  const manifest = await (file === '-'
    ? readStdinBytes(io.stdin, MANIFEST_MAX_BYTES)
    : readFileBytes(file, MANIFEST_MAX_BYTES))
  const outcome = await call(manifestVerbs(resources).apply, { source: file, manifest, force, dry_run })
  if (outcome.kind === 'mismatch') {
    print.say(`svc: config_version mismatch: the manifest has ${outcome.manifest}, the store ${outcome.store}`)
    print.say(
      `hint: every apply raises it by one; svc export ${instance} writes a manifest with the current one, --force skips this check`,
    )
    return MISMATCH
  }
  for (const warning of outcome.warnings) print.warn(warning)
  const lines = outcome.plan.flatMap(({ resource, added, changed, removed }) => [
    ...added.map((key) => `+ ${resource} ${key}`),
    ...changed.map((key) => `~ ${resource} ${key}`),
    ...removed.map((key) => `- ${resource} ${key}`),
  ])
  for (const line of lines) print.line(cell(line))
  for (const effect of outcome.effects) for (const line of effectLines(instance, effect)) print.line(cell(line))
  const verb = outcome.kind === 'applied' ? 'applied' : 'would apply'
  const nothing = outcome.kind === 'applied' ? 'nothing changed but ' : 'nothing would change but '
  const version = `config_version: ${outcome.from} -> ${outcome.to}`
  print.line(`${verb} ${file}; ${lines.length > 0 ? '' : nothing}${version}`)
  if (outcome.kind === 'applied' && outcome.plan.some(({ resource }) => resource === 'groups')) await setUpFolders(svc)
  return 0
}

function* effectLines(instance: string, { folder, ends, stays, inherits }: GroupEffect): Generator<string> {
  const purge = `svc group ${instance} rm ${folder} --purge`
  if (ends !== undefined) yield `  with group ${folder} end: ${ends}`
  if (stays !== undefined) yield `  of group ${folder} stay: ${stays}; ${purge} removes them`
  if (inherits !== undefined)
    yield `  group ${folder} takes over from an earlier one: ${inherits}; ${purge} before apply removes them`
}

/** A manifest makes rows; the folders of new groups follow, and those that are there stay as they are. */
async function setUpFolders(svc: SvcContext): Promise<void> {
  const [{ bundledProducts, findProduct, setUpFolder }, { groupsResource }] = await Promise.all([
    import('../../core/groups/products.ts'),
    import('../../resources/groups.ts'),
  ])
  const { layout } = await svc.open()
  for (const { folder, product } of await svc.listAll(groupsResource.verbs.list, 'groups', {})) {
    if (existsSync(groupDirs(layout, folder).home)) continue
    await setUpFolder(layout, folder, await findProduct(bundledProducts, product))
    svc.print.say(`set up the folder of ${folder}`)
  }
}
