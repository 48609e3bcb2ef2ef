// Which addresses an adapter may have. The rule holds at each connection, not only when an adapter registers: a name may lead
// to another address later, and that one would be asked with the adapter's token.
import { type LookupAddress, type LookupOptions, lookup as lookUpName } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { readTrustedProxies } from '../lib/http/client-address.ts'

export interface AddressPolicy {
  /** Whether an adapter may be at a public address. */
  readonly isPublicAllowed: boolean
  /** Resolves names; the machine's own resolver unless given. */
  readonly lookup?: LookupFunction | undefined
}

/** Not 169.254.0.0/16: that range has the metadata services of clouds. */
const isPrivate =
  readTrustedProxies('127.0.0.0/8, ::1, 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7') ?? (() => false)

export function isPrivateAddress(address: string): boolean {
  return isPrivate(address.replace(/^::ffff:(?=\d+\.)/i, ''))
}

/** Says nothing of the address: agents may read it. */
export const NOT_PRIVATE = 'its address is neither loopback nor private'

/** The host of a URL that is an address itself, which no lookup is asked for. */
export function hasForbiddenAddress({ hostname }: URL, { isPublicAllowed }: AddressPolicy): boolean {
  const host = hostname.replace(/^\[|\]$/g, '')
  return !isPublicAllowed && isIP(host) !== 0 && !isPrivateAddress(host)
}

/** A lookup for one connection, which fails where a name leads to an address that is not allowed. */
export function restrictedLookup({ isPublicAllowed, lookup = lookUpName }: AddressPolicy): LookupFunction {
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
