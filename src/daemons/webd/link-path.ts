// The paths of links, taken as they come: nothing is decoded here, and `core/link-token.ts` reads the token alone.

export interface LinkPath {
  readonly place: 'chat' | 'hook'
  /** What stands where the token stands. */
  readonly token: string
  /** What follows it: nothing, or everything after the slash. */
  readonly rest: string | undefined
  /** Without the question mark; empty when there is none. */
  readonly query: string
}

export function linkPath(url: string): LinkPath | undefined {
  const place = url.startsWith('/hook/') ? 'hook' : url.startsWith('/chat/') ? 'chat' : undefined
  if (place === undefined) return undefined
  const mark = url.indexOf('?', 6)
  const end = mark < 0 ? url.length : mark
  const slash = url.indexOf('/', 6)
  const isSplit = slash >= 0 && slash < end
  return {
    place,
    token: url.slice(6, isSplit ? slash : end),
    rest: isSplit ? url.slice(slash + 1, end) : undefined,
    query: mark < 0 ? '' : url.slice(mark + 1),
  }
}
