// Short codes that a person reads in one place and types in another.
import type { Random } from '../../lib/clock.ts'

/** Without vowels, so that no words appear, and without characters that look alike. */
const LETTERS = 'BCDFGHJKLMNPQRSTVWXZ'

export function createUserCode(random: Random, length: number): string {
  let code = ''
  while (code.length < length) {
    // Higher bytes would prefer some letters.
    for (const byte of random.bytes(16)) {
      if (byte < 240 && code.length < length) code += LETTERS[byte % LETTERS.length]
    }
  }
  return code
}

/** The one spelling of a code that a person typed; undefined if it cannot be one. */
export function canonicalUserCode(typed: string, length: number): string | undefined {
  if (!/^[A-Za-z\s-]{1,20}$/.test(typed)) return undefined
  const code = typed.replace(/[\s-]/g, '').toUpperCase()
  return code.length === length && [...code].every((letter) => LETTERS.includes(letter)) ? code : undefined
}
