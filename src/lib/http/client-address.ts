// The client's address behind reverse proxies. A hop's X-Forwarded-For entry counts only if the hop itself is trusted.
import { BlockList, isIP, isIPv4 } from 'node:net'

export type TrustedProxyCheck = (address: string) => boolean

/** Parses a comma-separated list of addresses and CIDR ranges, such as "127.0.0.1, 10.0.0.0/8"; undefined if it is invalid. */
export function readTrustedProxies(text: string): TrustedProxyCheck | undefined {
  const list = new BlockList()
  const entries = text.split(',').map((entry) => entry.trim())
  if (entries.length === 1 && entries[0] === '') return () => false
  for (const entry of entries) {
    const [, address = '', , digits] = /^([0-9a-f.:]+)(\/(\d{1,3}))?$/i.exec(entry) ?? []
    const plain = plainAddress(address)
    if (plain === undefined) return undefined
    const family = isIPv4(plain) ? 'ipv4' : 'ipv6'
    const bits = family === 'ipv4' ? 32 : 128
    // In the IPv4-mapped form the prefix length would count from another start.
    if (digits !== undefined && plain !== address) return undefined
    const prefix = digits === undefined ? bits : Number(digits)
    if (prefix > bits) return undefined
    list.addSubnet(plain, prefix, family)
  }
  return (address) => {
    // Drop the zone of a link-local address.
    const [plain = ''] = address.split('%', 1)
    return list.check(plain, isIPv4(plain) ? 'ipv4' : 'ipv6')
  }
}

/**
 * Returns the right-most untrusted hop: clients can forge everything left of it. Without a trusted peer that is the peer itself.
 * A hop that is not an address ends the list.
 */
export function clientAddress(
  trusts: TrustedProxyCheck,
  peer: string | undefined,
  forwardedFor: string | undefined,
): string | undefined {
  let client = peer
  if (client === undefined || forwardedFor === undefined || !trusts(client)) return client
  const hops = forwardedFor.split(',')
  for (let at = hops.length - 1; at >= 0; at--) {
    const hop = hopAddress((hops[at] ?? '').trim())
    if (hop === undefined) return client
    client = hop
    if (!trusts(hop)) return client
  }
  return client
}

/** Some proxies append the port. */
function hopAddress(text: string): string | undefined {
  const [, v6, v4] = /^(?:\[([0-9a-f.:]+)\](?::\d{1,5})?|(\d+\.\d+\.\d+\.\d+):\d{1,5})$/i.exec(text) ?? []
  return plainAddress(v6 ?? v4 ?? text)
}

/** One spelling per IPv4 address: dual-stack sockets report the IPv4-mapped form. */
function plainAddress(text: string): string | undefined {
  if (isIP(text) === 0 || text.includes('%')) return undefined
  const [, v4] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(text) ?? []
  return v4 ?? text
}
