// Generates conditions of queries. Parameters are numbered after the first `from`.

export function equal(names: readonly string[], from = 0): string[] {
  return names.map((name, index) => `${name} = $${from + index + 1}`)
}

export function allEqual(names: readonly string[], from = 0): string {
  if (names.length === 0) throw new Error('a condition needs at least one column')
  return equal(names, from).join(' and ')
}

/** Matches rows after a position: a row comparison if all directions are equal, else (a > x) or (a = x and b < y) or … */
export function afterPosition(order: readonly (readonly [string, 'asc' | 'desc'])[], from: number): string {
  const columns = order.map(([name, direction], index) => ({
    name,
    mark: `$${from + index + 1}`,
    operator: direction === 'asc' ? '>' : '<',
  }))
  const [first] = columns
  if (!first) throw new Error('an order needs at least one column')
  const list = (member: 'name' | 'mark'): string => columns.map((column) => column[member]).join(', ')
  if (columns.every(({ operator }) => operator === first.operator))
    return `(${list('name')}) ${first.operator} (${list('mark')})`
  const arms = columns.map(({ name, mark, operator }, index) => {
    const same = columns.slice(0, index).map((before) => `${before.name} = ${before.mark}`)
    return `(${[...same, `${name} ${operator} ${mark}`].join(' and ')})`
  })
  // The first comparison is redundant, but lets the engines start in the middle of an index.
  return `${first.name} ${first.operator}= ${first.mark} and (${arms.join(' or ')})`
}

/** The parameters of one path for `withinSubtrees`. Paths below it are an index range, because "0" follows "/" in byte order. */
export function subtree(path: string): readonly [at: string, from: string, to: string] {
  return [path, `${path}/`, `${path}0`]
}

/** Matches rows within one of several subtrees, each with the three parameters of `subtree`. Without paths, no row matches. */
export function withinSubtrees(column: string, paths: number, from: number): string {
  const arms = Array.from({ length: paths }, (_, index) => {
    const mark = (offset: number): string => `$${from + index * 3 + offset}`
    return `${column} = ${mark(1)} or (${column} >= ${mark(2)} and ${column} < ${mark(3)})`
  })
  return arms.length ? `(${arms.join(' or ')})` : 'false'
}

/** Matches rows in which a column contains the text of the parameter, which `likePattern` has prepared. */
export function containsText(columns: readonly string[], mark: number): string {
  return `(${columns.map((column) => `lower(${column}) like $${mark} escape '!'`).join(' or ')})`
}

/** Lower case as `lower` of SQLite and of the collation C: only ASCII letters change. */
export function likePattern(text: string): string {
  return `%${lowerAscii(text).replace(/[!%_]/g, '!$&')}%`
}

export function lowerAscii(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}
