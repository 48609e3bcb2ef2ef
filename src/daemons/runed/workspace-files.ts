// What the prompt shows of the files in a workspace. The agent may put anything there: what is no plain file of a bearable
// size is as if it were not there.
import type { Layout } from '../../core/layout.ts'
import { splitFrontMatter } from '../../core/products.ts'
import type { PromptFiles } from '../../core/prompt-parts.ts'
import { openInWorkspace } from '../../core/workspace.ts'
import { Refusal } from '../../lib/refusal.ts'

const BYTES_MAX = 256 * 1024

export async function workspaceFiles(layout: Layout, folder: string): Promise<PromptFiles> {
  const read = (name: string) => readIfThere(layout, folder, `/home/node/${name}`)
  const [work, persona] = await Promise.all([read('work.md'), read('PERSONA.md')])
  return { work, persona: persona === undefined ? undefined : personaOf(persona) }
}

async function readIfThere(layout: Layout, folder: string, path: string): Promise<string | undefined> {
  try {
    await using file = await openInWorkspace(layout, folder, path, BYTES_MAX)
    return await file.readFile('utf8')
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
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
