// Replaces `sealed` in the runtime settings with the model keys that are encrypted in the store.
import type { Keyring } from '../core/secrets/keyring.ts'
import { MODEL_KEYS, type ModelKey, type ModelKeyName, modelKeyContext, SEALED } from '../core/secrets/model-keys.ts'
import { Refusal } from '../lib/refusal.ts'
import { ANTHROPIC_PUBLIC_URL, OPENAI_PUBLIC_URL, type RuntimeSettings } from './settings.ts'

type EndpointSettings = Pick<RuntimeSettings, 'OPENAI_BASE_URL' | 'ANTHROPIC_BASE_URL' | ModelKeyName>

export function hasSealedKeys(settings: EndpointSettings): boolean {
  return MODEL_KEYS.some((name) => settings[name] === SEALED)
}

/** The endpoint that a key of the instance is sent to. */
function findKeyEndpoint(settings: EndpointSettings, variable: ModelKeyName): string {
  return variable === 'OPENAI_API_KEY'
    ? (settings.OPENAI_BASE_URL ?? OPENAI_PUBLIC_URL)
    : (settings.ANTHROPIC_BASE_URL ?? ANTHROPIC_PUBLIC_URL)
}

/** Empty keys count as not set. A key that cannot be decrypted is omitted with a warning. */
export function openSealedKeys<S extends EndpointSettings>(
  settings: S,
  rows: readonly ModelKey[],
  keyring: Keyring,
  warn: (message: string) => void,
): S {
  const opened = MODEL_KEYS.map((name) => [name, openKey(name, settings, rows, keyring, warn)])
  return { ...settings, ...Object.fromEntries(opened) }
}

function openKey(
  variable: ModelKeyName,
  settings: EndpointSettings,
  rows: readonly ModelKey[],
  keyring: Keyring,
  warn: (message: string) => void,
): string | undefined {
  if (settings[variable] !== SEALED) return settings[variable] || undefined
  const endpoint = findKeyEndpoint(settings, variable)
  const row = rows.find((each) => each.variable === variable)
  try {
    if (row) return keyring.open(row.value, modelKeyContext({ variable, endpoint })).toString()
    warn(`${variable} is not in the store; set it with svc model`)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    warn(
      `${variable} cannot be used with ${endpoint}: it was set for another endpoint or SECRETS_KEY; set it with svc model`,
    )
  }
  return undefined
}
