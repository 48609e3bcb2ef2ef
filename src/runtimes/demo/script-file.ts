// `demo.script` in the workspace: the steps that the demo performs, for tests and demonstrations. `when <words>` starts a
// section for messages that contain these words; lines before the first section are for all other messages.
import { parseScript, type ScriptStep } from './script.ts'

interface ScriptSection {
  /** In lower case; absent for the section of all other messages. */
  readonly words?: string
  readonly lines: string[]
}

/** The steps for a message, an error message, or undefined if the file has no steps for it. */
export function scriptForMessage(text: string, message: string): readonly ScriptStep[] | string | undefined {
  const section = findSection(text, message)
  if (!section || section.lines.length === 0) return undefined
  return parseScript(section.lines.join('\n')) ?? 'demo.script has a line that is not a script step'
}

export function findSection(text: string, message: string): ScriptSection | undefined {
  const sections: ScriptSection[] = [{ lines: [] }]
  for (const line of text.split(/\r?\n/)) {
    const words = /^when (.+)$/.exec(line)?.[1]
    if (words !== undefined) sections.push({ words: words.trim().toLowerCase(), lines: [] })
    else if (line.trim() !== '' && !line.startsWith('#')) sections.at(-1)?.lines.push(line)
  }
  const lower = message.toLowerCase()
  return sections.find(({ words }) => words !== undefined && lower.includes(words)) ?? sections[0]
}
