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
