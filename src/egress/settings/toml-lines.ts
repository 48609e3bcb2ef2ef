// Finds the line of a key in a TOML text, for error messages: the parser reports positions only for syntax errors.

/** `name` is `[table] key`, a bare key, or `[table]`. Undefined if no line or several lines match. */
export function findKeyLine(text: string, name: string): number | undefined {
  const end = name.startsWith('[') ? name.indexOf(']') : 0
  const [table, key] = [name.slice(1, Math.max(end, 1)), name.slice(end && end + 1).trim()]
  const found: number[] = []
  let inside = ''
  for (const [index, line] of text.split('\n').entries()) {
    const header = headerOf(line)
    if (header !== undefined) inside = header
    const isHere = key === '' ? header === table : header === undefined && isKey(line, inside, table, key)
    if (isHere) found.push(index + 1)
  }
  return found.length === 1 ? found[0] : undefined
}

/** The table that a line opens. */
function headerOf(line: string): string | undefined {
  const text = line.trim()
  return text.startsWith('[') ? bare(text.slice(0, text.indexOf(']')).replaceAll('[', '')) : undefined
}

/** `key = …` in its table, `table.key = …`, or the line of an inline table. */
function isKey(line: string, inside: string, table: string, key: string): boolean {
  const equals = line.indexOf('=')
  if (equals < 0) return false
  const written = bare(line.slice(0, equals))
  if (inside === table) return written === key
  return inside === '' && (written === `${table}.${key}` || written === table)
}

function bare(text: string): string {
  return text.replaceAll(/["'\s]/g, '')
}
