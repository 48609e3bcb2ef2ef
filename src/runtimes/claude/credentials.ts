// Which endpoint, key and model a run of the runtime claude uses: its own, from secrets, or else the instance's.
import { ANTHROPIC_VARIABLES, hasOwnEndpoint } from '../../core/model-variables.ts'
import type { Job } from '../runtime.ts'
import type { RuntimeSettings } from '../settings.ts'

export interface ClaudeCredentials {
  /** Added to the environment of the run, which has the secrets already. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Given by flag. With its own endpoint, a run has it from the secret ANTHROPIC_MODEL or the client's default. */
  readonly model?: string | undefined
}

export function credentialsOf(settings: RuntimeSettings, { env }: Pick<Job, 'env'>): ClaudeCredentials {
  if (hasOwnEndpoint(env, ANTHROPIC_VARIABLES)) return { env: {} }
  const { ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, CLAUDE_CODE_OAUTH_TOKEN, AGENT_MODEL: model } = settings
  return { env: { ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, CLAUDE_CODE_OAUTH_TOKEN }, model }
}
