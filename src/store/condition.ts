// The conditions of queries, as SQL; parameters are numbered on from `from`.

export function equal(names: readonly string[], from = 0): string[] {
  return names.map((name, index) => `${name} = $${from + index + 1}`)
}

export function matches(names: readonly string[], from = 0): string {
  if (names.length === 0) throw new Error('a condition is needed')
  return equal(names, from).join(' and ')
}

/** Rows behind a place. In one direction the engines compare whole rows; else (a > x) or (a = x and b < y) or … */
export function beyond(order: readonly (readonly [string, 'asc' | 'desc'])[], from: number): string {
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
