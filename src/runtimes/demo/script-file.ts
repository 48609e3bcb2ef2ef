// `demo.script` in the workspace: makes the demo say and do what the file says, for tests and for showing something.
// `when <words>` starts a part for messages that hold these words; what stands before the first is for all others.
import { parseScript, type ScriptStep } from './script.ts'

interface Part {
  /** In small letters; absent for what fits everything. */
  readonly words?: string
  readonly lines: string[]
}

/** The steps for this message, a sentence about what is wrong, or nothing where the file has no word about it. */
export function scriptForMessage(text: string, said: string): readonly ScriptStep[] | string | undefined {
  const fitting = findSection(text, said)
  if (!fitting || fitting.lines.length === 0) return undefined
  return parseScript(fitting.lines.join('\n')) ?? 'demo.script has a line that is no step of a script'
}

export function findSection(text: string, said: string): Part | undefined {
  const parts: Part[] = [{ lines: [] }]
  for (const line of text.split(/\r?\n/)) {
    const words = /^when (.+)$/.exec(line)?.[1]
    if (words !== undefined) parts.push({ words: words.trim().toLowerCase(), lines: [] })
    else if (line.trim() !== '' && !line.startsWith('#')) parts.at(-1)?.lines.push(line)
  }
  const small = said.toLowerCase()
  return parts.find(({ words }) => words !== undefined && small.includes(words)) ?? parts[0]
}
