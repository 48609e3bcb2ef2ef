// Splits and checks the raw request target; the path is neither decoded nor normalized.

export interface RequestTarget {
  readonly path: string
  /** With its question mark, or empty. */
  readonly query: string
}

export function parseTarget(url: string): RequestTarget {
  const mark = url.search(/[?#]/)
  return mark < 0 ? { path: url, query: '' } : { path: url.slice(0, mark), query: url.slice(mark) }
}

/** Segments that a backend would resolve or drop: it would then see another path than the one that was checked. */
const UNNORMALIZED = /\\|\/\/|(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i

export function isNormalizedPath(path: string): boolean {
  return path.startsWith('/') && !UNNORMALIZED.test(path)
}

/** Normalized, and no segment contains an encoded separator, dot or NUL. */
export function isUnambiguousPath(path: string): boolean {
  return isNormalizedPath(path) && !/%(?:2f|5c|2e|00)/i.test(path)
}
