// Parses a message to the demo into a request. Messages that match no phrase are plain talk.
import { trimTrailing } from '../../lib/text/trimming.ts'

export type DemoRequest =
  | { readonly kind: 'help' | 'links' | 'notes' | 'tasks' | 'who' }
  | { readonly kind: 'remind'; readonly ms: number; readonly text: string }
  | { readonly kind: 'find' | 'hook' | 'note' | 'reminder' | 'talk'; readonly text: string }
  | { readonly kind: 'spend'; readonly cents: number }
  | { readonly kind: 'delegate'; readonly folder: string; readonly text: string }

const UNITS_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const AMOUNT =
  /^(an?|\d{1,6}(?:\.\d{1,3})?)\s*(seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)\b\s*(?:and\s+)?/i
const CENTS_MAX = 1_000_000

const PHRASES: readonly (readonly [RegExp, (words: readonly string[]) => DemoRequest | undefined])[] = [
  [/^(?:help|\?|what can you do)$/is, () => ({ kind: 'help' })],
  [/^(?:my |show )?links$/is, () => ({ kind: 'links' })],
  [/^(?:my |show )?notes$/is, () => ({ kind: 'notes' })],
  [/^(?:my |show |list )?(?:tasks|reminders)$/is, () => ({ kind: 'tasks' })],
  [/^who(?: am i|'?s there| are you|ami)$/is, () => ({ kind: 'who' })],
  [/^remind me in (.+)$/is, ([rest = '']) => parseReminder(rest)],
  [/^reminder:\s*(.+)$/is, ([text = '']) => ({ kind: 'reminder', text })],
  [/^(?:find|search(?: for)?) (.+)$/is, ([text = '']) => ({ kind: 'find', text })],
  [/^hook ([a-z0-9][a-z0-9._-]*)$/is, ([text = '']) => ({ kind: 'hook', text })],
  [/^note:? (.+)$/is, ([text = '']) => ({ kind: 'note', text })],
  [/^spend (\d{1,7}) ?cents?$/is, ([cents = '']) => parseSpending(Number(cents))],
  [/^spend (?:\$|usd ?)(\d{1,5}(?:\.\d{1,2})?)$/is, ([usd = '']) => parseSpending(Math.round(Number(usd) * 100))],
  [/^ask ([a-z0-9][\w./-]*?)[,:]? (.+)$/is, ([folder = '', text = '']) => ({ kind: 'delegate', folder, text })],
]

export function parsePhrase(message: string): DemoRequest {
  const text = message.trim()
  const plain = trimTrailing(text, '.!?') || text
  for (const [phrase, parse] of PHRASES) {
    const [whole, ...words] = phrase.exec(text) ?? phrase.exec(plain) ?? []
    const request = whole === undefined ? undefined : parse(words.map((word) => word?.trim() ?? ''))
    if (request) return request
  }
  return { kind: 'talk', text }
}

function parseReminder(words: string): DemoRequest | undefined {
  let [rest, ms] = [words, 0]
  for (let found = AMOUNT.exec(rest); found; found = AMOUNT.exec(rest)) {
    const [whole, amount = '', unit = ''] = found
    ms += (/^an?$/i.test(amount) ? 1 : Number(amount)) * UNITS_MS[parseUnit(unit)]
    rest = rest.slice(whole.length)
  }
  const text = rest.replace(/^(?:to|that|about|of)\s+/i, '').trim()
  return ms > 0 && text !== '' ? { kind: 'remind', ms: Math.round(ms), text } : undefined
}

function parseUnit(word: string): keyof typeof UNITS_MS {
  const letter = word.slice(0, 1).toLowerCase()
  return letter === 's' || letter === 'h' || letter === 'd' ? letter : 'm'
}

function parseSpending(cents: number): DemoRequest | undefined {
  return cents > 0 && cents <= CENTS_MAX ? { kind: 'spend', cents } : undefined
}
