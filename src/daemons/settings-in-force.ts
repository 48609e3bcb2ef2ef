// Every setting of an instance with its value in force and where that comes from, for people. Secret values are never part of it.
import { SEALED } from '../core/secrets/model-keys.ts'
import { isSecretSetting } from '../core/secrets/secret-settings.ts'
import { Refusal } from '../lib/refusal.ts'
import { readSettings, type Setting, type SettingChange, type SettingSource } from '../lib/settings.ts'
import { findSetting } from './setting-rules.ts'
import { ALL_SETTINGS, isOpenIdKey } from './settings.ts'

export interface SettingInForce {
  readonly key: string
  readonly about: string
  /** How a new value takes effect; those of `env` cannot be in the store. */
  readonly change: SettingChange | 'restart'
  /** Absent if it has no value, or a secret one. */
  readonly value?: string
  readonly isSecret: boolean
  /** Name of its source, `default`, or `not set`. */
  readonly origin: string
  readonly isDefault: boolean
  readonly initial?: string
  /** Why the process cannot use its value. */
  readonly fault?: string
  /** A source with another value, which does not count. */
  readonly overrides?: string
  /** The sources have another value since the process started. */
  readonly needsRestart: boolean
}

/** How a sealed key is shown. */
const SEALED_TEXT = 'in the store, encrypted'

interface FoundValue {
  readonly text: string | undefined
  readonly origin: string
}

/** In the order of their declarations, then those whose keys contain a name. `current`: the sources as they are now. */
export function listSettingsInForce(
  sources: readonly SettingSource[],
  current: readonly SettingSource[] = sources,
): SettingInForce[] {
  const named = new Set([...sources, ...current].flatMap((source) => [...(source.keys?.() ?? [])].filter(isOpenIdKey)))
  return [...Object.keys(ALL_SETTINGS), ...[...named].sort()].flatMap(
    (key) => describeSetting(key, sources, current) ?? [],
  )
}

/** Undefined if there is no such setting. */
export function describeSetting(
  key: string,
  sources: readonly SettingSource[],
  current: readonly SettingSource[] = sources,
): SettingInForce | undefined {
  const declared = findSetting(key)
  if (!declared) return undefined
  const { initial, about, change = 'restart' } = declared
  const inForce = change === 'live' ? current : sources
  const { text, origin } = findValue(key, initial, inForce)
  const isSecret = text !== undefined && origin !== 'default' && isSecretSetting(key, text)
  const fault = findFault(key, declared, inForce)
  const hidden = inForce.find((each) => each.name !== origin && ![undefined, text].includes(each.get(key)))
  return {
    key,
    about,
    change,
    ...(text === undefined || isSecret ? {} : { value: text === SEALED ? SEALED_TEXT : text }),
    isSecret,
    origin,
    isDefault: origin === 'default' || origin === 'not set',
    ...(initial === undefined ? {} : { initial }),
    ...(fault === undefined ? {} : { fault }),
    ...(hidden ? { overrides: hidden.name } : {}),
    needsRestart: findValue(key, initial, current).text !== text,
  }
}

function findValue(key: string, initial: string | undefined, sources: readonly SettingSource[]): FoundValue {
  const source = sources.find((each) => each.get(key) !== undefined)
  if (source) return { text: source.get(key), origin: source.name }
  return { text: initial, origin: initial === undefined ? 'not set' : 'default' }
}

/** The message names no secret value: see `readSettings`. */
function findFault(key: string, declared: Setting, sources: readonly SettingSource[]): string | undefined {
  try {
    readSettings({ [key]: declared }, sources)
    return undefined
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return error.message
  }
}
