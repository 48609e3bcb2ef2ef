// A hint for queries with a syntax error.

/** The engine treats punctuation within a word as an operator: `foo-bar` refers to a column. */
export function quoteHint(query: string): string | undefined {
  const word = /(?<=^|\s)[\p{L}\p{N}_]+(?:[^\s"()*\p{L}\p{N}_]+[\p{L}\p{N}_]+)+(?=\s|$)/u.exec(query)?.[0]
  return word === undefined ? undefined : `put words with punctuation in quotes: "${word.slice(0, 80)}"`
}
