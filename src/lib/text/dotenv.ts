// Reads, writes and edits .env files. Errors name the line but never its content, which may be a secret.
//
// Not `util.parseEnv`: it reads `A=pass#word` as `pass`, `"x\"y"` as `x\`, a file with a byte order mark under the key
// `\uFEFFA`, and ignores or guesses at lines that are refused here (`A-B=x`, `A="x" more`, an unclosed quote). It would
// replace 40 lines and save 0.02 ms on a file of 80 lines; the writer below has to match the reader anyway.
import { refuse } from '../refusal.ts'

const LINE = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)$/s
const KEY = /^[A-Za-z_][A-Za-z0-9_]*$/
const PLAIN = /^[A-Za-z0-9_.:/@%+,=-]*$/
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\' }

/** Of duplicate keys the last counts. `source` names the file in a refusal. */
export function parseDotenv(text: string, source: string): Map<string, string> {
  const entries = new Map<string, string>()
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/)
  for (const [index, line] of lines.entries()) {
    if (/^\s*(?:#|$)/.test(line)) continue
    const position = `${source} line ${index + 1}`
    const [, key, rest] = LINE.exec(line) ?? []
    if (key === undefined || rest === undefined) refuse('invalid', `${position} must look like KEY=value`)
    entries.set(key, readValue(rest.trim(), position))
  }
  return entries
}

/** Writes a file that `parseDotenv` reads back as the same entries. */
export function formatDotenv(entries: Iterable<readonly [string, string]>): string {
  let text = ''
  for (const [key, value] of entries) {
    if (!KEY.test(key)) refuse('invalid', `${JSON.stringify(key)} must be letters, digits and "_", and no digit first`)
    text += `${key}=${writeValue(value)}\n`
  }
  return text
}

/**
 * Replaces the lines of existing keys, appends new keys, and removes keys whose value is `undefined`. Comments and other
 * lines stay unchanged.
 */
export function editDotenv(text: string, changes: ReadonlyMap<string, string | undefined>): string {
  const waiting = new Map(changes)
  const lines = text === '' ? [] : text.replace(/\r?\n$/, '').split(/\r?\n/)
  const kept = lines.flatMap((line) => {
    const key = /^\s*#/.test(line) ? undefined : LINE.exec(line.replace(/^\uFEFF/, ''))?.[1]
    if (key === undefined || !changes.has(key)) return [line]
    const value = waiting.get(key)
    // Remove further lines of a duplicate key.
    if (!waiting.delete(key) || value === undefined) return []
    return [formatDotenv([[key, value]]).trimEnd()]
  })
  const added = [...waiting].flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const]))
  return [...kept, formatDotenv(added)].join('\n')
}

function readValue(text: string, position: string): string {
  const quote = text[0]
  // A "#" inside a word belongs to the value, as in passwords; after a space it starts a comment.
  if (quote !== '"' && quote !== "'") return text.slice(0, startOfComment(text)).trimEnd()
  const end = closingQuote(text, quote)
  if (end === undefined)
    refuse('invalid', `${position} has no closing ${quote}`, 'write a line break inside "…" as \\n')
  if (!/^\s*(?:#.*)?$/s.test(text.slice(end + 1))) refuse('invalid', `${position} has text after its closing ${quote}`)
  const inner = text.slice(1, end)
  if (quote === "'") return inner
  return inner.replace(/\\(.)/gs, (pair, letter: string) => ESCAPES[letter] ?? pair)
}

function startOfComment(text: string): number {
  const at = text.search(/(?:^|\s)#/)
  return at < 0 ? text.length : at
}

function closingQuote(text: string, quote: string): number | undefined {
  for (let at = 1; at < text.length; at++) {
    if (text[at] === quote) return at
    if (text[at] === '\\' && quote === '"') at++
  }
  return undefined
}

function writeValue(value: string): string {
  if (PLAIN.test(value)) return value
  // Prefer single quotes: other readers (shells, compose) also leave "$" and "\" inside them alone.
  if (!/['\r\n]/.test(value)) return `'${value}'`
  const escaped = value.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\r', '\\r')
  return `"${escaped}"`
}
