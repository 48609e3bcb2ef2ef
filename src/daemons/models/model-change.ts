// Reads, tests and changes the model of an instance or a folder, for `svc model` and the dashboard.
import { groups } from '../../core/groups/groups.ts'
import { publicEndpointFault } from '../../core/secrets/operator-endpoints.ts'
import { refuse } from '../../lib/refusal.ts'
import type { SettingSource } from '../../lib/settings.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { RuntimeName } from '../../runtimes/settings.ts'
import type { ModelTestResult } from './model-api.ts'
import { type ModelConfig, readModelConfig } from './model-config.ts'
import { applyWantedModel, chooseRuntime, type ModelAnswers, resolveModel } from './model-selection.ts'
import { type ModelWriteAccess, writeFolderModel, writeInstanceModel } from './model-writer.ts'

export interface ModelAccess extends ModelWriteAccess {
  readonly host: InstanceHost
  readonly sources: readonly SettingSource[]
  /** Undefined for the model of the instance. */
  readonly folder?: string | undefined
  /** Keeps the runtime of a folder out of its config if it is the inherited one: only operators may set it. */
  readonly keepsRuntime?: boolean
  /** Others name public endpoints only. */
  readonly isOperator: boolean
  /** Refuses a model whose price is not known and was not asked for. */
  readonly needsPrice?: boolean
}

export type ModelReader = Pick<ModelAccess, 'host' | 'sources' | 'folder'>

export async function readCurrentModel(
  { host, sources, folder }: ModelReader,
  runtime?: RuntimeName,
): Promise<ModelConfig> {
  return host.engine.read(async (tx) => {
    if (folder !== undefined && !(await groups.find(tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
    return readModelConfig(tx, { keyring: host.keyring, sources, folder, runtime })
  })
}

interface ModelChange {
  readonly after: ModelConfig
  readonly tested?: ModelTestResult | undefined
  /** Where the model was written. */
  readonly written: string
}

/** Tests the new model first, unless `test` is absent. */
export async function changeModel(
  access: ModelAccess,
  answers: ModelAnswers,
  test?: (config: ModelConfig) => Promise<ModelTestResult>,
): Promise<ModelChange> {
  const { folder } = access
  const current = await readCurrentModel(access)
  const runtime = chooseRuntime(answers, current)
  const before = await readCurrentModel(access, runtime)
  const wanted = await resolveModel(runtime, answers, before)
  const fault = access.isOperator || !wanted.endpoint ? undefined : publicEndpointFault(wanted.endpoint.baseUrl)
  if (fault !== undefined) refuse('forbidden', fault)
  const isPublicOnly = wanted.endpoint ? !access.isOperator : before.isPublicOnly
  const after = { ...applyWantedModel(before, wanted), isPublicOnly }
  if (access.needsPrice && wanted.endpoint && answers.price === undefined && after.price?.kind === 'unknown')
    refuse(
      'invalid',
      `price must be given: no price is known for ${after.model}`,
      'free for a model on a machine of your own, or unknown: then its turns count no cost',
    )
  const tested = test && runtime !== 'demo' ? await test(after) : undefined
  const { config, key: currentKey } = before
  const keepsRuntime = access.keepsRuntime === true && runtime === current.runtime && runtime !== 'command'
  const written =
    folder === undefined
      ? await writeInstanceModel(access, wanted)
      : await writeFolderModel(access, folder, wanted, { config, currentKey, keepsRuntime })
  return { after, tested, written }
}
