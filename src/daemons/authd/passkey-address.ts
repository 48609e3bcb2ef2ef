// The address that passkeys are bound to: the host and origin of WEB_HOST, never those of a request.
import { isIP } from 'node:net'
import type { InstanceHost } from '../../registry/context.ts'

export interface PasskeyAddress {
  /** The relying party id: a host name without port. */
  readonly rpId: string
  readonly origin: string
  /** Why browsers offer no passkeys at this address, and what to do. */
  readonly fault?: string
}

export function passkeyAddress({ webBase }: Pick<InstanceHost, 'webBase'>): PasskeyAddress {
  const { hostname: rpId, origin, protocol } = new URL(webBase)
  const isLocal = rpId === 'localhost' || rpId.endsWith('.localhost')
  const isAddress = isIP(rpId.replace(/^\[|\]$/g, '')) !== 0
  if (!isAddress && (protocol === 'https:' || isLocal)) return { rpId, origin }
  const missing = isAddress ? 'a host name, not an IP address' : 'https'
  return {
    rpId,
    origin,
    fault: `Passkeys need ${missing}. This server's address is ${origin}: set WEB_HOST to localhost with its port, or to an https name, and open that address.`,
  }
}
