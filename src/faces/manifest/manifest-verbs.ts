// The verbs `config.export` and `config.apply`: the configuration in the store as one YAML manifest.
import { z } from 'zod'
import { bumpConfigVersion, readConfigVersion } from '../../core/config-version.ts'
import { Bytes, line } from '../../core/values.ts'
import { refuse } from '../../lib/refusal.ts'
import { requireOperator, requireUnrestrictedOperator } from '../../registry/authorization.ts'
import type { Context } from '../../registry/context.ts'
import { defineVerb, type NamedVerb, type Resource, type Verb } from '../../registry/resource.ts'
import { planChanges, ResourcePlan, writeChanges } from './change-plan.ts'
import { GroupEffect, groupEffects } from './group-effects.ts'
import { type ManifestResource, manifestResources } from './manifest-resource.ts'
import { operatorWarnings } from './operator-warnings.ts'
import { describePlannedRows, PlannedRow, planFingerprint } from './planned-rows.ts'
import { type Manifest, readManifest } from './validator.ts'
import { writeManifest } from './yaml-writer.ts'

/** Hex digits of the hash in the audit log. All 64 would look like a secret and be redacted. */
const FINGERPRINT_LENGTH = 16

const outcomeFields = {
  from: z.int().describe('The config_version before'),
  to: z.int().describe('The config_version after'),
  plan: z.array(ResourcePlan).describe('For each resource in the manifest, the keys of the rows that change'),
  effects: z.array(GroupEffect).describe('Effects of added and removed groups on rows of other resources'),
  warnings: z.array(z.string()),
}

export const ApplyResult = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('applied'), ...outcomeFields }),
  z.object({
    kind: z.literal('planned'),
    ...outcomeFields,
    rows: z.array(PlannedRow).describe('The rows of the plan with their values before and after'),
    fingerprint: z.string().describe('Identifies this plan, for `planned` of the apply that follows'),
  }),
  z.object({ kind: z.literal('mismatch'), manifest: z.int(), store: z.int() }),
])
export type ApplyResult = z.output<typeof ApplyResult>

/** For operators, on the command line and the dashboard. */
export function manifestVerbs(resources: readonly Resource[]) {
  const exported = manifestResources(resources)
  const known = { exported, names: resources.map(({ name }) => name) }
  const Apply = z.strictObject({
    source: line(4096).default('-').describe('Name of the manifest in the audit log'),
    // Parsed before the transaction, because a large manifest takes seconds.
    manifest: z
      .union([z.string(), Bytes])
      .transform((input) => readManifest(input, known))
      .meta({ writeOnly: true }),
    force: z.boolean().default(false).describe('Apply even if config_version differs'),
    dry_run: z.boolean().default(false).describe('Report the changes without making them'),
    planned: line(64).optional().describe('The fingerprint of a plan; a manifest that now has another plan is refused'),
  })
  return {
    export: configVerb(
      'export',
      defineVerb({
        isReadOnly: true,
        input: z.strictObject({}),
        output: z.string(),
        authorize: requireOperator,
        run: ({ tx }) => writeManifest(tx, exported),
      }),
    ),
    apply: configVerb(
      'apply',
      defineVerb({
        input: Apply,
        output: ApplyResult,
        authorize: requireUnrestrictedOperator,
        auditInput: auditSummary,
        run: (ctx, input) => apply(ctx, input, exported),
      }),
    ),
  }
}

function configVerb<I extends z.ZodObject, O>(name: string, declared: Verb<I, O>): NamedVerb<I, O> {
  const id = `config.${name}`
  return { ...declared, id, resource: 'config', verb: name, key: ['source'], toolName: id }
}

interface ApplyInput {
  readonly source: string
  readonly manifest: Manifest
  readonly force: boolean
  readonly dry_run: boolean
  readonly planned?: string | undefined
}

/** Runs in one transaction, so that the version check and the reported plan match the writes. */
async function apply(
  ctx: Context,
  { manifest, force, dry_run, planned }: ApplyInput,
  exported: readonly ManifestResource[],
): Promise<ApplyResult> {
  const from = await readConfigVersion(ctx.tx)
  if (manifest.version !== from && !force) return { kind: 'mismatch', manifest: manifest.version, store: from }
  const changes = await planChanges(ctx, manifest, exported)
  const outcome = {
    from,
    to: from + 1,
    plan: changes.map(({ plan }) => plan),
    effects: await groupEffects(ctx.tx, changes),
    warnings: operatorWarnings((table) => changes.find(({ resource }) => resource.name === table)),
  }
  if (dry_run || planned !== undefined) {
    const rows = describePlannedRows(changes)
    const fingerprint = planFingerprint({ ...outcome, rows, sha256: manifest.sha256 })
    if (planned !== undefined && planned !== fingerprint)
      refuse('conflict', 'the configuration has changed since this plan was made', 'make a new plan and apply that')
    if (dry_run) return { kind: 'planned', ...outcome, rows, fingerprint }
  }
  await writeChanges(ctx.tx, changes)
  await bumpConfigVersion(ctx.tx)
  return { kind: 'applied', ...outcome }
}

/** Counts, and a hash that identifies the file. `source` comes last, because a long summary is truncated at its end. */
function auditSummary({ source, manifest, force }: ApplyInput, reply: ApplyResult) {
  if (reply.kind !== 'applied') return undefined
  const counts = reply.plan.map(({ resource, added, changed, removed }) => [
    resource,
    `+${added.length} ~${changed.length} -${removed.length}`,
  ])
  const sha256 = manifest.sha256.slice(0, FINGERPRINT_LENGTH)
  return { sha256, version: `${reply.from} -> ${reply.to}`, force, ...Object.fromEntries(counts), source }
}
