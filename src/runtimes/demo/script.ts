// What the demo is told to do: a message of lines that each start with a slash.
import { readDuration } from '../../lib/text/duration.ts'
import { tryParseJson } from '../../lib/text/json.ts'

export type ScriptStep =
  | { readonly do: 'say' | 'status' | 'fail' | 'result'; readonly text: string }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'tool'; readonly name: string; readonly args: Readonly<Record<string, unknown>> }
  | { readonly do: 'crash' | 'hang' }

const FRAMES_MAX = 2000
const BYTES_MAX = 65_536
const WAIT_MAX_MS = 60_000
const LINE = /^\/(say|status|wait|count|fail|silent|result|tool|crash|hang)\b/

/** The steps, or what is wrong with a line; nothing where it is no script. */
export function parseScript(text: string): readonly ScriptStep[] | string | undefined {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '')
  if (lines.length === 0 || !lines.every((line) => LINE.test(line))) return undefined
  const steps: ScriptStep[] = []
  for (const line of lines) {
    const [, word = '', rest = ''] = /^\/(\w+)\s*(.*)$/s.exec(line) ?? []
    const read = readLine(word, rest.trim())
    if (typeof read === 'string') return `${word}: ${read}`
    steps.push(...read)
  }
  return steps.length > FRAMES_MAX ? `a script has at most ${FRAMES_MAX} steps` : steps
}

function readLine(word: string, rest: string): readonly ScriptStep[] | string {
  switch (word) {
    case 'say':
    case 'status':
    case 'result':
      return rest === '' ? 'what?' : [{ do: word, text: rest }]
    case 'fail':
      return [{ do: 'fail', text: rest === '' ? 'it was told to fail' : rest }]
    case 'wait': {
      const ms = readDuration(rest)
      return ms === undefined || ms > WAIT_MAX_MS ? 'a duration up to a minute, such as 2s' : [{ do: 'wait', ms }]
    }
    case 'count':
      return countSteps(rest)
    case 'tool':
      return toolStep(rest)
    case 'crash':
    case 'hang':
      return [{ do: word }]
    default:
      return []
  }
}

/** `/tool find_messages {"query": "tea"}`: calls it, and says what it answers. */
function toolStep(rest: string): readonly ScriptStep[] | string {
  const [, name = '', json = ''] = /^([a-z_][\w.]*)\s*(.*)$/is.exec(rest) ?? []
  if (name === '') return 'which?'
  const args = tryParseJson(json || '{}')
  if (typeof args === 'object' && args !== null && !Array.isArray(args))
    return [{ do: 'tool', name, args: { ...args } }]
  return `what follows ${name} must be a JSON object`
}

/** `/count 500 2000`: so many messages, of lengths up to so many characters, the same each time. */
function countSteps(rest: string): readonly ScriptStep[] | string {
  const [, frames = '', bytes = '0'] = /^(\d{1,4})(?: (\d{1,5}))?$/.exec(rest) ?? []
  const [count, max] = [Number(frames), Number(bytes)]
  if (frames === '' || count > FRAMES_MAX || max > BYTES_MAX)
    return `a number up to ${FRAMES_MAX}, and perhaps a length`
  return Array.from({ length: count }, (_, at) => {
    const padding = max === 0 ? '' : ` ${'·'.repeat((at * 7919) % max)}`
    return { do: 'say', text: `${at + 1}${padding}` } as const
  })
}
