// The conditions of queries, as SQL; parameters are numbered on from `from`.

export function equal(names: readonly string[], from = 0): string[] {
  return names.map((name, index) => `${name} = $${from + index + 1}`)
}

export function allEqual(names: readonly string[], from = 0): string {
  if (names.length === 0) throw new Error('a condition is needed')
  return equal(names, from).join(' and ')
}

/** Rows behind a place. In one direction the engines compare whole rows; else (a > x) or (a = x and b < y) or … */
export function afterPosition(order: readonly (readonly [string, 'asc' | 'desc'])[], from: number): string {
  const columns = order.map(([name, way], index) => ({
    name,
    mark: `$${from + index + 1}`,
    than: way === 'asc' ? '>' : '<',
  }))
  const [first] = columns
  if (!first) throw new Error('an order is needed')
  const list = (what: 'name' | 'mark'): string => columns.map((column) => column[what]).join(', ')
  if (columns.every(({ than }) => than === first.than)) return `(${list('name')}) ${first.than} (${list('mark')})`
  const arms = columns.map(({ name, mark, than }, index) => {
    const same = columns.slice(0, index).map((before) => `${before.name} = ${before.mark}`)
    return `(${[...same, `${name} ${than} ${mark}`].join(' and ')})`
  })
  // The first comparison follows from the others, and lets the engines start in the middle of an index.
  return `${first.name} ${first.than}= ${first.mark} and (${arms.join(' or ')})`
}

/** What lies at a path or below it is a range of an index, because text sorts by its bytes and "0" follows "/". */
export function subtree(path: string): readonly [at: string, from: string, to: string] {
  return [path, `${path}/`, `${path}0`]
}

/** Within one of so many subtrees; each takes the three parameters that `subtree` gives. No path, no row. */
export function withinSubtrees(column: string, paths: number, from: number): string {
  const arms = Array.from({ length: paths }, (_, index) => {
    const mark = (place: number): string => `$${from + index * 3 + place}`
    return `${column} = ${mark(1)} or (${column} >= ${mark(2)} and ${column} < ${mark(3)})`
  })
  return arms.length ? `(${arms.join(' or ')})` : 'false'
}
