// Finds duplicate names in a JSON object. Parsers differ in which of the two they use, so a checker and the consumer could see
// different values.

/** A string, with a colon if it is a name, or a bracket. */
const TOKEN = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}[\]]/gs

/** The first duplicate at the top level of a JSON text. */
export function findDuplicateKey(text: string): string | undefined {
  const names = new Set<string>()
  let depth = 0
  for (const [token, string = '', colon] of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') depth++
    else if (token === '}' || token === ']') depth--
    else if (colon !== undefined && depth === 1) {
      const name: string = JSON.parse(string)
      if (names.has(name)) return name
      names.add(name)
    }
  }
  return undefined
}
