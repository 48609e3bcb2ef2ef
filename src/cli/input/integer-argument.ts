// Parses integers of the command line. The verb checks their range.
import { refuse } from '../../lib/refusal.ts'

/** Stricter than `Number()`, which also accepts "", "1e3" and "0x10". */
export function parseInteger(name: string, text: string): number {
  const value = /^-?\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(value)) return value
  if (/^-?\d+$/.test(text)) {
    const [side, bound] = text.startsWith('-') ? ['least', Number.MIN_SAFE_INTEGER] : ['most', Number.MAX_SAFE_INTEGER]
    return refuse('invalid', `${name} must be at ${side} ${bound}`)
  }
  return refuse('invalid', `${name} must be a whole number, not ${JSON.stringify(text.slice(0, 40))}`)
}
