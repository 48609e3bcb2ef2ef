// The `config` of a group: settings of its runtime as JSON text. Some of them become arguments of a process.
import { jsonFault, tryJson } from '../lib/json.ts'
import { isPlainValue } from './values.ts'

/** Members whose texts reach a command line. */
const LAUNCH_MEMBERS = ['command', 'model', 'runtime', 'permission_mode'] as const

export type ConfigKey = (typeof LAUNCH_MEMBERS)[number]

export function isConfigKey(key: string): key is ConfigKey {
  return LAUNCH_MEMBERS.some((member) => member === key)
}

/** JSON text of an object with one member set, or removed; nothing where no member is left. */
export function withMember(text: string | undefined, key: string, value: unknown): string | undefined {
  const { [key]: _before, ...others } = readObject(text ?? '{}')
  const changed = value === undefined ? others : { ...others, [key]: value }
  return Object.keys(changed).length === 0 ? undefined : JSON.stringify(changed)
}

/** One member as it is typed: a text is itself, all else is JSON. */
export function memberText(text: string | undefined, key: string): string | undefined {
  const value = readObject(text ?? '{}')[key]
  return value === undefined || typeof value === 'string' ? value : JSON.stringify(value)
}

/** Launch members with a control character in one of their texts. Text that is not a JSON object has none. */
export function unsafeMembers(text: string): string[] {
  const config = readObject(text)
  return LAUNCH_MEMBERS.filter((name) => Object.hasOwn(config, name) && !isPlain(config[name]))
}

/** The config as a run may use it. Rows written before control characters were refused may still hold some. */
export function launchConfig(
  text: string | undefined,
  warn: (sentence: string) => void,
): Readonly<Record<string, unknown>> {
  if (text === undefined) return {}
  const fault = jsonFault(text)
  if (fault) warn(`config ${fault} and is ignored`)
  const config = { ...readObject(text) }
  for (const name of unsafeMembers(text)) {
    delete config[name]
    warn(`config.${name} contains control characters and is ignored`)
  }
  return config
}

function readObject(text: string): Readonly<Record<string, unknown>> {
  const value = tryJson(text)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
}

function isPlain(value: unknown): boolean {
  if (typeof value === 'string') return isPlainValue(value)
  if (typeof value !== 'object' || value === null) return true
  return Object.entries(value).every(([name, member]) => isPlainValue(name) && isPlain(member))
}
