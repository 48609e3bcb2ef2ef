// Splits a link URL into its parts without decoding them; `core/links/link-token.ts` parses the token.

export interface LinkPath {
  /** `openai` is not a link: its caller has a bearer. */
  readonly kind: 'chat' | 'hook' | 'openai'
  /** The segment that should be a token, unchecked; empty for `openai`. */
  readonly token: string
  /** Everything after the slash that follows the token; undefined without that slash. */
  readonly rest: string | undefined
  /** Without the question mark. */
  readonly query: string
}

const OPENAI = '/openai/'

export function parseLinkPath(url: string): LinkPath | undefined {
  if (url.startsWith(OPENAI)) return openaiPath(url)
  const kind = url.startsWith('/hook/') ? 'hook' : url.startsWith('/chat/') ? 'chat' : undefined
  if (kind === undefined) return undefined
  const mark = url.indexOf('?', 6)
  const end = mark < 0 ? url.length : mark
  const slash = url.indexOf('/', 6)
  const isSplit = slash >= 0 && slash < end
  return {
    kind,
    token: url.slice(6, isSplit ? slash : end),
    rest: isSplit ? url.slice(slash + 1, end) : undefined,
    query: mark < 0 ? '' : url.slice(mark + 1),
  }
}

function openaiPath(url: string): LinkPath {
  const [path = '', ...query] = url.slice(OPENAI.length).split('?')
  return { kind: 'openai', token: '', rest: path, query: query.join('?') }
}
