// The key of a visitor, at links that keep visitors apart: the header X-Visitor, or a cookie where a page has no script. The key
// itself is never stored or logged. See docs/decisions.md#visitors-apart.
import { createToken, isTokenText } from '../../core/links/link-token.ts'
import { visitorPart } from '../../core/links/visitor-chats.ts'
import { prefersHtml } from '../../lib/http/http.ts'
import { refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { requestSource } from '../http/request-source.ts'
import { formatCookie, isSecure, readCookie } from '../http/session-cookie.ts'
import type { TokenRow } from './link-cache.ts'
import type { LinkRequest } from './link-request.ts'

export const VISITOR_HINT = 'send a header X-Visitor with 32 random bytes as base64url, the same in all requests'
/** As long as browsers keep a cookie. */
const MAX_AGE_S = 400 * 24 * 3600

/** Undefined without a key. The browser sends the cookie to its own link only. */
export function readVisitorKey(host: InstanceHost, request: LinkRequest): string | undefined {
  const given = request.header('x-visitor')
  if (given !== undefined) {
    if (!isTokenText(given)) refuse('invalid', 'X-Visitor must be 32 random bytes as 43 characters of base64url')
    return given
  }
  const cookie = readCookie(request.incoming.headers.cookie, cookieName(host))
  return cookie !== undefined && isTokenText(cookie) ? cookie : undefined
}

/** The row with the chat that this visitor sees. */
export function ofVisitor(host: InstanceHost, request: LinkRequest, row: TokenRow): TokenRow {
  if (row.visitors !== 'apart') return row
  return { ...row, jid: row.jid + visitorPart(readVisitorKey(host, request)) }
}

export interface PostingVisitor {
  /** End of the JID of the visitor's chat. */
  readonly part: string | null
  /** Tell the visitor a new key. */
  readonly headers: Readonly<Record<string, string>>
}

/** A visitor who posts without a key gets one. */
export function postingVisitor(
  host: InstanceHost,
  request: LinkRequest,
  { isApart }: { readonly isApart: boolean },
): PostingVisitor {
  if (!isApart) return { part: null, headers: {} }
  const known = readVisitorKey(host, request)
  if (known !== undefined) return { part: visitorPart(known), headers: {} }
  if (request.incoming.headers['idempotency-key'] !== undefined)
    refuse(
      'invalid',
      'this link keeps visitors apart, so an Idempotency-Key needs the key of the visitor',
      VISITOR_HINT,
    )
  const key = createToken(host.random)
  const path = `/${request.path.kind}/${request.path.token}/`
  // A form of another site is sent without the cookie, and must not replace it.
  const isForeign = requestSource(host, request.incoming.headers) === 'foreign'
  const cookie =
    prefersHtml(request.header('accept')) && !isForeign
      ? { 'Set-Cookie': formatCookie(host, cookieName(host), key, { path, maxAgeS: MAX_AGE_S }) }
      : {}
  return { part: visitorPart(key), headers: { 'X-Visitor': key, ...cookie } }
}

/** Cookies ignore ports, so instances on one host need different names. */
function cookieName(host: InstanceHost): string {
  return isSecure(host) ? '__Secure-svc_visitor' : `svc_visitor_${host.instance}`
}
