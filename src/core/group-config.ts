// The `config` of a group: settings of its runtime as JSON text. Some of them become arguments of a process.
import { jsonFault, tryJson } from '../lib/json.ts'
import { isPlainValue } from './values.ts'

/** Members whose texts reach a command line. */
const LAUNCH_MEMBERS = ['command', 'model', 'runtime', 'permission_mode'] as const

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
