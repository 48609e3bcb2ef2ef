// The keys of model providers that a run is given: of the person who asks, else of the folder or the nearest one above it.
// No other secret enters the environment of a run.
import type { Tx } from '../store/engine.ts'
import type { Keyring } from './seal.ts'
import { type SecretName, secretContext, secrets } from './secrets.ts'
import { ancestry } from './tiers.ts'

export const PROVIDER_KEYS = [
  'ANTHROPIC_API_KEY',
  'CLAUDE_CODE_OAUTH_TOKEN',
  'OPENAI_API_KEY',
  'CODEX_API_KEY',
] as const

export interface Runner {
  readonly folder: string
  /** The person whose turn it is, where it is one with an account. */
  readonly sub?: string | undefined
}

export async function providerKeys(tx: Tx, keyring: Keyring, { folder, sub }: Runner): Promise<Record<string, string>> {
  const owners: Omit<SecretName, 'key'>[] = ancestry(folder)
    .toReversed()
    .map((owner) => ({ scope_kind: 'folder', owner }))
  if (sub !== undefined) owners.unshift({ scope_kind: 'user', owner: sub })
  const found: Record<string, string> = {}
  for (const key of PROVIDER_KEYS) {
    for (const owner of owners) {
      const name = { ...owner, key }
      const row = await secrets.find(tx, name)
      if (!row) continue
      found[key] = keyring.open(row.value, secretContext(name)).toString()
      break
    }
  }
  return found
}
