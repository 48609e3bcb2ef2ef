// Classifies addresses: with `deny_private`, a name that resolves to a class other than public is denied. Denials name the
// class but never the address, or workloads could map the internal network through the proxy.
import { type Groups, readIPv4, readIPv6 } from './ip-address.ts'

export type AddressClass =
  | 'public'
  | 'unspecified'
  | 'loopback'
  | 'private'
  /** Carrier-grade NAT. */
  | 'shared'
  | 'link-local'
  | 'multicast'
  | 'broadcast'
  /** Cloud metadata services, which hand out credentials. */
  | 'metadata'
  /** Documentation, benchmarking, tunnels and unassigned ranges. */
  | 'reserved'

interface Range {
  readonly base: Groups
  readonly bits: number
  /** The class, or the index of the group where the embedded IPv4 address starts, which is classified instead. */
  readonly kind: AddressClass | number
}

/** The first match wins, so narrow ranges precede the wide ranges around them. */
const IPV4_RANGES = compileRanges({
  '169.254.169.254/32': 'metadata',
  '169.254.170.2/32': 'metadata',
  '100.100.100.200/32': 'metadata',
  '168.63.129.16/32': 'metadata',
  '192.0.0.192/32': 'metadata',
  '0.0.0.0/8': 'unspecified',
  '10.0.0.0/8': 'private',
  '100.64.0.0/10': 'shared',
  '127.0.0.0/8': 'loopback',
  '169.254.0.0/16': 'link-local',
  '172.16.0.0/12': 'private',
  '192.0.0.0/24': 'reserved',
  '192.0.2.0/24': 'reserved',
  '192.88.99.0/24': 'reserved',
  '192.168.0.0/16': 'private',
  '198.18.0.0/15': 'reserved',
  '198.51.100.0/24': 'reserved',
  '203.0.113.0/24': 'reserved',
  '224.0.0.0/4': 'multicast',
  '255.255.255.255/32': 'broadcast',
  '240.0.0.0/4': 'reserved',
})

const IPV6_RANGES = compileRanges({
  '::/128': 'unspecified',
  '::1/128': 'loopback',
  // IPv4 in IPv6: mapped, compatible, translated (SIIT, NAT64) and tunnelled (6to4).
  '::ffff:0:0/96': 6,
  '::/96': 6,
  '::ffff:0:0:0/96': 6,
  '64:ff9b::/96': 6,
  '2002::/16': 1,
  // Local-use NAT64, where the position of the IPv4 address is unknown.
  '64:ff9b:1::/48': 'reserved',
  '100::/64': 'reserved',
  // Teredo, ORCHID, benchmarking and other protocol assignments.
  '2001::/23': 'reserved',
  '2001:db8::/32': 'reserved',
  '3fff::/20': 'reserved',
  '5f00::/16': 'reserved',
  'fd00:ec2::/32': 'metadata',
  'fd20:ce::254/128': 'metadata',
  'fc00::/7': 'private',
  'fe80::/10': 'link-local',
  'fec0::/10': 'private',
  'ff00::/8': 'multicast',
})

/** Accepts any spelling that `isIP` accepts. Anything else is reserved, so that it is denied too. */
export function addressClassOf(address: string): AddressClass {
  const v4 = readIPv4(address, 0)
  if (v4 >= 0) return classOfGroups(splitIPv4(v4), IPV4_RANGES)
  const zone = address.indexOf('%')
  const v6 = readIPv6(zone < 0 ? address : address.slice(0, zone))
  return v6 ? classOfGroups(v6, IPV6_RANGES) : 'reserved'
}

function classOfGroups(groups: Groups, ranges: readonly Range[]): AddressClass {
  const kind = ranges.find((range) => isWithin(groups, range))?.kind ?? 'public'
  return typeof kind === 'string' ? kind : classOfGroups(groups.slice(kind, kind + 2), IPV4_RANGES)
}

function isWithin(groups: Groups, { base, bits }: Range): boolean {
  for (let at = 0, left = bits; left > 0; at++, left -= 16) {
    const differing = (groups[at] ?? 0) ^ (base[at] ?? 0)
    if (differing >>> Math.max(16 - left, 0) !== 0) return false
  }
  return true
}

/** As two groups, like the last two of an IPv6 address. */
function splitIPv4(value: number): Groups {
  return [value >>> 16, value & 0xffff]
}

function compileRanges(kinds: Readonly<Record<string, AddressClass | number>>): Range[] {
  return Object.entries(kinds).map(([range, kind]) => {
    const [address = '', bits] = range.split('/')
    return { base: readIPv6(address) ?? splitIPv4(readIPv4(address, 0)), bits: Number(bits), kind }
  })
}
