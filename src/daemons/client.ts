// Whose request it is, for those who listen to strangers: behind proxies that are trusted, whoever is connected is not who
// asks.
import type { IncomingMessage } from 'node:http'
import { clientAddress, type Trusts } from '../lib/client-address.ts'
import { addressOf } from '../lib/http.ts'
import type { Direct } from './direct.ts'

/** `trusts` is what TRUSTED_PROXIES says; absent where nothing is said. */
export function clientOf(trusts: Trusts | undefined, request: IncomingMessage): string | undefined {
  const peer = addressOf(request)
  return trusts ? clientAddress(trusts, peer, headerOf(request, 'x-forwarded-for')) : peer
}

/** Asks once for each request, and not at all where nobody is trusted: this is the busiest path of the product. */
export function knowingClients(direct: Direct, trusts: Trusts | undefined): Direct {
  if (!trusts) return direct
  return (request, response, way) => direct(request, response, way.isPeer ? { client: clientOf(trusts, request) } : way)
}

/** Of a header that came several times all values. */
export function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value.join(', ') : value
}
