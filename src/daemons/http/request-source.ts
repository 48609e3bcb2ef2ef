// Whether a page of this server sent a request, as the browser reports it. Cookies come along from pages of other sites too.
import type { IncomingHttpHeaders } from 'node:http'
import type { InstanceHost } from '../../registry/context.ts'

/** `unknown`: a program, or a browser that reports nothing. */
export type RequestSource = 'own' | 'foreign' | 'unknown'

export type SourceHeaders = Pick<IncomingHttpHeaders, 'origin' | 'host'> & { readonly 'sec-fetch-site'?: unknown }

/** Forms of pages with `no-referrer` send the origin `null`; then Sec-Fetch-Site decides, which no page can set. */
export function requestSource({ webBase }: Pick<InstanceHost, 'webBase'>, headers: SourceHeaders): RequestSource {
  const { origin, host = '', 'sec-fetch-site': site } = headers
  if (origin !== undefined && origin !== 'null')
    return origin === webBase || URL.parse(origin)?.host === host.toLowerCase() ? 'own' : 'foreign'
  if (site === 'same-origin') return 'own'
  return origin === undefined && (site === undefined || site === 'none') ? 'unknown' : 'foreign'
}

/** Links on other sites may lead here with the session, but their pages can neither read nor change anything with it. */
export function maySessionAct(
  host: Pick<InstanceHost, 'webBase'>,
  method: string | undefined,
  headers: SourceHeaders,
): boolean {
  if (method !== 'GET' && method !== 'HEAD') return requestSource(host, headers) === 'own'
  return headers.origin === undefined || requestSource(host, headers) === 'own'
}
