// The target of a request as it came: a path and a query that nobody has decoded, resolved or tidied up.

export interface Target {
  readonly path: string
  /** With its question mark, or empty. */
  readonly query: string
}

export function targetOf(url: string): Target {
  const mark = url.search(/[?#]/)
  return mark < 0 ? { path: url, query: '' } : { path: url.slice(0, mark), query: url.slice(mark) }
}

/** Segments that a second reader would resolve or drop: then it would see another path than we judged. */
const MOVING = /\\|\/\/|(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i

export function isStill(path: string): boolean {
  return path.startsWith('/') && !MOVING.test(path)
}

/** The same, and no sign of a path is hidden in a segment. */
export function isPlain(path: string): boolean {
  return isStill(path) && !/%(?:2f|5c|2e|00)/i.test(path)
}
