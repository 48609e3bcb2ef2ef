// The phrases of an FTS5 query, read by the rules of FTS5's own grammar, to mark hits in a text and to count the words. FTS5
// decides what a query means and whether it is well-formed: any text can be read here.

/** One word after another; the last may be the beginning of a longer word. */
export interface Phrase {
  readonly words: readonly string[]
  readonly isPrefix: boolean
}

/** A word of the tokenizer `unicode61`: other characters separate words, and so do all marks but common diacritics. */
// biome-ignore lint/suspicious/noMisleadingCharacterClass: they are two ranges
export const WORD = /[\p{L}\p{N}\p{Co}][\p{L}\p{N}\p{Co}\u0300-\u0331]*/gu

const PART = /"((?:[^"]|"")*)"|([A-Za-z0-9_\u001a\u0080-\u{10ffff}]+)|\S/gu
const OPERATORS = new Set(['AND', 'OR', 'NOT'])

/** As `remove_diacritics 2` compares words. */
export function foldWord(word: string): string {
  if (/^[\u0000-\u007f]*$/.test(word)) return word.toLowerCase()
  // A Greek word may end with another small sigma than it has inside.
  return word.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase().replaceAll('ς', 'σ')
}

export function phrasesOf(query: string): Phrase[] {
  const parts = [...query.matchAll(PART)]
  const sign = (at: number): string | undefined => parts[at]?.[0]
  const phrases: { words: string[]; isPrefix: boolean }[] = []
  parts.forEach(([whole, quoted, bare], at) => {
    if (whole === '*' && phrases.length > 0) phrases[phrases.length - 1] = { ...lastOf(phrases), isPrefix: true }
    if (quoted === undefined && bare === undefined) return
    const isName = OPERATORS.has(whole) || sign(at + 1) === ':' || (whole === 'NEAR' && sign(at + 1) === '(')
    // The distance of a NEAR group follows its comma.
    if (quoted === undefined && (isName || sign(at - 1) === ',')) return
    const words = [...(quoted ?? whole).matchAll(WORD)].map(([word]) => foldWord(word))
    if (sign(at - 1) === '+' && phrases.length > 0) lastOf(phrases).words.push(...words)
    else phrases.push({ words, isPrefix: false })
  })
  return phrases.filter(({ words }) => words.length > 0)
}

function lastOf<T>(list: readonly T[]): T {
  const last = list.at(-1)
  if (last === undefined) throw new Error('the list is empty')
  return last
}
