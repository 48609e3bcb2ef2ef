// Formats values for messages of commands.

/** Quotes a word for a POSIX shell. */
export function shellQuote(word: string): string {
  return /^[\w./:-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

export function formatCents(cents: number): string {
  return `${cents} ${cents === 1 ? 'cent' : 'cents'}`
}
