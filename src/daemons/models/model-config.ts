// Reads the model configuration of a folder or the instance: runtime, endpoint, model and key, and where each is set. The
// runtimes resolve the same settings when a turn starts.
import { selfAndAncestors } from '../../core/access/tiers.ts'
import { launchConfig } from '../../core/groups/group-config.ts'
import { groups } from '../../core/groups/groups.ts'
import type { Keyring } from '../../core/secrets/keyring.ts'
import { modelKeys, SEALED } from '../../core/secrets/model-keys.ts'
import { ANTHROPIC_VARIABLES, hasOwnEndpoint, OPENAI_VARIABLES } from '../../core/secrets/model-variables.ts'
import { readRunSecrets } from '../../core/secrets/run-secrets.ts'
import { secrets } from '../../core/secrets/secrets.ts'
import { readSettings, type SettingSource } from '../../lib/settings.ts'
import { findPrice, type PriceInForce, readStatedPrice } from '../../runtimes/model-prices.ts'
import { openSealedKeys } from '../../runtimes/sealed-keys.ts'
import {
  ANTHROPIC_PUBLIC_URL,
  type ModelPrice,
  OPENAI_PUBLIC_URL,
  RUNTIME_NAMES,
  RUNTIME_SETTINGS,
  type RuntimeName,
  type RuntimeSettings,
} from '../../runtimes/settings.ts'
import type { Tx } from '../../store/engine.ts'

export interface ModelConfig {
  /** Undefined for the configuration of the instance. */
  readonly folder?: string | undefined
  /** As configured; may be unknown. */
  readonly runtime: string
  readonly runtimeFrom: string
  /** For `openai` and `claude`. */
  readonly endpoint?: string | undefined
  readonly key?: string | undefined
  /** Where endpoint and key are set. */
  readonly endpointFrom?: string | undefined
  /** Set if no operator set the endpoint: it must be public. */
  readonly isPublicOnly?: boolean | undefined
  /** The folder whose secrets these are. */
  readonly endpointOwner?: string | undefined
  readonly model?: string | undefined
  readonly modelFrom?: string | undefined
  /** How the cost of its calls is known; absent without a model, and for programs, which report it themselves. */
  readonly price?: PriceInForce | undefined
  /** The price that is given with the endpoint, and the model that it is for. */
  readonly statedPrice?: { readonly price: ModelPrice; readonly model: string | undefined } | undefined
  /** For `claude`. */
  readonly program?: string | undefined
  /** For `command`: a program with its arguments, or a shell command. */
  readonly command?: unknown
  readonly commandFrom?: string | undefined
  /** With decrypted keys. */
  readonly settings: RuntimeSettings
  /** Secrets of the folder's runs. */
  readonly env: Readonly<Record<string, string>>
  readonly config: Readonly<Record<string, unknown>>
  /** Stored values that cannot be used. */
  readonly warnings: readonly string[]
}

export interface ModelConfigQuery {
  readonly keyring: Keyring
  readonly sources: readonly SettingSource[]
  readonly folder?: string | undefined
  /** Reads the configuration for this runtime instead of the configured one. */
  readonly runtime?: RuntimeName | undefined
}

export async function readModelConfig(tx: Tx, query: ModelConfigQuery): Promise<ModelConfig> {
  const { keyring, sources, folder } = query
  const warnings: string[] = []
  const warn = (message: string): void => void warnings.push(message)
  const written = readSettings(RUNTIME_SETTINGS, sources)
  const settings = openSealedKeys(written, await modelKeys.list(tx), keyring, warn)
  const row = folder === undefined ? undefined : await groups.find(tx, { folder })
  const config = launchConfig(row?.config, warn)
  const { env, publicOnly } =
    folder === undefined
      ? { env: {}, publicOnly: new Set<string>() }
      : await readRunSecrets(tx, keyring, { folder, reach: 'all' }, warn)
  const ownRuntime = config.runtime
  const runtime = query.runtime ?? (typeof ownRuntime === 'string' ? ownRuntime : settings.AGENT_RUNTIME)
  const describe = (key: string): string => describeSource(sources, key)
  const runtimeFrom = typeof ownRuntime === 'string' ? `config of ${folder}` : describe('AGENT_RUNTIME')
  const base = { folder, runtime, runtimeFrom, settings, env, config, warnings }
  if (runtime === 'openai')
    return { ...base, ...(await readOpenaiParts(tx, base, describe)), isPublicOnly: publicOnly.has('OPENAI_BASE_URL') }
  if (runtime === 'claude')
    return {
      ...base,
      ...(await readClaudeParts(tx, base, describe)),
      isPublicOnly: publicOnly.has('ANTHROPIC_BASE_URL'),
    }
  if (runtime === 'command') return { ...base, ...readCommandParts(base, describe) }
  return base
}

type Base = Pick<ModelConfig, 'folder' | 'settings' | 'env' | 'config'>
type Parts = Partial<ModelConfig>
/** Describes where a setting is set. */
type Describe = (key: string) => string

async function readOpenaiParts(tx: Tx, base: Base, describe: Describe): Promise<Parts> {
  const { folder, settings, env } = base
  const owner = await findEndpointOwner(tx, folder, env, OPENAI_VARIABLES)
  const from = owner === undefined ? settings : env
  const endpoint = from.OPENAI_BASE_URL ?? OPENAI_PUBLIC_URL
  const stated = readStatedPrice(from)
  const statedPrice = stated && { price: stated, model: from.OPENAI_MODEL }
  const parts = readModelParts(
    base,
    from.OPENAI_MODEL,
    owner === undefined ? describe('OPENAI_MODEL') : `secrets of ${owner}`,
  )
  return {
    endpoint,
    key: from.OPENAI_API_KEY || undefined,
    endpointFrom: owner === undefined ? describe('OPENAI_BASE_URL') : `secrets of ${owner}`,
    endpointOwner: owner,
    statedPrice,
    ...parts,
    price: findModelPrice(settings, endpoint, parts.model, statedPrice),
  }
}

/** Undefined without a model. */
export function findModelPrice(
  { MODEL_PRICES: overrides }: RuntimeSettings,
  baseUrl: string,
  model: string | undefined,
  statedPrice: ModelConfig['statedPrice'],
): PriceInForce | undefined {
  if (!model) return undefined
  return findPrice({ baseUrl, model, stated: statedPrice?.price, statedFor: statedPrice?.model, overrides })
}

async function readClaudeParts(tx: Tx, base: Base, describe: Describe): Promise<Parts> {
  const { folder, settings, env } = base
  const owner = await findEndpointOwner(tx, folder, env, ANTHROPIC_VARIABLES)
  const from = owner === undefined ? settings : env
  const key = from.ANTHROPIC_API_KEY || from.CLAUDE_CODE_OAUTH_TOKEN || (owner && env.ANTHROPIC_AUTH_TOKEN)
  const keyName = settings.CLAUDE_CODE_OAUTH_TOKEN ? 'CLAUDE_CODE_OAUTH_TOKEN' : 'ANTHROPIC_API_KEY'
  return {
    program: settings.AGENT_CLI,
    price: { kind: 'reported', by: 'Claude Code' },
    endpoint: from.ANTHROPIC_BASE_URL ?? ANTHROPIC_PUBLIC_URL,
    key: key || undefined,
    endpointFrom: owner === undefined ? describe(keyName) : `secrets of ${owner}`,
    endpointOwner: owner,
    ...(owner === undefined
      ? readModelParts(base, settings.AGENT_MODEL, describe('AGENT_MODEL'))
      : readModelParts(base, env.ANTHROPIC_MODEL, `secrets of ${owner}`)),
  }
}

function readCommandParts({ folder, settings, config }: Base, describe: Describe): Parts {
  if (config.command !== undefined) return { command: config.command, commandFrom: `config of ${folder}` }
  if (settings.AGENT_COMMAND === undefined) return {}
  return { command: settings.AGENT_COMMAND, commandFrom: describe('AGENT_COMMAND') }
}

/** `model` in the config of the group overrides the others. */
function readModelParts({ folder, config }: Base, model: string | undefined, modelFrom: string): Parts {
  if (typeof config.model === 'string') return { model: config.model, modelFrom: `config of ${folder}` }
  return model ? { model, modelFrom } : {}
}

/** The nearest folder, from `folder` upwards, with a secret of this family. */
async function findEndpointOwner(
  tx: Tx,
  folder: string | undefined,
  env: Readonly<Record<string, string>>,
  family: readonly string[],
): Promise<string | undefined> {
  if (folder === undefined || !hasOwnEndpoint(env, family)) return undefined
  for (const owner of selfAndAncestors(folder).toReversed()) {
    const rows = await secrets.list(tx, { scope_kind: 'folder', owner })
    if (rows.some(({ key }) => family.includes(key))) return owner
  }
  return undefined
}

function describeSource(sources: readonly SettingSource[], key: string): string {
  const source = sources.find((each) => each.get(key) !== undefined)
  if (!source) return 'default'
  return source.get(key) === SEALED ? `${source.name} and the store` : source.name
}

export function isRuntime(name: string): name is RuntimeName {
  return RUNTIME_NAMES.some((known) => known === name)
}

/** Whether the runtime calls a model endpoint with a key. */
export function hasEndpoint(runtime: string): runtime is 'openai' | 'claude' {
  return runtime === 'openai' || runtime === 'claude'
}

export function describeModel({ runtime, model, endpoint, command }: ModelConfig): string {
  if (runtime === 'openai') return `${model} at ${endpoint}`
  if (runtime === 'claude') return model === undefined ? 'Claude Code' : `Claude Code with ${model}`
  return runtime === 'command' ? `the program ${formatModelCommand(command)}` : 'the built-in demo'
}

export function formatModelCommand(command: unknown): string {
  return typeof command === 'string' ? command : JSON.stringify(command)
}
