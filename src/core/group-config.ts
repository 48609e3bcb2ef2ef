// The `config` of a group: settings of its runtime as JSON text. Some of them become arguments of a process.
import { compileText } from '../lib/glob.ts'
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

const TOOLS_MAX = 200
const TOOL_GLOB = /^[A-Za-z0-9_.*-]{1,128}$/

/** What is wrong with the member `tools`, to be said of it. */
export function toolsFault(text: string): string | undefined {
  const { tools } = readObject(text)
  if (tools === undefined) return undefined
  if (!Array.isArray(tools)) return 'must be a list of tool names such as ["reply", "send*"]'
  if (tools.length > TOOLS_MAX) return `has more than ${TOOLS_MAX} entries`
  const wrong = tools.find((glob) => typeof glob !== 'string' || !TOOL_GLOB.test(glob))
  if (wrong === undefined) return undefined
  return 'must be tool names of letters, digits, "_", "-" and ".", in which "*" stands for any characters'
}

/** Which tools the runs of a group are offered. */
export interface OfferedTools {
  readonly globs: readonly string[]
  has(tool: string): boolean
}

/** By the member `tools`; absent where all are. */
export function offeredTools({ tools }: Readonly<Record<string, unknown>>): OfferedTools | undefined {
  if (!Array.isArray(tools)) return undefined
  const globs = tools.filter((glob) => typeof glob === 'string')
  const matchers = globs.flatMap((glob) => compileText(glob) ?? [])
  return { globs, has: (tool) => matchers.some((matches) => matches(tool)) }
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
  const ofTools = toolsFault(text)
  if (ofTools !== undefined) {
    delete config.tools
    warn(`config.tools ${ofTools}; it is ignored`)
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
