// Whose request it is, behind proxies: the word of a hop is taken only when the hop itself is trusted.
import { BlockList, isIP, isIPv4 } from 'node:net'

export type Trusts = (address: string) => boolean

/** Reads a comma list of addresses and CIDR ranges, such as "127.0.0.1, 10.0.0.0/8"; nothing when it is none. */
export function readTrustedProxies(text: string): Trusts | undefined {
  const list = new BlockList()
  const entries = text.split(',').map((entry) => entry.trim())
  if (entries.length === 1 && entries[0] === '') return () => false
  for (const entry of entries) {
    const [, address = '', , digits] = /^([0-9a-f.:]+)(\/(\d{1,3}))?$/i.exec(entry) ?? []
    const plain = plainAddress(address)
    if (plain === undefined) return undefined
    const family = isIPv4(plain) ? 'ipv4' : 'ipv6'
    const bits = family === 'ipv4' ? 32 : 128
    // Of a range that is written in the long form the bits would count from elsewhere.
    if (digits !== undefined && plain !== address) return undefined
    const prefix = digits === undefined ? bits : Number(digits)
    if (prefix > bits) return undefined
    list.addSubnet(plain, prefix, family)
  }
  return (address) => {
    // The zone of a link-local address says which card it came in by.
    const [plain = ''] = address.split('%', 1)
    return list.check(plain, isIPv4(plain) ? 'ipv4' : 'ipv6')
  }
}

/**
 * The right-most hop that is not trusted: everything left of it is hearsay. Without a trusted peer that is the peer
 * itself. A hop that is no address ends the list, as nobody can be asked about it.
 */
export function clientAddress(
  trusts: Trusts,
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

/** Some proxies write the port behind the address. */
function hopAddress(text: string): string | undefined {
  const [, v6, v4] = /^(?:\[([0-9a-f.:]+)\](?::\d{1,5})?|(\d+\.\d+\.\d+\.\d+):\d{1,5})$/i.exec(text) ?? []
  return plainAddress(v6 ?? v4 ?? text)
}

/** One spelling for each IPv4 address: a socket that takes both families has it in the long form. */
function plainAddress(text: string): string | undefined {
  if (isIP(text) === 0 || text.includes('%')) return undefined
  const [, v4] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(text) ?? []
  return v4 ?? text
}
