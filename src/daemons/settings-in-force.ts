// Every setting of an instance with its value in force and where that comes from, for people. Secret values are never part of it.
import { CELL_SETTINGS } from '../cell/settings.ts'
import { SEALED } from '../core/secrets/model-keys.ts'
import { isSecretSetting } from '../core/secrets/secret-settings.ts'
import { Refusal } from '../lib/refusal.ts'
import { readSettings, type Setting, type SettingSource } from '../lib/settings.ts'
import { RUNTIME_SETTINGS } from '../runtimes/settings.ts'
import { ALL_SETTINGS, isOpenIdKey } from './settings.ts'

export interface SettingInForce {
  readonly key: string
  readonly about: string
  /** Absent if it has no value, or a secret one. */
  readonly value?: string
  readonly isSecret: boolean
  /** Name of its source, `default`, or `not set`. */
  readonly origin: string
  readonly isDefault: boolean
  readonly initial?: string
  /** Why the process cannot use its value. */
  readonly fault?: string
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
  return [
    ...Object.entries(ALL_SETTINGS).map(([key, declared]) =>
      describeSetting(key, declared, { inForce: isReread(key) ? current : sources, current }),
    ),
    ...[...named].sort().map((key) => describeSetting(key, OPENID_SETTING, { inForce: sources, current })),
  ]
}

const OPENID_SETTING = { initial: undefined, about: 'part of an OpenID provider, to sign in with it' }

/** The model settings of a new turn need no restart. */
function isReread(key: string): boolean {
  return Object.hasOwn(RUNTIME_SETTINGS, key) && !Object.hasOwn(CELL_SETTINGS, key)
}

function describeSetting(
  key: string,
  declared: Pick<Setting, 'initial' | 'about'> & Partial<Setting>,
  { inForce, current }: Readonly<Record<'inForce' | 'current', readonly SettingSource[]>>,
): SettingInForce {
  const { initial, about } = declared
  const { text, origin } = findValue(key, initial, inForce)
  const isSecret = text !== undefined && origin !== 'default' && isSecretSetting(key, text)
  const fault = declared.schema && findFault(key, { schema: declared.schema, initial, about }, inForce)
  return {
    key,
    about,
    ...(text === undefined || isSecret ? {} : { value: text === SEALED ? SEALED_TEXT : text }),
    isSecret,
    origin,
    isDefault: origin === 'default' || origin === 'not set',
    ...(initial === undefined ? {} : { initial }),
    ...(fault === undefined ? {} : { fault }),
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
