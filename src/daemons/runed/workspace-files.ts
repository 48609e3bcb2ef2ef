// What the prompt shows of the files in a workspace. The agent may put anything there: what is no plain file of a bearable
// size is as if it were not there.
import type { Layout } from '../../core/layout.ts'
import { splitFrontMatter } from '../../core/products.ts'
import type { PromptFiles } from '../../core/prompt-parts.ts'
import { workspaceTexts } from '../../core/workspace-texts.ts'

const BYTES_MAX = 256 * 1024

export function workspaceFiles(layout: Layout, folder: string): PromptFiles {
  const [work, persona] = workspaceTexts(layout, folder, ['work.md', 'PERSONA.md'], BYTES_MAX)
  return { work, persona: persona === undefined ? undefined : personaOf(persona) }
}

/** `name` and `summary` of its front matter, one line each. */
export function personaOf(persona: string): PromptFiles['persona'] {
  const { matter = '' } = splitFrontMatter(persona)
  const value = (key: string): string => {
    const [, text = ''] = new RegExp(`^${key}:[ \\t]*(.*?)[ \\t\\r]*$`, 'm').exec(matter) ?? []
    return /^(["'])(.*)\1$/.exec(text)?.[2] ?? text
  }
  const summary = value('summary')
  return summary === '' ? undefined : { name: value('name'), summary }
}
