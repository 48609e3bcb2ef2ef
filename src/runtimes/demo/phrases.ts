// What people say to the demo, as deeds. It knows a few phrases; anything else is only talk.
export type DemoRequest =
  | { readonly ask: 'help' | 'links' | 'notes' | 'tasks' | 'who' }
  | { readonly ask: 'remind'; readonly ms: number; readonly text: string }
  | { readonly ask: 'find' | 'hook' | 'note' | 'reminder' | 'talk'; readonly text: string }
  | { readonly ask: 'spend'; readonly cents: number }
  | { readonly ask: 'delegate'; readonly folder: string; readonly text: string }

const UNITS_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const AMOUNT =
  /^(an?|\d{1,6}(?:\.\d{1,3})?)\s*(seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)\b\s*(?:and\s+)?/i
const CENTS_MAX = 1_000_000

const PHRASES: readonly (readonly [RegExp, (words: readonly string[]) => DemoRequest | undefined])[] = [
  [/^(?:help|\?|what can you do)$/, () => ({ ask: 'help' })],
  [/^(?:my |show )?links$/, () => ({ ask: 'links' })],
  [/^(?:my |show )?notes$/, () => ({ ask: 'notes' })],
  [/^(?:my |show |list )?(?:tasks|reminders)$/, () => ({ ask: 'tasks' })],
  [/^who(?: am i|'?s there| are you|ami)$/, () => ({ ask: 'who' })],
  [/^remind me in (.+)$/, ([rest = '']) => remindOf(rest)],
  [/^reminder:\s*(.+)$/, ([text = '']) => ({ ask: 'reminder', text })],
  [/^(?:find|search(?: for)?) (.+)$/, ([text = '']) => ({ ask: 'find', text })],
  [/^hook ([a-z0-9][a-z0-9._-]*)$/, ([text = '']) => ({ ask: 'hook', text })],
  [/^note:? (.+)$/, ([text = '']) => ({ ask: 'note', text })],
  [/^spend (\d{1,7}) ?cents?$/, ([cents = '']) => spendOf(Number(cents))],
  [/^spend (?:\$|usd ?)(\d{1,5}(?:\.\d{1,2})?)$/, ([usd = '']) => spendOf(Math.round(Number(usd) * 100))],
  [/^ask ([a-z0-9][\w./-]*?)[,:]? (.+)$/, ([folder = '', text = '']) => ({ ask: 'delegate', folder, text })],
]

export function parsePhrase(said: string): DemoRequest {
  const text = said.trim()
  const plain = text.replace(/[.!?]+$/, '') || text
  for (const [phrase, read] of PHRASES) {
    const flags = new RegExp(phrase.source, 'is')
    const [whole, ...words] = flags.exec(text) ?? flags.exec(plain) ?? []
    const ask = whole === undefined ? undefined : read(words.map((word) => word?.trim() ?? ''))
    if (ask) return ask
  }
  return { ask: 'talk', text }
}

function remindOf(said: string): DemoRequest | undefined {
  let [rest, ms] = [said, 0]
  for (let found = AMOUNT.exec(rest); found; found = AMOUNT.exec(rest)) {
    const [whole, amount = '', unit = ''] = found
    ms += (/^an?$/i.test(amount) ? 1 : Number(amount)) * UNITS_MS[unitOf(unit)]
    rest = rest.slice(whole.length)
  }
  const text = rest.replace(/^(?:to|that|about|of)\s+/i, '').trim()
  return ms > 0 && text !== '' ? { ask: 'remind', ms: Math.round(ms), text } : undefined
}

function unitOf(word: string): keyof typeof UNITS_MS {
  const letter = word.slice(0, 1).toLowerCase()
  return letter === 's' || letter === 'h' || letter === 'd' ? letter : 'm'
}

function spendOf(cents: number): DemoRequest | undefined {
  return cents > 0 && cents <= CENTS_MAX ? { ask: 'spend', cents } : undefined
}
