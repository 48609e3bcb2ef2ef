// Puts a text on one line.

export function collapseWhitespace(text: string): string {
  return text.replace(/\s+/g, ' ').trim()
}
