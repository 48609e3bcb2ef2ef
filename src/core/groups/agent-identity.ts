// Who an agent is to people: name, picture, colour, greeting and starter prompts. Each comes from the settings of the folder, else
// from the front matter of its PERSONA.md. Agents may write that file, so a value that is no good there counts as missing.
import { z } from 'zod'
import { frontMatterItems, frontMatterValue } from '../../lib/text/front-matter.ts'
import { folderBaseName, ROOT_FOLDER } from '../access/tiers.ts'
import { checkedText, codePoints, isPlainValue, line, PLAIN_VALUE_RULE } from '../values.ts'
import { readObject } from './group-config.ts'

export const IDENTITY_KEYS = ['picture', 'colour', 'greeting', 'starters'] as const
export type IdentityKey = (typeof IDENTITY_KEYS)[number]

export interface AgentIdentity {
  readonly name: string
  /** Path of an image, relative to the workspace. */
  readonly picture?: string | undefined
  /** `#rrggbb`. */
  readonly colour?: string | undefined
  readonly greeting?: string | undefined
  readonly starters?: readonly string[] | undefined
}

export const STARTERS_MAX = 4
const STARTER_LENGTH = 200
const GREETING_LENGTH = 1000

const Picture = checkedText((value) => {
  const isPath = value.split('/').every((part) => part !== '' && part !== '.' && part !== '..')
  if (!isPath || value.length > 255) return 'must be the path of an image in the workspace, such as me.png'
  return isPlainValue(value) ? undefined : PLAIN_VALUE_RULE
})

const Colour = checkedText((value) =>
  /^#[0-9a-f]{6}$/i.test(value) ? undefined : 'must be "#" and six hexadecimal digits, such as #4f5bd5',
)

const Greeting = checkedText((value) => {
  if (value.trim() === '') return 'must not be empty'
  if (codePoints(value) > GREETING_LENGTH) return `is longer than ${GREETING_LENGTH} characters`
  return isPlainValue(value) ? undefined : PLAIN_VALUE_RULE
})

const Starters = z
  .array(line(STARTER_LENGTH), 'must be messages, each in a line, or a JSON array of them')
  .min(1, 'must not be empty')
  .max(STARTERS_MAX, `has more than ${STARTERS_MAX} entries`)

const SCHEMAS = { picture: Picture, colour: Colour, greeting: Greeting, starters: Starters } as const

type Config = Readonly<Record<string, unknown>>

export interface NamedGroup {
  readonly folder: string
  readonly name: string
  /** JSON text. */
  readonly config?: string | undefined
}

/** What is wrong with the members of a group's config that describe the agent. */
export function identityFaults(config: Config): Partial<Record<IdentityKey, string>> {
  const faults: Partial<Record<IdentityKey, string>> = {}
  for (const key of IDENTITY_KEYS) {
    if (config[key] === undefined) continue
    const [issue] = SCHEMAS[key].safeParse(config[key]).error?.issues ?? []
    if (!issue) continue
    faults[key] = issue.path.length === 0 ? issue.message : `has a message that ${issue.message}`
  }
  return faults
}

/** `persona` is the text of PERSONA.md. `assistantName` names the agent of the folder main while it has no other name. */
export function agentIdentity(
  { folder, name, config }: NamedGroup,
  { persona = '', assistantName }: { readonly persona?: string | undefined; readonly assistantName: string },
): AgentIdentity {
  const members = readObject(config ?? '{}')
  const value = (key: string): string => frontMatterValue(persona, key).text
  return {
    // A group that was given no name has that of its folder.
    name: name === folderBaseName(folder) ? defaultName(folder, value('name'), assistantName) : name,
    picture: firstValid(Picture, members.picture, value('picture')),
    colour: firstValid(Colour, members.colour, value('colour')),
    greeting: firstValid(Greeting, members.greeting, value('greeting')),
    starters: firstValid(Starters, members.starters, frontMatterItems(persona, 'starters').slice(0, STARTERS_MAX)),
  }
}

function defaultName(folder: string, personaName: string, assistantName: string): string {
  if (line(128).safeParse(personaName).success) return personaName
  return folder === ROOT_FOLDER ? assistantName : folderBaseName(folder)
}

function firstValid<T>(schema: z.ZodType<T>, ...values: readonly unknown[]): T | undefined {
  for (const value of values) {
    const result = schema.safeParse(value)
    if (result.success) return result.data
  }
  return undefined
}
