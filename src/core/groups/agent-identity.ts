// Who an agent is to people: name, picture, colour, greeting and starter prompts. Each comes from the settings of the folder, else
// from the front matter of its PERSONA.md. Agents may write that file, so a value that is no good there counts as missing.
import type { z } from 'zod'
import { frontMatterItems, frontMatterValue } from '../../lib/text/front-matter.ts'
import { replaceHidden } from '../../lib/text/hidden-characters.ts'
import { folderBaseName, ROOT_FOLDER } from '../access/tiers.ts'
import { line } from '../values.ts'
import { IDENTITY_SCHEMAS, readObject, STARTERS_MAX } from './group-config.ts'

export interface AgentIdentity {
  readonly name: string
  /** Path of an image, relative to the workspace. */
  readonly picture?: string | undefined
  /** `#rrggbb`. */
  readonly colour?: string | undefined
  readonly greeting?: string | undefined
  readonly starters?: readonly string[] | undefined
}

export interface AgentGroup {
  readonly folder: string
  readonly name: string
  /** JSON text. */
  readonly config?: string | undefined
}

/** `persona` is the text of PERSONA.md. `assistantName` names the agent of the folder main while it has no other name. */
export function agentIdentity(
  { folder, name, config }: AgentGroup,
  { persona = '', assistantName }: { readonly persona?: string | undefined; readonly assistantName: string },
): AgentIdentity {
  const members = readObject(config ?? '{}')
  const value = (key: string): string => frontMatterValue(persona, key).text
  return {
    name: agentName({ folder, name }, value('name'), assistantName),
    picture: firstValid(IDENTITY_SCHEMAS.picture, members.picture, value('picture')),
    colour: firstValid(IDENTITY_SCHEMAS.colour, members.colour, value('colour')),
    greeting: firstValid(IDENTITY_SCHEMAS.greeting, members.greeting, value('greeting')),
    starters: firstValid(
      IDENTITY_SCHEMAS.starters,
      members.starters,
      frontMatterItems(persona, 'starters').slice(0, STARTERS_MAX),
    ),
  }
}

/** A group that was given no name has that of its folder. Without characters that would make it look like another name. */
export function agentName({ folder, name }: AgentGroup, personaName: string, assistantName: string): string {
  const base = folderBaseName(folder)
  const persona = line(128).safeParse(personaName).success ? personaName : ''
  const others = [persona, folder === ROOT_FOLDER ? assistantName : '']
  const shown = (name === base ? others : [name, ...others]).map((each) => replaceHidden(each, '').trim())
  return shown.find(Boolean) ?? base
}

function firstValid<T>(schema: z.ZodType<T>, ...values: readonly unknown[]): T | undefined {
  for (const value of values) {
    const result = schema.safeParse(value)
    if (result.success) return result.data
  }
  return undefined
}
