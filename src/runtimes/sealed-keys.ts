// The settings of the runtimes with the keys that .env leaves to the store.

import type { Keyring } from '../core/secrets/keyring.ts'
import { MODEL_KEYS, type ModelKey, type ModelKeyName, modelKeyContext, SEALED } from '../core/secrets/model-keys.ts'
import { Refusal } from '../lib/refusal.ts'
import { ANTHROPIC_PUBLIC_URL, OPENAI_PUBLIC_URL, type RuntimeSettings } from './settings.ts'

type EndpointSettings = Pick<RuntimeSettings, 'OPENAI_BASE_URL' | 'ANTHROPIC_BASE_URL' | ModelKeyName>

export function hasSealedKeys(settings: EndpointSettings): boolean {
  return MODEL_KEYS.some((name) => settings[name] === SEALED)
}

/** The endpoint that the instance uses a key with. */
export function endpointOfKey(settings: EndpointSettings, variable: ModelKeyName): string {
  return variable === 'OPENAI_API_KEY'
    ? (settings.OPENAI_BASE_URL ?? OPENAI_PUBLIC_URL)
    : (settings.ANTHROPIC_BASE_URL ?? ANTHROPIC_PUBLIC_URL)
}

/** An empty key is none. A key that does not open is left out, and `warn` is told why. */
export function openSealedKeys<S extends EndpointSettings>(
  settings: S,
  rows: readonly ModelKey[],
  keyring: Keyring,
  warn: (sentence: string) => void,
): S {
  const opened = MODEL_KEYS.map((name) => [name, keyOf(name, settings, rows, keyring, warn)])
  return { ...settings, ...Object.fromEntries(opened) }
}

function keyOf(
  variable: ModelKeyName,
  settings: EndpointSettings,
  rows: readonly ModelKey[],
  keyring: Keyring,
  warn: (sentence: string) => void,
): string | undefined {
  if (settings[variable] !== SEALED) return settings[variable] || undefined
  const endpoint = endpointOfKey(settings, variable)
  const row = rows.find((each) => each.variable === variable)
  try {
    if (row) return keyring.open(row.value, modelKeyContext({ variable, endpoint })).toString()
    warn(`${variable} is not in the store: svc model sets it`)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    warn(
      `${variable} cannot be used with ${endpoint}: it was set for another endpoint or SECRETS_KEY; svc model sets it`,
    )
  }
  return undefined
}
