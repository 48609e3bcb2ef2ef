// Parses a message to the demo into a request. Messages that match no phrase are plain talk.
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
  [/^(?:help|\?|what can you do)$/, () => ({ kind: 'help' })],
  [/^(?:my |show )?links$/, () => ({ kind: 'links' })],
  [/^(?:my |show )?notes$/, () => ({ kind: 'notes' })],
  [/^(?:my |show |list )?(?:tasks|reminders)$/, () => ({ kind: 'tasks' })],
  [/^who(?: am i|'?s there| are you|ami)$/, () => ({ kind: 'who' })],
  [/^remind me in (.+)$/, ([rest = '']) => parseReminder(rest)],
  [/^reminder:\s*(.+)$/, ([text = '']) => ({ kind: 'reminder', text })],
  [/^(?:find|search(?: for)?) (.+)$/, ([text = '']) => ({ kind: 'find', text })],
  [/^hook ([a-z0-9][a-z0-9._-]*)$/, ([text = '']) => ({ kind: 'hook', text })],
  [/^note:? (.+)$/, ([text = '']) => ({ kind: 'note', text })],
  [/^spend (\d{1,7}) ?cents?$/, ([cents = '']) => parseSpending(Number(cents))],
  [/^spend (?:\$|usd ?)(\d{1,5}(?:\.\d{1,2})?)$/, ([usd = '']) => parseSpending(Math.round(Number(usd) * 100))],
  [/^ask ([a-z0-9][\w./-]*?)[,:]? (.+)$/, ([folder = '', text = '']) => ({ kind: 'delegate', folder, text })],
]

export function parsePhrase(message: string): DemoRequest {
  const text = message.trim()
  const plain = text.replace(/[.!?]+$/, '') || text
  for (const [phrase, parse] of PHRASES) {
    const pattern = new RegExp(phrase.source, 'is')
    const [whole, ...words] = pattern.exec(text) ?? pattern.exec(plain) ?? []
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
