// Which model the runs of a folder, or of the instance, use: runtime, endpoint, model and key, and where each of them is set.
// The runtimes decide the same from the same parts when a turn starts.

import { selfAndAncestors } from '../../core/access/tiers.ts'
import { launchConfig } from '../../core/groups/group-config.ts'
import { groups } from '../../core/groups/groups.ts'
import type { Keyring } from '../../core/secrets/keyring.ts'
import { modelKeys, SEALED } from '../../core/secrets/model-keys.ts'
import { ANTHROPIC_VARIABLES, hasOwnEndpoint, OPENAI_VARIABLES } from '../../core/secrets/model-variables.ts'
import { readRunSecrets } from '../../core/secrets/run-secrets.ts'
import { secrets } from '../../core/secrets/secrets.ts'
import { readSettings, type SettingSource } from '../../lib/settings.ts'
import { openSealedKeys } from '../../runtimes/sealed-keys.ts'
import {
  ANTHROPIC_PUBLIC_URL,
  OPENAI_PUBLIC_URL,
  RUNTIME_NAMES,
  RUNTIME_SETTINGS,
  type RuntimeName,
  type RuntimeSettings,
} from '../../runtimes/settings.ts'
import type { Tx } from '../../store/engine.ts'

export interface ModelConfig {
  /** Absent: what holds for folders that say nothing themselves. */
  readonly folder?: string | undefined
  /** As it was written: it may be none that there is. */
  readonly runtime: string
  readonly runtimeFrom: string
  /** Of `openai` and `claude`. */
  readonly endpoint?: string | undefined
  readonly key?: string | undefined
  /** Where endpoint and key are set. */
  readonly endpointFrom?: string | undefined
  /** The folder whose secrets these are. */
  readonly endpointOwner?: string | undefined
  readonly model?: string | undefined
  readonly modelFrom?: string | undefined
  /** Of `claude`. */
  readonly program?: string | undefined
  /** Of `command`: a program with its arguments, or a text for a shell. */
  readonly command?: unknown
  readonly commandFrom?: string | undefined
  /** Settings, with the keys opened. */
  readonly settings: RuntimeSettings
  /** Secrets of the folder's runs. */
  readonly env: Readonly<Record<string, string>>
  readonly config: Readonly<Record<string, unknown>>
  /** What is stored and cannot be used. */
  readonly warnings: readonly string[]
}

export interface ModelConfigQuery {
  readonly keyring: Keyring
  readonly sources: readonly SettingSource[]
  readonly folder?: string | undefined
  /** What this runtime would use, whichever is set. */
  readonly runtime?: RuntimeName | undefined
}

export async function readModelConfig(tx: Tx, reading: ModelConfigQuery): Promise<ModelConfig> {
  const { keyring, sources, folder } = reading
  const warnings: string[] = []
  const warn = (sentence: string): void => void warnings.push(sentence)
  const written = readSettings(RUNTIME_SETTINGS, sources)
  const settings = openSealedKeys(written, await modelKeys.list(tx), keyring, warn)
  const row = folder === undefined ? undefined : await groups.find(tx, { folder })
  const config = launchConfig(row?.config, warn)
  const { env } = folder === undefined ? { env: {} } : await readRunSecrets(tx, keyring, { folder, reach: 'all' }, warn)
  const named = config.runtime
  const runtime = reading.runtime ?? (typeof named === 'string' ? named : settings.AGENT_RUNTIME)
  const base = {
    folder,
    runtime,
    runtimeFrom: typeof named === 'string' ? `config of ${folder}` : describeSource(sources, 'AGENT_RUNTIME'),
    settings,
    env,
    config,
    warnings,
  }
  if (runtime === 'openai') return { ...base, ...(await readOpenaiParts(tx, base, sources)) }
  if (runtime === 'claude') return { ...base, ...(await readClaudeParts(tx, base, sources)) }
  if (runtime === 'command') return { ...base, ...readCommandParts(base, sources) }
  return base
}

type Base = Pick<ModelConfig, 'folder' | 'settings' | 'env' | 'config'>
type Parts = Partial<ModelConfig>

async function readOpenaiParts(
  tx: Tx,
  { folder, settings, env, config }: Base,
  sources: readonly SettingSource[],
): Promise<Parts> {
  const owner = await findEndpointOwner(tx, folder, env, OPENAI_VARIABLES)
  const from = owner === undefined ? settings : env
  const endpointFrom = owner === undefined ? describeSource(sources, 'OPENAI_BASE_URL') : `secrets of ${owner}`
  return {
    endpoint: from.OPENAI_BASE_URL ?? OPENAI_PUBLIC_URL,
    key: from.OPENAI_API_KEY || undefined,
    endpointFrom,
    endpointOwner: owner,
    ...readModelParts(
      folder,
      config,
      from.OPENAI_MODEL,
      owner === undefined ? describeSource(sources, 'OPENAI_MODEL') : endpointFrom,
    ),
  }
}

async function readClaudeParts(
  tx: Tx,
  { folder, settings, env, config }: Base,
  sources: readonly SettingSource[],
): Promise<Parts> {
  const owner = await findEndpointOwner(tx, folder, env, ANTHROPIC_VARIABLES)
  const from = owner === undefined ? settings : env
  const key = from.ANTHROPIC_API_KEY || from.CLAUDE_CODE_OAUTH_TOKEN || (owner && env.ANTHROPIC_AUTH_TOKEN)
  const keyName = settings.CLAUDE_CODE_OAUTH_TOKEN ? 'CLAUDE_CODE_OAUTH_TOKEN' : 'ANTHROPIC_API_KEY'
  const [model, modelFrom] =
    owner === undefined
      ? [settings.AGENT_MODEL, describeSource(sources, 'AGENT_MODEL')]
      : [env.ANTHROPIC_MODEL, `secrets of ${owner}`]
  return {
    program: settings.AGENT_CLI,
    endpoint: from.ANTHROPIC_BASE_URL ?? ANTHROPIC_PUBLIC_URL,
    key: key || undefined,
    endpointFrom: owner === undefined ? describeSource(sources, keyName) : `secrets of ${owner}`,
    endpointOwner: owner,
    ...readModelParts(folder, config, model, modelFrom),
  }
}

function readCommandParts({ folder, settings, config }: Base, sources: readonly SettingSource[]): Parts {
  if (config.command !== undefined) return { command: config.command, commandFrom: `config of ${folder}` }
  if (settings.AGENT_COMMAND === undefined) return {}
  return { command: settings.AGENT_COMMAND, commandFrom: describeSource(sources, 'AGENT_COMMAND') }
}

/** `model` in the config of the group takes precedence. */
function readModelParts(
  folder: string | undefined,
  config: Readonly<Record<string, unknown>>,
  model: string | undefined,
  modelFrom: string,
): Parts {
  if (typeof config.model === 'string') return { model: config.model, modelFrom: `config of ${folder}` }
  return model ? { model, modelFrom } : {}
}

/** The nearest folder, upwards, with a secret of this family. */
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

/** Where a setting is set, in words. */
function describeSource(sources: readonly SettingSource[], key: string): string {
  const source = sources.find((each) => each.get(key) !== undefined)
  if (!source) return 'default'
  return source.get(key) === SEALED ? `${source.name} and the store` : source.name
}

export function isRuntime(name: string): name is RuntimeName {
  return RUNTIME_NAMES.some((known) => known === name)
}
