// Checks which addresses an adapter may have. The check runs at every connection, not only at registration: a name may
// resolve to another address later, which would then receive the adapter's token.
import { type LookupAddress, type LookupOptions, lookup as lookUpName } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { readTrustedProxies } from '../lib/http/client-address.ts'

export interface AddressPolicy {
  /** Whether an adapter may be at a public address. */
  readonly isPublicAllowed: boolean
  /** Resolves names; the system resolver by default. */
  readonly lookup?: LookupFunction | undefined
}

/** Without 169.254.0.0/16, the range of cloud metadata services. */
const isPrivate =
  readTrustedProxies('127.0.0.0/8, ::1, 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7') ?? (() => false)

export function isPrivateAddress(address: string): boolean {
  return isPrivate(address.replace(/^::ffff:(?=\d+\.)/i, ''))
}

/** Does not contain the address, because agents may see this text. */
export const NOT_PRIVATE = 'its address is neither loopback nor private'

/** Whether the host of a URL is a forbidden IP address; names are checked by the lookup. */
export function hasForbiddenAddress({ hostname }: URL, { isPublicAllowed }: AddressPolicy): boolean {
  const host = hostname.replace(/^\[|\]$/g, '')
  return !isPublicAllowed && isIP(host) !== 0 && !isPrivateAddress(host)
}

/** A lookup that fails if a name resolves to an address that is not allowed. */
export function createRestrictedLookup({ isPublicAllowed, lookup = lookUpName }: AddressPolicy): LookupFunction {
  if (isPublicAllowed) return lookup
  return (hostname, options: LookupOptions, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, '')
      const addresses: LookupAddress[] = typeof found === 'string' ? [{ address: found, family: isIP(found) }] : found
      const [first] = addresses
      if (!first || !addresses.every(({ address }) => isPrivateAddress(address)))
        return callback(new Error(NOT_PRIVATE), '')
      if (options.all) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }
}
