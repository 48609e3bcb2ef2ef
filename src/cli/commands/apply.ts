// Applies a manifest to the store, or prints what would change.
import type { GroupEffect } from '../../faces/manifest/group-effects.ts'
import type { ApplyResult } from '../../faces/manifest/manifest-verbs.ts'
import { cell } from '../../lib/command-line/print.ts'
import { readFileBytes } from '../../lib/files/atomic-file.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { readStdinBytes } from '../input/stdin.ts'

/** See docs/decisions.md#exit-codes. */
const EXIT_VERSION_MISMATCH = 2

export const applyCommands = [
  defineSvcCommand({
    usage: 'apply <instance> <file> [--force|-f] [--dry-run]',
    about:
      'make each resource named in <file> (- for stdin) equal to it, removing rows that are not listed; --force ignores config_version, --dry-run only prints the changes',
    example: 'apply demo config.yaml --dry-run',
    run: apply,
  }),
]

interface ApplyArguments {
  readonly instance: string
  readonly file: string
  readonly force: boolean
  readonly dryRun: boolean
}

async function apply(svc: SvcContext, { instance, file, force, dryRun }: ApplyArguments): Promise<number> {
  const { call, io, print, showCommands } = svc
  const [{ manifestVerbs }, { MANIFEST_MAX_BYTES }, { resources }] = await Promise.all([
    import('../../faces/manifest/manifest-verbs.ts'),
    import('../../faces/manifest/decoder.ts'),
    import('../../resources/index.ts'),
  ])
  const manifest = await (file === '-'
    ? readStdinBytes(io.stdin, MANIFEST_MAX_BYTES)
    : readFileBytes(file, MANIFEST_MAX_BYTES))
  const outcome = await call(manifestVerbs(resources).apply, { source: file, manifest, force, dry_run: dryRun })
  if (outcome.kind === 'mismatch') {
    print.say(`svc: config_version mismatch: the manifest has ${outcome.manifest}, the store ${outcome.store}`)
    print.say(
      `hint: every apply raises it by one; svc export ${instance} writes a manifest with the current one, --force skips this check`,
    )
    return EXIT_VERSION_MISMATCH
  }
  for (const warning of outcome.warnings) print.warn(warning)
  const lines = outcome.plan.flatMap(({ resource, added, changed, removed }) => [
    ...added.map((key) => `+ ${resource} ${key}`),
    ...changed.flatMap((key) => [`~ ${resource} ${key}`, ...valueLines(outcome, resource, key)]),
    ...removed.map((key) => `- ${resource} ${key}`),
  ])
  for (const line of lines) print.line(cell(line))
  for (const effect of outcome.effects) {
    for (const line of effectLines(instance, effect)) print.line(cell(showCommands(line)))
    const { folder, without_group: rows } = effect
    if (rows !== undefined)
      print.warn(cell(`${folder} is not a group: ${rows}; svc group ${instance} rm ${folder} --purge deletes them`))
  }
  const verb = outcome.kind === 'applied' ? 'applied' : 'would apply'
  const nothing = outcome.kind === 'applied' ? 'nothing changed but ' : 'nothing would change but '
  const version = `config_version: ${outcome.from} -> ${outcome.to}`
  print.line(`${verb} ${file}; ${lines.length > 0 ? '' : nothing}${version}`)
  if (outcome.kind === 'applied' && outcome.plan.some(({ resource }) => resource === 'groups')) await setUpFolders(svc)
  return 0
}

/** The values of a changed row before and after; only a dry run has them. */
function valueLines(outcome: ApplyResult, resource: string, key: string): string[] {
  if (outcome.kind !== 'planned') return []
  const row = outcome.rows.find((each) => each.resource === resource && each.key === key)
  return (row?.fields ?? []).map(({ name, before = '-', after = '-' }) => `    ${name}: ${before} -> ${after}`)
}

function* effectLines(instance: string, { folder, ends, stays, inherits }: GroupEffect): Generator<string> {
  const purge = `svc group ${instance} rm ${folder} --purge`
  if (ends !== undefined) yield `  group ${folder}: deleted with it: ${ends}`
  if (stays !== undefined) yield `  group ${folder}: kept: ${stays}; ${purge} deletes them`
  if (inherits !== undefined)
    yield `  group ${folder}: inherited from a deleted group: ${inherits}; ${purge} before apply deletes them`
}

async function setUpFolders(svc: SvcContext): Promise<void> {
  const [{ setUpMissingFolders }, { groupsResource }] = await Promise.all([
    import('../../core/groups/products.ts'),
    import('../../resources/groups.ts'),
  ])
  const { layout } = await svc.open()
  const groups = await svc.listAll(groupsResource.verbs.list, 'groups', {})
  for (const folder of await setUpMissingFolders(layout, groups)) svc.print.say(`created the directory of ${folder}`)
}
