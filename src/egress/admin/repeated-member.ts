// A name that stands twice in the object that a JSON text is. Readers differ in which of the two counts, and who checks
// what somebody else sends would see the other one.

/** A string, with what makes it a name behind it, or a bracket. */
const TOKEN = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}[\]]/gs

/** The first of them in a text that is JSON. What stands further inside does not count. */
export function repeatedMember(text: string): string | undefined {
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
