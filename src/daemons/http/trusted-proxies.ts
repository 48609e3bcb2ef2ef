// Finds the client address behind trusted proxies.
import type { IncomingMessage } from 'node:http'
import { clientAddress, type TrustedProxyCheck } from '../../lib/http/client-address.ts'
import { peerAddress } from '../../lib/http/http.ts'
import type { RawHandler } from './raw-request.ts'

/** `isTrustedProxy` is undefined where TRUSTED_PROXIES is not set. */
export function resolveClientAddress(
  isTrustedProxy: TrustedProxyCheck | undefined,
  request: IncomingMessage,
): string | undefined {
  const peer = peerAddress(request)
  return isTrustedProxy ? clientAddress(isTrustedProxy, peer, joinedHeader(request, 'x-forwarded-for')) : peer
}

/** Resolves the client address once per request, and not at all without trusted proxies: this is the busiest path. */
export function withClientAddress(handler: RawHandler, isTrustedProxy: TrustedProxyCheck | undefined): RawHandler {
  if (!isTrustedProxy) return handler
  return (request, response, origin) =>
    handler(
      request,
      response,
      origin.isSocketAddress ? { client: resolveClientAddress(isTrustedProxy, request) } : origin,
    )
}

/** All values of a repeated header. */
export function joinedHeader({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value.join(', ') : value
}
