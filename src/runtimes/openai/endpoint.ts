// Selects the endpoint of a run of the runtime openai: from its own secrets, or else the instance's. Never parts of both, so
// that no key is sent to another endpoint.
import { hasOwnEndpoint, OPENAI_VARIABLES } from '../../core/secrets/model-variables.ts'
import { findPrice, readStatedPrice } from '../model-prices.ts'
import { type Job, RunFault } from '../runtime.ts'
import { OPENAI_PUBLIC_URL, type RuntimeSettings } from '../settings.ts'
import type { OpenaiEndpoint } from './task.ts'

export function resolveOpenaiEndpoint(
  settings: RuntimeSettings,
  { env, config }: Pick<Job, 'env' | 'config'>,
): OpenaiEndpoint {
  const isOwn = hasOwnEndpoint(env, OPENAI_VARIABLES)
  const source = isOwn ? env : settings
  const { OPENAI_BASE_URL: baseUrl = OPENAI_PUBLIC_URL, OPENAI_API_KEY: apiKey } = source
  if (!isHttpUrl(baseUrl)) throw new RunFault('terminal', 'OPENAI_BASE_URL is not an HTTP URL')
  const named = typeof config?.model === 'string' ? config.model : undefined
  const model = named ?? source.OPENAI_MODEL
  if (!model)
    throw new RunFault(
      'terminal',
      isOwn
        ? 'no model is set; set the secret OPENAI_MODEL beside the other OPENAI_ secrets, or model in the config of the group'
        : 'no model is set; set OPENAI_MODEL',
    )
  if (!apiKey && !isLoopback(baseUrl)) throw new RunFault('terminal', 'OPENAI_API_KEY is not set')
  const price = findPrice({
    ...{ baseUrl, model, overrides: settings.MODEL_PRICES },
    stated: readStatedPrice(source),
    statedFor: source.OPENAI_MODEL,
  })
  return {
    ...{ baseUrl, model, apiKey },
    price: 'price' in price ? price.price : undefined,
    reportsCost: price.kind === 'reported',
  }
}

function isHttpUrl(url: string): boolean {
  return /^https?:\/\//i.test(url) && URL.canParse(url)
}

function isLoopback(url: string): boolean {
  return /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(new URL(url).hostname)
}
