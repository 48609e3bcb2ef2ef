// Parses a script for the demo: a message in which every line starts with a slash command.
import { readDuration } from '../../lib/text/duration.ts'
import { tryParseJson } from '../../lib/text/json.ts'

export type ScriptStep =
  | { readonly do: 'say' | 'status' | 'fail' | 'result'; readonly text: string }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'tool'; readonly name: string; readonly args: Readonly<Record<string, unknown>> }
  | { readonly do: 'crash' | 'hang' }

const STEPS_MAX = 2000
const LENGTH_MAX = 65_536
const WAIT_MAX_MS = 60_000
const LINE = /^\/(say|status|wait|count|fail|silent|result|tool|crash|hang)\b/

/** The steps, or an error message; undefined if the text is not a script. */
export function parseScript(text: string): readonly ScriptStep[] | string | undefined {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '')
  if (lines.length === 0 || !lines.every((line) => LINE.test(line))) return undefined
  const steps: ScriptStep[] = []
  for (const line of lines) {
    const [, word = '', rest = ''] = /^\/(\w+)\s*(.*)$/s.exec(line) ?? []
    const parsed = parseLine(word, rest.trim())
    if (typeof parsed === 'string') return `${word}: ${parsed}`
    steps.push(...parsed)
  }
  return steps.length > STEPS_MAX ? `a script has at most ${STEPS_MAX} steps` : steps
}

function parseLine(word: string, rest: string): readonly ScriptStep[] | string {
  switch (word) {
    case 'say':
    case 'status':
    case 'result':
      return rest === '' ? 'needs a text' : [{ do: word, text: rest }]
    case 'fail':
      return [{ do: 'fail', text: rest === '' ? 'the script failed on purpose' : rest }]
    case 'wait': {
      const ms = readDuration(rest)
      return ms === undefined || ms > WAIT_MAX_MS
        ? 'needs a duration of at most a minute, such as 2s'
        : [{ do: 'wait', ms }]
    }
    case 'count':
      return parseCount(rest)
    case 'tool':
      return parseToolCall(rest)
    case 'crash':
    case 'hang':
      return [{ do: word }]
    default:
      return []
  }
}

/** `/tool find_messages {"query": "tea"}` calls the tool and sends its result. */
function parseToolCall(rest: string): readonly ScriptStep[] | string {
  const [, name = '', json = ''] = /^([a-z_][\w.]*)\s*(.*)$/is.exec(rest) ?? []
  if (name === '') return 'needs the name of a tool'
  const args = tryParseJson(json || '{}')
  if (typeof args === 'object' && args !== null && !Array.isArray(args))
    return [{ do: 'tool', name, args: { ...args } }]
  return `the arguments of ${name} must be a JSON object`
}

/** `/count 500 2000` sends 500 messages of up to 2000 characters; the lengths are the same each time. */
function parseCount(rest: string): readonly ScriptStep[] | string {
  const [, messages = '', length = '0'] = /^(\d{1,4})(?: (\d{1,5}))?$/.exec(rest) ?? []
  const [count, max] = [Number(messages), Number(length)]
  if (messages === '' || count > STEPS_MAX || max > LENGTH_MAX)
    return `needs a number up to ${STEPS_MAX} and optionally a length up to ${LENGTH_MAX}`
  return Array.from({ length: count }, (_, at) => {
    const padding = max === 0 ? '' : ` ${'·'.repeat((at * 7919) % max)}`
    return { do: 'say', text: `${at + 1}${padding}` } as const
  })
}
