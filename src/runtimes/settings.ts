// The settings of the runtimes.
import { z } from 'zod'
import { CELL_SETTINGS } from '../cell/settings.ts'
import { EnvValue } from '../core/values.ts'
import {
  DurationSetting,
  fromText,
  live,
  orEmpty,
  type SettingDeclarations,
  type Settings,
  setting,
  UrlSetting,
} from '../lib/settings.ts'

/** The list of runtimes: each name is a folder beside this file with a `runtime.ts`. */
export const RUNTIME_NAMES = ['demo', 'command', 'claude', 'openai'] as const
export type RuntimeName = (typeof RUNTIME_NAMES)[number]

/** Cents per million tokens. */
export interface ModelPrice {
  readonly input: number
  readonly cached: number
  readonly output: number
}

export const FREE: ModelPrice = { input: 0, cached: 0, output: 0 }

/** Prices that the operator gives for names of models. A list, because settings are compared as JSON. */
export type PriceOverrides = readonly { readonly name: string; readonly price: ModelPrice }[]

export const PRICE_RULE =
  'must be dollars per million tokens as input/output or input/cached input/output, such as 1.25/0.125/10, or free'

const AMOUNT = /^\d{1,6}(?:\.\d{1,6})?$/

/** Parses `1.25/10`, `1.25/0.125/10` or `free`; cached input costs as much as other input unless it is given. */
export function parsePrice(text: string): ModelPrice | undefined {
  const typed = text.trim().toLowerCase()
  if (typed === 'free') return FREE
  const parts = typed.split('/').map((part) => part.trim().replace(/^\$/, ''))
  if (parts.length < 2 || parts.length > 3 || !parts.every((part) => AMOUNT.test(part))) return undefined
  const amounts = parts.map((part) => toCents(Number(part)))
  const [input = 0, cached = 0] = amounts
  return { input, cached: parts.length === 3 ? cached : input, output: amounts.at(-1) ?? 0 }
}

/** Without floating-point errors such as 0.07 * 100 = 7.000000000000001. */
export function toCents(dollars: number): number {
  return Math.round(dollars * 1e8) / 1e6
}

/** Cents per million tokens. */
export const CENTS_PATTERN = /^\d{1,9}(\.\d{1,6})?$/

const MODEL_PRICES_RULE =
  'must be a comma-separated list of models and their dollars per million tokens, such as my-model=1.25/0.125/10, other=free'

/** The setting MODEL_PRICES. */
export const ModelPricesSetting = fromText(MODEL_PRICES_RULE, parseModelPrices)

export function parseModelPrices(text: string): PriceOverrides | undefined {
  const prices = new Map<string, { name: string; price: ModelPrice }>()
  for (const entry of text.split(',')) {
    if (entry.trim() === '') continue
    const [, name = '', typed = ''] = /^\s*([^\s=]+)\s*=(.*)$/.exec(entry) ?? []
    const price = parsePrice(typed)
    if (name === '' || !price || prices.has(name)) return undefined
    prices.set(name, { name, price })
  }
  return [...prices.values()]
}

const PriceSetting = orEmpty(
  z.string().regex(CENTS_PATTERN, 'must be a number of cents such as 250 or 12.5').transform(Number),
)

const EnvUrlSetting = UrlSetting.pipe(EnvValue)

/** The endpoint of OpenAI keys that are set without one. */
export const OPENAI_PUBLIC_URL = 'https://api.openai.com/v1'

/** The endpoint of Anthropic keys that are set without one. */
export const ANTHROPIC_PUBLIC_URL = 'https://api.anthropic.com'

/** Of every model and of the programs that use them. */
const MODEL_RUNTIME_SETTINGS = live({
  AGENT_RUNTIME: setting(z.enum(RUNTIME_NAMES), 'demo', 'runtime of agents; a group can set another in its config'),
  AGENT_COMMAND: setting(EnvValue, undefined, 'shell command that the runtime command runs'),
  AGENT_CLI: setting(EnvValue, 'claude', 'agent client that svc chat and the runtime claude start'),
  AGENT_MODEL: setting(orEmpty(EnvValue), undefined, 'model of the runtime claude'),
  ANTHROPIC_API_KEY: setting(EnvValue, undefined, 'API key of the runtime claude'),
  CLAUDE_CODE_OAUTH_TOKEN: setting(EnvValue, undefined, 'OAuth token of the runtime claude'),
  ANTHROPIC_BASE_URL: setting(
    orEmpty(EnvUrlSetting),
    undefined,
    'endpoint of the runtime claude, if not the public one',
  ),
  OPENAI_BASE_URL: setting(
    EnvUrlSetting,
    OPENAI_PUBLIC_URL,
    'endpoint of the runtime openai; any OpenAI-compatible server',
  ),
  OPENAI_MODEL: setting(EnvValue, undefined, 'model of the runtime openai'),
  OPENAI_VISION: setting(
    z.enum(['auto', 'true', 'false']),
    'auto',
    'whether the model gets images that visitors send; auto stops when its endpoint refuses them',
  ),
  OPENAI_API_KEY: setting(EnvValue, undefined, 'API key of that endpoint; not needed for one on this machine'),
  OPENAI_PRICE_INPUT: setting(PriceSetting, undefined, 'price of a million input tokens of OPENAI_MODEL, in cents'),
  OPENAI_PRICE_CACHED: setting(PriceSetting, undefined, 'price of a million cached input tokens; default: as others'),
  OPENAI_PRICE_OUTPUT: setting(PriceSetting, undefined, 'price of a million output tokens of OPENAI_MODEL, in cents'),
  MODEL_PRICES: setting(
    ModelPricesSetting,
    '',
    'prices of models in dollars per million tokens, such as my-model=1.25/0.125/10, other=free; before those of the table',
  ),
  TURN_DEADLINE: setting(DurationSetting, '20m', 'longest time that a turn may take'),
  TURN_HANG: setting(DurationSetting, '5m', 'longest time that a turn may show no activity'),
})

export const RUNTIME_SETTINGS = { ...MODEL_RUNTIME_SETTINGS, ...CELL_SETTINGS } satisfies SettingDeclarations

export type RuntimeSettings = Settings<typeof RUNTIME_SETTINGS>
