/** Quotes a word for a POSIX shell. */
export function shellQuote(word: string): string {
  return /^[\w./:-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
