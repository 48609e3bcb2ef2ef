// Makes the store equal to a manifest, or says what would change.
import { readBytes } from '../../lib/atomic-file.ts'
import { command, type Svc } from '../command.ts'
import { cell } from '../print.ts'
import { stdinBytes } from '../stdin.ts'

/** The exit code where the manifest is of another version than the store (decision E6). */
const MISMATCH = 2

export const applyCommands = [
  command({
    usage: 'apply <instance> <file> [--force|-f] [--dry-run]',
    about:
      'make each resource that <file> (- is stdin) names equal to it; --force whatever its config_version, --dry-run only says what would change',
    example: 'apply demo config.yaml --dry-run',
    run: (svc, { instance, file, force, dryRun }) => apply(svc, { instance, file, force, dry_run: dryRun }),
  }),
]

interface Applying {
  readonly instance: string
  readonly file: string
  readonly force: boolean
  readonly dry_run: boolean
}

async function apply({ call, io, print }: Svc, { instance, file, force, dry_run }: Applying): Promise<number> {
  const [{ manifestVerbs }, { MANIFEST_MAX_BYTES }, { resources }] = await Promise.all([
    import('../../faces/yaml.ts'),
    import('../../faces/yaml-decode.ts'),
    import('../../resources/index.ts'),
  ])
  const manifest = await (file === '-' ? stdinBytes(io.stdin, MANIFEST_MAX_BYTES) : readBytes(file, MANIFEST_MAX_BYTES))
  const outcome = await call(manifestVerbs(resources).apply, { source: file, manifest, force, dry_run })
  if (outcome.kind === 'mismatch') {
    print.say(`svc: config_version mismatch: the manifest has ${outcome.manifest}, the store ${outcome.store}`)
    print.say(`hint: svc export ${instance} again and apply what you changed, or use --force`)
    return MISMATCH
  }
  for (const warning of outcome.warnings) print.warn(warning)
  const lines = outcome.plan.flatMap(({ resource, added, changed, removed }) => [
    ...added.map((key) => `+ ${resource} ${key}`),
    ...changed.map((key) => `~ ${resource} ${key}`),
    ...removed.map((key) => `- ${resource} ${key}`),
  ])
  for (const line of lines.length > 0 ? lines : ['no changes']) print.line(cell(line))
  const verb = outcome.kind === 'applied' ? 'applied' : 'would apply'
  print.line(`${verb} ${file}; config_version: ${outcome.from} -> ${outcome.to}`)
  return 0
}
