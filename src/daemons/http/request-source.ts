// Whether a page of this server sent a request, as the browser reports it. Cookies come along from pages of other sites too.
import type { IncomingHttpHeaders } from 'node:http'
import type { InstanceHost } from '../../registry/context.ts'

/** `unknown`: a program, or a browser that reports nothing. */
export type RequestSource = 'own' | 'foreign' | 'unknown'

export type SourceHeaders = Pick<IncomingHttpHeaders, 'origin' | 'host'> & { readonly 'sec-fetch-site'?: unknown }

/**
 * No page can set Sec-Fetch-Site, so `same-origin` decides: forms of pages with `no-referrer` have the origin `null`, and behind
 * another process the Host header is not that of the browser. Some browsers do not send it on plain HTTP.
 */
export function requestSource({ webBase }: Pick<InstanceHost, 'webBase'>, headers: SourceHeaders): RequestSource {
  const { origin, host = '', 'sec-fetch-site': site } = headers
  if (site === 'same-origin') return 'own'
  if (origin === undefined) return site === undefined || site === 'none' ? 'unknown' : 'foreign'
  return origin === webBase || URL.parse(origin)?.host === host.toLowerCase() ? 'own' : 'foreign'
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
