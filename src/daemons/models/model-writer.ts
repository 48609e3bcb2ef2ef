// Writes the model of an instance or a folder to the store: of the instance as settings and an encrypted key, of a folder to its
// config and its secrets in one transaction.
import type { z } from 'zod'
import type { Layout } from '../../core/layout.ts'
import { type ModelKeyName, type ModelSetting, SEALED } from '../../core/secrets/model-keys.ts'
import { ANTHROPIC_VARIABLES, OPENAI_VARIABLES } from '../../core/secrets/model-variables.ts'
import { STORE_SOURCE } from '../../core/settings/stored-settings.ts'
import { readSettings } from '../../lib/settings.ts'
import type { NamedVerb } from '../../registry/resource.ts'
import { modelKeysResource } from '../../resources/model-keys.ts'
import { writeStatedPrice } from '../../runtimes/model-prices.ts'
import { ANTHROPIC_PUBLIC_URL, type ModelPrice, RUNTIME_SETTINGS, type RuntimeName } from '../../runtimes/settings.ts'

/** Undefined members use the default of the runtime. */
export interface WantedModel {
  readonly runtime: RuntimeName
  /** For `openai` and `claude`; undefined leaves the endpoint unchanged. */
  readonly endpoint?: WantedEndpoint | undefined
  readonly model?: string | undefined
  readonly command?: string | undefined
  /** For `openai`: the price to state; undefined for none. */
  readonly price?: ModelPrice | undefined
}

export interface WantedEndpoint {
  readonly baseUrl: string
  readonly key?: string | undefined
  /** Whether the current key belongs to this endpoint and stays. */
  readonly keepsKey: boolean
}

const keys = modelKeysResource.verbs

/** The access of a caller to an instance. */
export interface ModelWriteAccess {
  readonly layout: Layout
  call<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: z.input<I>): Promise<O>
}

/** Returns a description of where the model was written. */
export async function writeInstanceModel(access: ModelWriteAccess, wanted: WantedModel): Promise<string> {
  const { call } = access
  const changes = settingChanges(wanted)
  // Refuse invalid values before anything is written.
  const texts: ReadonlyMap<string, string | undefined> = changes
  readSettings(RUNTIME_SETTINGS, [{ name: STORE_SOURCE, get: (key) => texts.get(key) }])
  const { endpoint } = wanted
  if (endpoint?.key !== undefined) {
    const variable = keyVariable(wanted.runtime, endpoint.key)
    await call(keys.set, { variable, endpoint: endpoint.baseUrl, value: endpoint.key })
  }
  await call(keys.set_instance, {
    changes: [...changes].map(([variable, value]) => ({ variable, ...(value === undefined ? {} : { value }) })),
  })
  await clearUnusedKeys(access, wanted)
  return endpoint?.key === undefined ? 'the store' : 'the store, its key encrypted'
}

/** Removes the keys of the previous endpoint. */
async function clearUnusedKeys({ call }: ModelWriteAccess, { runtime, endpoint }: WantedModel): Promise<void> {
  if (!endpoint || endpoint.keepsKey) return
  const names = runtime === 'openai' ? (['OPENAI_API_KEY'] as const) : ANTHROPIC_KEYS
  const used = endpoint.key === undefined ? undefined : keyVariable(runtime, endpoint.key)
  for (const variable of names) if (variable !== used) await call(keys.clear, { variable })
}

const ANTHROPIC_KEYS = ['ANTHROPIC_API_KEY', 'CLAUDE_CODE_OAUTH_TOKEN'] as const

/** Claude Code reads subscription tokens and API keys from different variables. */
export function keyVariable(runtime: RuntimeName, key: string): ModelKeyName {
  if (runtime === 'openai') return 'OPENAI_API_KEY'
  return key.startsWith('sk-ant-oat') ? 'CLAUDE_CODE_OAUTH_TOKEN' : 'ANTHROPIC_API_KEY'
}

function settingChanges({
  runtime,
  endpoint,
  model,
  command,
  price,
}: WantedModel): Map<ModelSetting, string | undefined> {
  const changes = new Map<ModelSetting, string | undefined>([['AGENT_RUNTIME', runtime]])
  if (runtime === 'openai') {
    if (endpoint) changes.set('OPENAI_BASE_URL', endpoint.baseUrl)
    if (model !== undefined) changes.set('OPENAI_MODEL', model)
    const stated = price ? writeStatedPrice(price) : undefined
    for (const name of PRICE_VARIABLES) changes.set(name, stated?.[name])
    // Empty instead of absent, so that a variable of the operator's shell is not sent to this endpoint.
    if (endpoint && !endpoint.keepsKey) changes.set('OPENAI_API_KEY', endpoint.key === undefined ? '' : SEALED)
  }
  if (runtime === 'claude') {
    changes.set('AGENT_MODEL', model)
    if (endpoint)
      changes.set('ANTHROPIC_BASE_URL', endpoint.baseUrl === ANTHROPIC_PUBLIC_URL ? undefined : endpoint.baseUrl)
    if (endpoint && !endpoint.keepsKey)
      for (const name of ANTHROPIC_KEYS)
        changes.set(name, endpoint.key !== undefined && keyVariable(runtime, endpoint.key) === name ? SEALED : '')
  }
  if (runtime === 'command') changes.set('AGENT_COMMAND', command)
  return changes
}

const PRICE_VARIABLES = ['OPENAI_PRICE_INPUT', 'OPENAI_PRICE_CACHED', 'OPENAI_PRICE_OUTPUT'] as const

export interface CurrentFolderModel {
  readonly config: Readonly<Record<string, unknown>>
  /** The key that may stay. */
  readonly currentKey: string | undefined
  /** Leaves `runtime` and `command` as they are. */
  readonly keepsRuntime?: boolean
}

/** Returns a description of where the model was written. */
export async function writeFolderModel(
  { call }: ModelWriteAccess,
  folder: string,
  wanted: WantedModel,
  { config, currentKey, keepsRuntime = false }: CurrentFolderModel,
): Promise<string> {
  const { runtime, endpoint, model, command } = wanted
  const { model: _, ...kept } = config
  const { runtime: __, command: ___, ...others } = kept
  const rest = keepsRuntime ? kept : others
  const own = {
    ...(keepsRuntime ? {} : { runtime }),
    // A folder with its own endpoint has the model in its secrets, which the folders below inherit.
    ...(endpoint || model === undefined ? {} : { model }),
    ...(runtime === 'command' && !keepsRuntime ? { command } : {}),
  }
  const family = endpoint ? modelVariables(runtime) : []
  const variables = endpoint ? folderVariables(wanted, endpoint, currentKey) : {}
  await call(keys.set_folder, {
    folder,
    config: JSON.stringify({ ...own, ...rest }),
    cleared: [...family],
    secrets: Object.entries(variables).flatMap(([key, value]) => (value === undefined ? [] : [{ key, value }])),
  })
  return endpoint ? `the config and the secrets of ${folder}` : `the config of ${folder}`
}

function modelVariables(runtime: RuntimeName): readonly string[] {
  return runtime === 'openai' ? OPENAI_VARIABLES : ANTHROPIC_VARIABLES
}

function folderVariables(
  { runtime, model, price }: WantedModel,
  { baseUrl, key, keepsKey }: WantedEndpoint,
  currentKey: string | undefined,
): Record<string, string | undefined> {
  const value = key ?? (keepsKey ? currentKey : undefined)
  if (runtime === 'openai')
    return {
      ...{ OPENAI_BASE_URL: baseUrl, OPENAI_MODEL: model, OPENAI_API_KEY: value },
      ...(price ? writeStatedPrice(price) : {}),
    }
  return {
    ANTHROPIC_BASE_URL: baseUrl === ANTHROPIC_PUBLIC_URL ? undefined : baseUrl,
    ANTHROPIC_MODEL: model,
    ...(value === undefined ? {} : { [keyVariable(runtime, value)]: value }),
  }
}
