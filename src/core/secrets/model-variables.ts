// Environment variables of model endpoints. Those of one family belong together, so a key is only sent to its own endpoint.

export const OPENAI_VARIABLES = [
  'OPENAI_BASE_URL',
  'OPENAI_MODEL',
  'OPENAI_API_KEY',
  'OPENAI_PRICE_INPUT',
  'OPENAI_PRICE_CACHED',
  'OPENAI_PRICE_OUTPUT',
] as const

export const ANTHROPIC_VARIABLES = [
  'ANTHROPIC_BASE_URL',
  'ANTHROPIC_MODEL',
  'ANTHROPIC_API_KEY',
  'ANTHROPIC_AUTH_TOKEN',
  'ANTHROPIC_CUSTOM_HEADERS',
  'CLAUDE_CODE_OAUTH_TOKEN',
] as const

/** Variables that name an endpoint. */
export const MODEL_URLS: readonly string[] = ['ANTHROPIC_BASE_URL', 'OPENAI_BASE_URL']

export const MODEL_FAMILIES: readonly (readonly string[])[] = [OPENAI_VARIABLES, ANTHROPIC_VARIABLES]

/** Whether secrets set an endpoint of this family; then the instance's settings for it do not apply. */
export function hasOwnEndpoint(env: Readonly<Record<string, string>>, family: readonly string[]): boolean {
  return family.some((name) => Object.hasOwn(env, name))
}

/**
 * For runs whose model controls their programs. If the requesting person set the endpoint (one of `urls`), the endpoint could
 * read the folder's secrets, so the run gets only the person's own variables.
 */
export function variablesForEndpoint(
  env: Readonly<Record<string, string>>,
  personal: ReadonlySet<string> | undefined,
  urls: readonly string[],
): Readonly<Record<string, string>> {
  if (!urls.some((url) => personal?.has(url))) return env
  return Object.fromEntries(Object.entries(env).filter(([name]) => personal?.has(name)))
}
