// Removes characters from the ends of a text. A pattern such as `/\s+$/` takes quadratic time on a long run of characters that
// is not at the end.

/** Without any of `characters` at its end. */
export function trimTrailing(text: string, characters: string): string {
  let end = text.length
  while (end > 0 && characters.includes(text.charAt(end - 1))) end--
  return text.slice(0, end)
}

/** Without any of `characters` at its start. */
export function trimLeading(text: string, characters: string): string {
  let start = 0
  while (start < text.length && characters.includes(text.charAt(start))) start++
  return text.slice(start)
}
