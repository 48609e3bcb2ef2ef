// What may be stored as a setting. See docs/decisions.md#settings-in-the-store.
import { MODEL_KEYS, SEALED } from '../core/secrets/model-keys.ts'
import { isSecretSetting } from '../core/secrets/secret-settings.ts'
import type { SettingRules } from '../core/settings/stored-settings.ts'
import { type Setting, setting, settingFault, TextSetting } from '../lib/settings.ts'
import { nearest } from '../lib/text/nearest-word.ts'
import { ALL_SETTINGS, isOpenIdKey } from './settings.ts'

/** Of keys that contain the name of an OpenID provider. */
const OPENID_SETTING = setting(TextSetting, undefined, 'part of an OpenID provider, to sign in with it')

/** Undefined if there is no such setting. */
export function findSetting(key: string): Setting | undefined {
  if (Object.hasOwn(ALL_SETTINGS, key)) return ALL_SETTINGS[key]
  return isOpenIdKey(key) ? OPENID_SETTING : undefined
}

/** Why the store cannot have this setting at all. */
export function storeFault(key: string, fixed: readonly string[]): string | undefined {
  const declared = findSetting(key)
  if (!declared) {
    const meant = nearest(key, Object.keys(ALL_SETTINGS))
    return `there is no setting ${key}${meant === undefined ? '' : `; did you mean ${meant}?`}`
  }
  if (declared.change === 'env') return `${key} can only be set in .env or the environment`
  return fixed.includes(key) ? `${key} cannot be set here: SETTINGS_FIXED names it` : undefined
}

export function settingRules(fixed: readonly string[]): SettingRules {
  return {
    fault: (key, text) => {
      const declared = findSetting(key)
      const fault = storeFault(key, fixed)
      if (fault !== undefined || !declared) return fault
      if (isModelKey(key))
        return ['', SEALED].includes(text) ? undefined : `${key} is set by svc model, with its endpoint`
      return text === SEALED ? `${key} must not be the word ${SEALED}` : settingFault(key, declared, text)
    },
    isSecret: (key, text) => !isModelKey(key) && isSecretSetting(key, text),
  }
}

/** Stored in a table of its own, bound to an endpoint. */
function isModelKey(key: string): boolean {
  return MODEL_KEYS.some((name) => name === key)
}

/** The setting SETTINGS_FIXED. */
export function parseFixedSettings(text: string): readonly string[] {
  return text.split(',').flatMap((key) => key.trim() || [])
}
