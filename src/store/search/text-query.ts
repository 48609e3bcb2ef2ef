// Parses the phrases of an FTS5 query by the grammar of FTS5, to highlight hits and to count words. It accepts any text: FTS5
// itself validates queries.

/** Consecutive words. `isPrefix`: the last one matches longer words too. */
export interface Phrase {
  readonly words: readonly string[]
  readonly isPrefix: boolean
}

/** A word of the tokenizer `unicode61`: all other characters and all marks except common diacritics separate words. */
// biome-ignore lint/suspicious/noMisleadingCharacterClass: these are two ranges
export const WORD = /[\p{L}\p{N}\p{Co}][\p{L}\p{N}\p{Co}\u0300-\u0331]*/gu

const TOKEN = /"((?:[^"]|"")*)"|([A-Za-z0-9_\u001a\u0080-\u{10ffff}]+)|\S/gu
const OPERATORS = new Set(['AND', 'OR', 'NOT'])

/** Folds a word as `remove_diacritics 2` does. */
export function foldWord(word: string): string {
  if (/^[\u0000-\u007f]*$/.test(word)) return word.toLowerCase()
  // Greek has a second small sigma for the end of a word.
  return word.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase().replaceAll('ς', 'σ')
}

export function parsePhrases(query: string): Phrase[] {
  const tokens = [...query.matchAll(TOKEN)]
  const tokenAt = (at: number): string | undefined => tokens[at]?.[0]
  const phrases: { words: string[]; isPrefix: boolean }[] = []
  tokens.forEach(([token, quoted, bare], at) => {
    const last = phrases.at(-1)
    if (token === '*' && last) last.isPrefix = true
    if (quoted === undefined && bare === undefined) return
    const isName = OPERATORS.has(token) || tokenAt(at + 1) === ':' || (token === 'NEAR' && tokenAt(at + 1) === '(')
    // The distance of a NEAR group follows its comma.
    if (quoted === undefined && (isName || tokenAt(at - 1) === ',')) return
    const words = [...(quoted ?? token).matchAll(WORD)].map(([word]) => foldWord(word))
    if (tokenAt(at - 1) === '+' && last) last.words.push(...words)
    else phrases.push({ words, isPrefix: false })
  })
  return phrases.filter(({ words }) => words.length > 0)
}
