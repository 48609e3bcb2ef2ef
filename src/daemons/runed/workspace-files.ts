// Reads the workspace files that the prompt shows. Anything but a regular file of limited size counts as missing, because
// agents may put anything there.
import { readWorkspaceTexts } from '../../core/groups/workspace-texts.ts'
import type { Layout } from '../../core/layout.ts'
import type { PromptFiles } from '../../core/prompt/prompt-parts.ts'
import { frontMatterValue } from '../../lib/text/front-matter.ts'

const BYTES_MAX = 256 * 1024

export function workspaceFiles(layout: Layout, folder: string): PromptFiles {
  const [work, persona] = readWorkspaceTexts(layout, folder, ['work.md', 'PERSONA.md'], BYTES_MAX)
  return { work, persona: persona === undefined ? undefined : personaOf(persona) }
}

/** `name` and `summary` of the front matter. */
export function personaOf(persona: string): PromptFiles['persona'] {
  const { text: summary } = frontMatterValue(persona, 'summary')
  return summary === '' ? undefined : { name: frontMatterValue(persona, 'name').text, summary }
}
