// Resolves the model to set from flags or answers and from the current configuration.
import { ANTHROPIC_VARIABLES, OPENAI_VARIABLES } from '../../core/secrets/model-variables.ts'
import { throwUsageError } from '../../lib/command-line/program.ts'
import { refuse } from '../../lib/refusal.ts'
import { trimTrailing } from '../../lib/text/trimming.ts'
import { isFree } from '../../runtimes/model-prices.ts'
import {
  ANTHROPIC_PUBLIC_URL,
  type ModelPrice,
  OPENAI_PUBLIC_URL,
  PRICE_RULE,
  parsePrice,
  RUNTIME_NAMES,
  type RuntimeName,
} from '../../runtimes/settings.ts'
import { listModels } from './model-api.ts'
import { findModelPrice, hasEndpoint, isRuntime, type ModelConfig } from './model-config.ts'
import { isHttpUrl } from './model-faults.ts'
import { keyVariable, type WantedEndpoint, type WantedModel } from './model-writer.ts'

/** Flags or answers; undefined keeps the current value if possible. */
export interface ModelAnswers {
  readonly runtime?: string | undefined
  readonly baseUrl?: string | undefined
  readonly model?: string | undefined
  readonly key?: string | undefined
  readonly command?: string | undefined
  /** As `parsePrice` reads it, or `unknown`. */
  readonly price?: string | undefined
}

/** The given runtime, or the one that the other flags imply. */
export function chooseRuntime(answers: ModelAnswers, current: ModelConfig): RuntimeName {
  const { runtime, baseUrl, command } = answers
  if (runtime !== undefined) {
    if (isRuntime(runtime)) return runtime
    throwUsageError(`--runtime must be one of ${RUNTIME_NAMES.join(', ')}`)
  }
  if (command !== undefined) return 'command'
  if (baseUrl !== undefined) return 'openai'
  if (hasEndpoint(current.runtime)) return current.runtime
  return throwUsageError('--runtime is missing: demo, openai, claude or command')
}

/** `current` is the current configuration of this runtime. */
export async function resolveModel(
  runtime: RuntimeName,
  answers: ModelAnswers,
  current: ModelConfig,
): Promise<WantedModel> {
  checkFlags(runtime, answers)
  if (runtime === 'demo') return { runtime }
  if (runtime === 'command') {
    const command = answers.command ?? (typeof current.command === 'string' ? current.command : undefined)
    return {
      runtime,
      command: command?.trim() || throwUsageError('--command is missing: the program as a shell command'),
    }
  }
  const endpoint = resolveEndpoint(runtime, answers, current)
  const isSame = endpoint === undefined || isSameEndpoint(endpoint.baseUrl, current.endpoint)
  const model = answers.model ?? (isSame ? current.model : undefined)
  if (runtime === 'openai' && !model) await refuseWithoutModel(endpoint, current)
  if (runtime === 'claude') return { runtime, endpoint, model: model || undefined }
  if (!endpoint && answers.price !== undefined)
    refuse(
      'invalid',
      `price is not possible here: ${current.folder} uses the endpoint of another level`,
      'MODEL_PRICES in .env sets the price of a model for all folders',
    )
  return { runtime, endpoint, model, price: resolvePrice(answers, { ...current, isSame, wanted: model }) }
}

/** The price to state for the endpoint; undefined for none. One that was stated for the same model stays. */
function resolvePrice(
  { price }: ModelAnswers,
  { statedPrice, isSame, wanted }: Pick<ModelConfig, 'statedPrice'> & { isSame: boolean; wanted: string | undefined },
): ModelPrice | undefined {
  if (price === undefined)
    return isSame && statedPrice && (isFree(statedPrice.price) || statedPrice.model === wanted)
      ? statedPrice.price
      : undefined
  if (price.trim().toLowerCase() === 'unknown') return undefined
  return parsePrice(price) ?? refuse('invalid', `price ${PRICE_RULE}; unknown if you do not know it`)
}

function checkFlags(runtime: RuntimeName, { baseUrl, model, key, command, price }: ModelAnswers): void {
  if (command !== undefined && runtime !== 'command')
    throwUsageError(`--command is for the runtime command, not for ${runtime}`)
  if (price !== undefined && runtime !== 'openai')
    throwUsageError(
      `--price is for the runtime openai; ${runtime === 'claude' ? 'Claude Code reports what it costs' : `${runtime} has no model`}`,
    )
  if (hasEndpoint(runtime)) return
  if ([baseUrl, model, key].some((value) => value !== undefined))
    throwUsageError(`--base-url, --model and --key are for the runtimes openai and claude, not for ${runtime}`)
}

/** Undefined if a folder keeps using the endpoint of the instance or of a folder above. */
function resolveEndpoint(
  runtime: RuntimeName,
  { baseUrl, key }: ModelAnswers,
  current: ModelConfig,
): WantedEndpoint | undefined {
  const isOwn = current.folder === undefined || current.endpointOwner === current.folder
  if (!isOwn && baseUrl === undefined && key === undefined) return undefined
  const initial = runtime === 'openai' ? OPENAI_PUBLIC_URL : ANTHROPIC_PUBLIC_URL
  const wanted = baseUrl === undefined ? (isOwn && current.endpoint) || initial : readBaseUrl(baseUrl)
  const keepsKey = key === undefined && isOwn && isSameEndpoint(wanted, current.endpoint)
  return { baseUrl: wanted, key: key === undefined ? undefined : readKey(key), keepsKey }
}

export function isSameEndpoint(one: string, other: string | undefined): boolean {
  return other !== undefined && trimTrailing(one, '/') === trimTrailing(other, '/')
}

export function readBaseUrl(text: string): string {
  const url = trimTrailing(text.trim(), '/').replace(/\/chat\/completions$/, '')
  if (!isHttpUrl(url)) refuse('invalid', 'the base URL must look like https://host/v1')
  const { username, password, search, hash } = new URL(url)
  if (username || password) refuse('invalid', 'the base URL must not contain a password; pass a key with --key -')
  if (search || hash) refuse('invalid', 'the base URL must not have a query or a fragment')
  return url
}

/** No error message quotes the key. */
export function readKey(text: string): string {
  const key = text.trim()
  if (key === '') refuse('invalid', 'the key is empty')
  if (!/^[\x21-\x7e]{1,16384}$/.test(key)) refuse('invalid', 'the key must be one word of ASCII characters')
  return key
}

async function refuseWithoutModel(endpoint: WantedEndpoint | undefined, current: ModelConfig): Promise<never> {
  const baseUrl = endpoint?.baseUrl ?? current.endpoint ?? ''
  const key = endpoint?.key ?? (endpoint && !endpoint.keepsKey ? undefined : current.key)
  const models = await listModels({ baseUrl, key }).catch(() => [])
  const listed = `${baseUrl} has ${models.slice(0, 10).join(', ')}${models.length > 10 ? ', …' : ''}`
  refuse('invalid', '--model is missing: the name of a model', models.length > 0 ? listed : undefined)
}

/** The configuration of a run after `wanted` is written. */
export function applyWantedModel(current: ModelConfig, wanted: WantedModel): ModelConfig {
  const { runtime, endpoint, model, command } = wanted
  const key = endpoint ? (endpoint.key ?? (endpoint.keepsKey ? current.key : undefined)) : current.key
  const { model: _, command: __, ...rest } = current.config
  return {
    ...current,
    runtime,
    key,
    model,
    command,
    ...(runtime === 'openai' ? priceParts(current, wanted) : {}),
    endpoint: endpoint?.baseUrl ?? current.endpoint,
    config: { ...rest, runtime, ...(model ? { model } : {}), ...(command === undefined ? {} : { command }) },
    env: endpoint
      ? { ...omitModelVariables(current.env), ...programVariables(runtime, endpoint.baseUrl, key) }
      : current.env,
  }
}

function priceParts(current: ModelConfig, { endpoint, model, price }: WantedModel): Partial<ModelConfig> {
  const statedPrice = endpoint ? price && { price, model } : current.statedPrice
  const baseUrl = endpoint?.baseUrl ?? current.endpoint ?? ''
  return { statedPrice, price: findModelPrice(current.settings, baseUrl, model, statedPrice) }
}

function omitModelVariables(env: Readonly<Record<string, string>>): Record<string, string> {
  const names: readonly string[] = [...OPENAI_VARIABLES, ...ANTHROPIC_VARIABLES]
  return Object.fromEntries(Object.entries(env).filter(([name]) => !names.includes(name)))
}

/** The environment of Claude Code; the runtime `openai` starts no program. */
function programVariables(runtime: RuntimeName, baseUrl: string, key: string | undefined): Record<string, string> {
  if (runtime !== 'claude') return {}
  return { ANTHROPIC_BASE_URL: baseUrl, ...(key === undefined ? {} : { [keyVariable(runtime, key)]: key }) }
}
