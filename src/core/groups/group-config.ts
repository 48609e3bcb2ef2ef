// The `config` column of a group: settings of its runtime as JSON text.
import { z } from 'zod'
import { compileText } from '../../lib/text/glob.ts'
import { replaceHidden } from '../../lib/text/hidden-characters.ts'
import { findJsonError, tryParseJson } from '../../lib/text/json.ts'
import { checkedText, codePoints, isPlainValue, line, PLAIN_VALUE_RULE } from '../values.ts'

/** Members whose texts become process arguments. */
const LAUNCH_MEMBERS = ['command', 'model', 'runtime', 'permission_mode'] as const

type ConfigKey = (typeof LAUNCH_MEMBERS)[number]

export function isConfigKey(key: string): key is ConfigKey {
  return LAUNCH_MEMBERS.some((member) => member === key)
}

/** Sets or removes a member; returns undefined if no member is left. */
export function withMember(text: string | undefined, key: string, value: unknown): string | undefined {
  const { [key]: _previous, ...others } = readObject(text ?? '{}')
  const changed = value === undefined ? others : { ...others, [key]: value }
  return Object.keys(changed).length === 0 ? undefined : JSON.stringify(changed)
}

/** A member as a person would type it: text as is, other values as JSON. */
export function memberText(text: string | undefined, key: string): string | undefined {
  const value = readObject(text ?? '{}')[key]
  return value === undefined || typeof value === 'string' ? value : JSON.stringify(value)
}

/** Launch members that contain control characters. */
export function unsafeMembers(text: string): string[] {
  const config = readObject(text)
  return LAUNCH_MEMBERS.filter((name) => Object.hasOwn(config, name) && !isPlain(config[name]))
}

const TOOLS_MAX = 200
const TOOL_GLOB = /^[A-Za-z0-9_.*-]{1,128}$/

export function toolsFault(text: string): string | undefined {
  const { tools } = readObject(text)
  if (tools === undefined) return undefined
  if (!Array.isArray(tools)) return 'must be a list of tool names such as ["reply", "send*"]'
  if (tools.length > TOOLS_MAX) return `has more than ${TOOLS_MAX} entries`
  if (tools.every((glob) => typeof glob === 'string' && TOOL_GLOB.test(glob))) return undefined
  return 'must be tool names of letters, digits, "_", "-" and ".", in which "*" matches any characters'
}

/** Directory that webhooks and other runs of reach `work` may write, unless `config.work_paths` says otherwise. */
export const DEFAULT_WORK_PATHS: readonly string[] = ['data']
const WORK_PATHS_MAX = 16
const WORK_PATH = /^[\p{L}\p{N}_][\p{L}\p{N} ._-]{0,63}$/u
/** What decides how later turns run. */
const INSTRUCTION_NAMES = ['agents.md', 'claude.md', 'gemini.md', 'persona.md', 'skills', 'system.md', 'work.md']

export function workPathsFault(text: string): string | undefined {
  const { work_paths: paths } = readObject(text)
  if (paths === undefined) return undefined
  if (!Array.isArray(paths)) return 'must be a list of directory names such as ["data", "reports"]'
  if (paths.length > WORK_PATHS_MAX) return `has more than ${WORK_PATHS_MAX} entries`
  for (const path of paths) {
    if (typeof path !== 'string' || !WORK_PATH.test(path))
      return 'must be names of directories at the top of the workspace, such as data, that do not start with a dot'
    if (INSTRUCTION_NAMES.includes(path.toLowerCase()))
      return `must not contain ${path}, which decides how later turns run`
  }
  return undefined
}

/** Top-level directories of the workspace that runs of reach `work` may write. */
export function workPaths({ work_paths: paths }: Readonly<Record<string, unknown>>): readonly string[] {
  return Array.isArray(paths) ? paths.filter((path) => typeof path === 'string') : DEFAULT_WORK_PATHS
}

export function visionFault(text: string): string | undefined {
  const { vision } = readObject(text)
  return vision === undefined || readVision({ vision }) ? undefined : 'must be auto, true or false'
}

/** Whether the model of the folder gets images; undefined if the setting of the instance decides. */
export function readVision({ vision }: Readonly<Record<string, unknown>> = {}): 'auto' | 'true' | 'false' | undefined {
  const text = typeof vision === 'boolean' ? String(vision) : vision
  return text === 'auto' || text === 'true' || text === 'false' ? text : undefined
}

/** Members that say who the agent is to people; see `agent-identity.ts`. */
export const IDENTITY_KEYS = ['picture', 'colour', 'greeting', 'starters'] as const
export type IdentityKey = (typeof IDENTITY_KEYS)[number]

/** Of a picture. */
export const PICTURE_BYTES_MAX = 256 * 1024
export const STARTERS_MAX = 4
const STARTER_LENGTH = 200
const GREETING_LENGTH = 1000

/** People would see nothing. */
function isBlank(text: string): boolean {
  return replaceHidden(text, '').trim() === ''
}

const Picture = checkedText((value) => {
  const isPath = value.split('/').every((part) => part !== '' && part !== '.' && part !== '..')
  if (!isPath || value.length > 255) return 'must be the path of an image in the workspace, such as me.png'
  return isPlainValue(value) ? undefined : PLAIN_VALUE_RULE
})

const Colour = checkedText((value) =>
  /^#[0-9a-f]{6}$/i.test(value) ? undefined : 'must be "#" and six hexadecimal digits, such as #4f5bd5',
)

const Greeting = checkedText((value) => {
  if (isBlank(value)) return 'must not be empty'
  if (codePoints(value) > GREETING_LENGTH) return `is longer than ${GREETING_LENGTH} characters`
  return isPlainValue(value) ? undefined : PLAIN_VALUE_RULE
})

const Starters = z
  .array(
    line(STARTER_LENGTH).refine((value) => !isBlank(value), 'must not be empty'),
    'must be messages, each in a line, or a JSON array of them',
  )
  .min(1, 'must not be empty')
  .max(STARTERS_MAX, `has more than ${STARTERS_MAX} entries`)

export const IDENTITY_SCHEMAS = { picture: Picture, colour: Colour, greeting: Greeting, starters: Starters } as const

/** What is wrong with the members of a group's config that describe the agent. */
export function identityFaults(text: string): Partial<Record<IdentityKey, string>> {
  const config = readObject(text)
  const faults: Partial<Record<IdentityKey, string>> = {}
  for (const key of IDENTITY_KEYS) {
    if (config[key] === undefined) continue
    const [issue] = IDENTITY_SCHEMAS[key].safeParse(config[key]).error?.issues ?? []
    if (!issue) continue
    faults[key] = issue.path.length === 0 ? issue.message : `has a message that ${issue.message}`
  }
  return faults
}

export interface OfferedTools {
  readonly globs: readonly string[]
  has(tool: string): boolean
}

/** Undefined if `config.tools` is not set: runs are offered all tools. */
export function offeredTools({ tools }: Readonly<Record<string, unknown>>): OfferedTools | undefined {
  if (!Array.isArray(tools)) return undefined
  const globs = tools.filter((glob) => typeof glob === 'string')
  const matchers = globs.flatMap((glob) => compileText(glob) ?? [])
  return { globs, has: (tool) => matchers.some((matches) => matches(tool)) }
}

/** The config without invalid members: rows written before a check was added may fail it. */
export function launchConfig(
  text: string | undefined,
  warn: (message: string) => void,
): Readonly<Record<string, unknown>> {
  if (text === undefined) return {}
  const jsonError = findJsonError(text)
  if (jsonError) warn(`config ${jsonError} and is ignored`)
  const config = { ...readObject(text) }
  for (const name of unsafeMembers(text)) {
    delete config[name]
    warn(`config.${name} contains control characters and is ignored`)
  }
  const fault = toolsFault(text)
  if (fault !== undefined) {
    delete config.tools
    warn(`config.tools ${fault}; it is ignored`)
  }
  const pathsFault = workPathsFault(text)
  if (pathsFault !== undefined) {
    config.work_paths = []
    warn(`config.work_paths ${pathsFault}; it is ignored, and nothing is writable at reach work`)
  }
  return config
}

export function readObject(text: string): Readonly<Record<string, unknown>> {
  const value = tryParseJson(text)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
}

function isPlain(value: unknown): boolean {
  if (typeof value === 'string') return isPlainValue(value)
  if (typeof value !== 'object' || value === null) return true
  return Object.entries(value).every(([name, member]) => isPlainValue(name) && isPlain(member))
}
