// Selects the endpoint, key and model of a run of the runtime claude: from its own secrets, or else the instance's.
import { type ModelAddress, modelAddressOf } from '../../cell/network.ts'
import { ANTHROPIC_VARIABLES, hasOwnEndpoint } from '../../core/secrets/model-variables.ts'
import type { Job } from '../runtime.ts'
import { ANTHROPIC_PUBLIC_URL, type RuntimeSettings } from '../settings.ts'

interface ClaudeCredentials {
  /** Added to the environment of the run, which already contains the secrets. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** For the flag --model. A run with its own endpoint uses its secret ANTHROPIC_MODEL or the client's default instead. */
  readonly model?: string | undefined
  readonly endpoint?: ModelAddress | undefined
}

export function resolveClaudeCredentials(
  settings: RuntimeSettings,
  job: Pick<Job, 'env' | 'publicOnly'>,
): ClaudeCredentials {
  const { env, publicOnly } = job
  if (hasOwnEndpoint(env, ANTHROPIC_VARIABLES)) {
    const mayBePrivate = !publicOnly?.has('ANTHROPIC_BASE_URL')
    return { env: {}, endpoint: modelAddressOf(env.ANTHROPIC_BASE_URL ?? ANTHROPIC_PUBLIC_URL, mayBePrivate) }
  }
  const { ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, CLAUDE_CODE_OAUTH_TOKEN, AGENT_MODEL: model } = settings
  return {
    env: { ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, CLAUDE_CODE_OAUTH_TOKEN },
    model,
    endpoint: modelAddressOf(ANTHROPIC_BASE_URL ?? ANTHROPIC_PUBLIC_URL),
  }
}
