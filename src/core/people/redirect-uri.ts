// Redirect URIs of OAuth clients. Each is parsed once, and only parsed parts are compared. See docs/decisions.md#token-endpoint.

export interface RedirectUri {
  /** As the client wrote it, which is also how it is used. */
  readonly text: string
  readonly kind: 'https' | 'loopback' | 'private'
  /** Equal for redirects that match: a loopback redirect has any port (RFC 8252). */
  readonly key: string
  /** Shown to people: the host, or the scheme of an app. */
  readonly destination: string
  /** Source expression of a Content-Security-Policy that allows a form to end there. */
  readonly formTarget: string
}

const REDIRECT_MAX = 1024
/** Printable ASCII without backslash and the characters that URLs must encode. */
const PLAIN_URI = /^[a-z][a-z0-9+.-]*:[!$%&'()*+,\-./0-9:;=?@A-Z[\]_a-z~]+$/
/** URL parsers accept hosts with ";", "," and "*", which mean something else in the policy of a page. */
const PLAIN_HOST = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])$/
const LOOPBACK_HOSTS: readonly string[] = ['localhost', '127.0.0.1', '[::1]']
/** Browsers run or open these themselves, so no app can own them. */
const BROWSER_SCHEMES: ReadonlySet<string> = new Set(
  ['http', 'ws', 'wss', 'ftp', 'file', 'data', 'blob', 'javascript', 'vbscript', 'about', 'filesystem', 'mailto', 'tel']
    .concat('view-source', 'chrome', 'resource', 'intent', 'jar', 'urn')
    .map((name) => `${name}:`),
)

/** Undefined if the URI is not allowed as a redirect, or is not written in the one form that a parser would write. */
export function parseRedirectUri(text: string): RedirectUri | undefined {
  if (text.length > REDIRECT_MAX || !PLAIN_URI.test(text) || /%2e/i.test(text)) return undefined
  const url = URL.parse(text)
  if (url?.username !== '' || url.password !== '' || /^[^/]*\/\/[^/?]*@/.test(text)) return undefined
  const isEmptyPath = /^https?:\/\/[^/?]*$/.test(text)
  if (url.href !== (isEmptyPath ? `${text}/` : text) || url.hostname.endsWith('.')) return undefined
  const { protocol, hostname, pathname, search, host, origin } = url
  if (protocol === 'https:' && !PLAIN_HOST.test(hostname)) return undefined
  if (protocol === 'https:') return { text, kind: 'https', key: url.href, destination: host, formTarget: origin }
  if (protocol === 'http:' && LOOPBACK_HOSTS.includes(hostname)) {
    // A CSP cannot name an IPv6 address.
    const formTarget = hostname === '[::1]' ? 'http:' : origin
    return { text, kind: 'loopback', key: `http://${hostname}${pathname}${search}`, destination: host, formTarget }
  }
  if (BROWSER_SCHEMES.has(protocol)) return undefined
  return { text, kind: 'private', key: url.href, destination: `an app (${protocol})`, formTarget: protocol }
}

/** The requested redirect, if it is one of those that the client has registered. */
export function matchRedirectUri(requested: string, registered: readonly string[]): RedirectUri | undefined {
  const redirect = parseRedirectUri(requested)
  return redirect && registered.some((text) => parseRedirectUri(text)?.key === redirect.key) ? redirect : undefined
}
