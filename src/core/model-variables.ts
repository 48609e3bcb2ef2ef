// Variables that describe one model endpoint belong together: a key is only ever sent to the endpoint it was set with.

export const OPENAI_VARIABLES = ['OPENAI_BASE_URL', 'OPENAI_MODEL', 'OPENAI_API_KEY'] as const

export const ANTHROPIC_VARIABLES = [
  'ANTHROPIC_BASE_URL',
  'ANTHROPIC_MODEL',
  'ANTHROPIC_API_KEY',
  'ANTHROPIC_AUTH_TOKEN',
  'ANTHROPIC_CUSTOM_HEADERS',
  'CLAUDE_CODE_OAUTH_TOKEN',
] as const

export const MODEL_FAMILIES: readonly (readonly string[])[] = [OPENAI_VARIABLES, ANTHROPIC_VARIABLES]

/** Whether a run has an endpoint of its own, from secrets, so that the instance's settings for this family do not apply. */
export function hasOwnEndpoint(env: Readonly<Record<string, string>>, family: readonly string[]): boolean {
  return family.some((name) => Object.hasOwn(env, name))
}

/**
 * The variables of a run whose model decides what its programs do. Where the person who asked names the endpoint by one of
 * `urls`, the endpoint could read the folder's secrets: the run has the person's own variables alone.
 */
export function steeredVariables(
  env: Readonly<Record<string, string>>,
  personal: ReadonlySet<string> | undefined,
  urls: readonly string[],
): Readonly<Record<string, string>> {
  if (!urls.some((url) => personal?.has(url))) return env
  return Object.fromEntries(Object.entries(env).filter(([name]) => personal?.has(name)))
}
