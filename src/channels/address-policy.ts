// Checks which addresses an adapter or another server may have. The check runs at every connection, not only when the URL is
// set: a name may resolve to another address later, which would then receive the adapter's token.
import { type LookupAddress, type LookupOptions, lookup as lookUpName } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { readTrustedProxies } from '../lib/http/client-address.ts'

export interface AddressPolicy {
  /** Whether an adapter may be at a public address. */
  readonly isPublicAllowed: boolean
  /** Replaces the rule for adapters. */
  readonly rule?: AddressRule | undefined
  /** Resolves names; the system resolver by default. */
  readonly lookup?: LookupFunction | undefined
}

interface AddressRule {
  isAllowed(address: string): boolean
  /** Said of other addresses. Does not contain the address, because agents may see this text. */
  readonly refusal: string
}

/** Without 169.254.0.0/16, the range of cloud metadata services. */
const isPrivate =
  readTrustedProxies('127.0.0.0/8, ::1, 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7') ?? (() => false)

export function isPrivateAddress(address: string): boolean {
  return isPrivate(address.replace(/^::ffff:(?=\d+\.)/i, ''))
}

const PRIVATE_ONLY: AddressRule = {
  isAllowed: isPrivateAddress,
  refusal: 'its address is neither loopback nor private',
}

/** Undefined if every address is allowed. */
function ruleOf({ isPublicAllowed, rule }: AddressPolicy): AddressRule | undefined {
  return rule ?? (isPublicAllowed ? undefined : PRIVATE_ONLY)
}

/** The refusal if the host of a URL is a forbidden IP address; names are checked by the lookup. */
export function forbiddenAddressFault({ hostname }: URL, policy: AddressPolicy): string | undefined {
  const host = hostname.replace(/^\[|\]$/g, '')
  const rule = ruleOf(policy)
  return rule && isIP(host) !== 0 && !rule.isAllowed(host) ? rule.refusal : undefined
}

/** A lookup that fails if a name resolves to an address that is not allowed. */
export function createRestrictedLookup(policy: AddressPolicy): LookupFunction {
  const { lookup = lookUpName } = policy
  const rule = ruleOf(policy)
  if (!rule) return lookup
  return (hostname, options: LookupOptions, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, '')
      const addresses: LookupAddress[] = typeof found === 'string' ? [{ address: found, family: isIP(found) }] : found
      const [first] = addresses
      if (!first || !addresses.every(({ address }) => rule.isAllowed(address)))
        return callback(new Error(rule.refusal), '')
      if (options.all) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }
}
