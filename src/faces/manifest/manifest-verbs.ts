// The store's configuration as one YAML document, out and in again. Derives from the declarations and names no resource.
import { z } from 'zod'
import { bumpConfigVersion, readConfigVersion } from '../../core/config-version.ts'
import { Bytes, line } from '../../core/values.ts'
import { requireHost } from '../../registry/authorization.ts'
import type { Context } from '../../registry/context.ts'
import { defineVerb, type NamedVerb, type Resource, type Verb } from '../../registry/resource.ts'
import { planChanges, writeChanges } from './change-plan.ts'
import { GroupEffect, groupEffects } from './group-effects.ts'
import { type ManifestResource, manifestResources } from './manifest-resource.ts'
import { operatorWarnings } from './operator-warnings.ts'
import { type Manifest, readManifest } from './validator.ts'
import { writeManifest } from './yaml-writer.ts'

/** Hex digits of a manifest's digest in the audit log. */
const FINGERPRINT_LENGTH = 16

const ResourcePlan = z.object({
  resource: z.string(),
  added: z.array(z.string()),
  changed: z.array(z.string()),
  removed: z.array(z.string()),
})

const outcomeFields = {
  from: z.int().describe('The config_version before'),
  to: z.int().describe('The config_version after'),
  plan: z.array(ResourcePlan).describe('For each resource that the manifest names, the keys of what changes'),
  effects: z.array(GroupEffect).describe('What adding and removing groups does to rows of other resources'),
  warnings: z.array(z.string()),
}

export const ApplyResult = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('applied'), ...outcomeFields }),
  z.object({ kind: z.literal('planned'), ...outcomeFields }),
  z.object({ kind: z.literal('mismatch'), manifest: z.int(), store: z.int() }),
])
export type ApplyResult = z.output<typeof ApplyResult>

/** Called like any other verb; on the command line alone. */
export function manifestVerbs(resources: readonly Resource[]) {
  const shapes = manifestResources(resources)
  const vocabulary = { shapes, known: resources.map(({ name }) => name) }
  const Apply = z.strictObject({
    source: line(4096).default('-').describe('What the manifest is called in the audit log'),
    // Read while no transaction is open: a large one takes the parser seconds.
    manifest: z
      .union([z.string(), Bytes])
      .transform((given) => readManifest(given, vocabulary))
      .meta({ writeOnly: true }),
    force: z.boolean().default(false).describe('Whatever config_version the manifest names'),
    dry_run: z.boolean().default(false).describe('Only say what would change'),
  })
  return {
    export: configVerb(
      'export',
      defineVerb({
        isReadOnly: true,
        input: z.strictObject({}),
        output: z.string(),
        authorize: requireHost,
        run: ({ tx }) => writeManifest(tx, shapes),
      }),
    ),
    apply: configVerb(
      'apply',
      defineVerb({
        input: Apply,
        output: ApplyResult,
        authorize: requireHost,
        auditInput: ({ source, manifest, force }, reply) => auditOf({ source, manifest, force }, reply),
        run: (ctx, input) => apply(ctx, input, shapes),
      }),
    ),
  }
}

function configVerb<I extends z.ZodObject, O>(name: string, declared: Verb<I, O>): NamedVerb<I, O> {
  const id = `config.${name}`
  return { ...declared, id, resource: 'config', verb: name, key: ['source'], toolName: id }
}

interface ApplyInput {
  readonly manifest: Manifest
  readonly force: boolean
  readonly dry_run: boolean
}

/** All in the caller's one transaction: the version that was compared and the plan that is told are those of the write. */
async function apply(
  ctx: Context,
  { manifest, force, dry_run }: ApplyInput,
  shapes: readonly ManifestResource[],
): Promise<ApplyResult> {
  const from = await readConfigVersion(ctx.tx)
  if (manifest.version !== from && !force) return { kind: 'mismatch', manifest: manifest.version, store: from }
  const changes = await planChanges(ctx, manifest, shapes)
  const outcome = {
    from,
    to: from + 1,
    plan: changes.map(({ plan }) => plan),
    effects: await groupEffects(ctx.tx, changes),
    warnings: operatorWarnings((table) => changes.find(({ shape }) => shape.name === table)),
  }
  if (dry_run) return { kind: 'planned', ...outcome }
  await writeChanges(ctx.tx, changes)
  await bumpConfigVersion(ctx.tx)
  return { kind: 'applied', ...outcome }
}

/** Counts and a fingerprint: whoever keeps the file can tell which one it was. */
function auditOf(given: { source: string; manifest: Manifest; force: boolean }, reply: ApplyResult) {
  if (reply.kind !== 'applied') return undefined
  const { source, manifest, force } = given
  const counts = reply.plan.map(({ resource, added, changed, removed }) => [
    resource,
    `+${added.length} ~${changed.length} -${removed.length}`,
  ])
  // Enough to compare with what sha256sum prints; the whole has the shape of a secret and would be redacted.
  const sha256 = manifest.sha256.slice(0, FINGERPRINT_LENGTH)
  // The name last: it can be long, and a summary is cut at its end.
  return { sha256, version: `${reply.from} -> ${reply.to}`, force, ...Object.fromEntries(counts), source }
}
