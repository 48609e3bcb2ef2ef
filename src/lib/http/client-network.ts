// Groups the addresses of clients for limits: one client must not count as many.
import { isIPv4, isIPv6 } from 'node:net'

/** An IPv6 client has a whole /64 at its disposal: four groups. Clients without an address share a key. */
export function clientNetwork(address: string | undefined, groups = 4): string {
  const [plain = ''] = (address ?? '').split('%', 1)
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(plain) ?? []
  const v4 = mapped ?? plain
  if (isIPv4(v4)) return `address ${v4}`
  return isIPv6(plain) ? `network ${ipv6Groups(plain).slice(0, groups).join(':')}` : 'address unknown'
}

/** URL has the only parser of Node that returns the canonical form. */
function ipv6Groups(address: string): string[] {
  const canonical = URL.parse(`http://[${address}]/`)?.hostname.slice(1, -1) ?? ''
  const [head = '', tail] = canonical.split('::')
  const groups = head === '' ? [] : head.split(':')
  const rest = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? [] : new Array<string>(8 - groups.length - rest.length).fill('0')
  return [...groups, ...zeros, ...rest]
}

/** The network of one subscriber or site, which often has a whole /48 of IPv6: three groups. */
export function clientSite(address: string | undefined): string {
  return clientNetwork(address, 3)
}
