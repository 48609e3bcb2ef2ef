// The X-Forwarded-* headers that a daemon adds when it passes a request to another one.
import type { IncomingMessage } from 'node:http'
import type { Context } from 'hono'
import type { TrustedProxyCheck } from '../../lib/http/client-address.ts'
import { peerAddress } from '../../lib/http/http.ts'
import type { Peer } from './peers.ts'
import { incomingOf } from './request-middleware.ts'
import { joinedHeader, resolveClientAddress } from './trusted-proxies.ts'
import { type ForwardedHeaders, rewriteHeaders } from './upstream-headers.ts'

export function passToPeer(
  peer: Peer,
  c: Context,
  isTrustedProxy: TrustedProxyCheck | undefined,
  request: Request = c.req.raw,
): Response | Promise<Response> {
  const incoming = incomingOf(c)
  if (incoming) rewriteHeaders(request.headers, forwardedHeaders(isTrustedProxy, incoming, c.get('requestId')))
  c.set('isUnlogged', peer.isLocal)
  return peer.fetch(request, c)
}

export function forwardedHeaders(
  isTrustedProxy: TrustedProxyCheck | undefined,
  request: IncomingMessage,
  requestId: string,
): ForwardedHeaders {
  return {
    'X-Request-Id': requestId,
    'X-Forwarded-For': resolveClientAddress(isTrustedProxy, request),
    'X-Forwarded-Proto': protoOf(isTrustedProxy, request),
    'X-Forwarded-Host': request.headers.host,
  }
}

/** svc itself serves plain HTTP; a trusted proxy in front of it may terminate HTTPS. */
function protoOf(isTrustedProxy: TrustedProxyCheck | undefined, request: IncomingMessage): string {
  const peer = peerAddress(request)
  const forwarded = joinedHeader(request, 'x-forwarded-proto')?.toLowerCase()
  return forwarded === 'https' && peer !== undefined && isTrustedProxy?.(peer) ? 'https' : 'http'
}
