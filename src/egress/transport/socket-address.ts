// Encodes and decodes sockaddr_in and sockaddr_in6.
import { readIPv4, readIPv6, showIPv4, showIPv6 } from '../address/ip-address.ts'
import { AF_INET, AF_INET6 } from './kernel.ts'
import type { SocketAddress } from './transport.ts'

/** Size of sockaddr_in6, the larger one. */
export const ADDRESS_BYTES = 28
const IPV4_BYTES = 16

export function writeAddress(
  to: Buffer,
  { address, port }: SocketAddress,
): { readonly family: number; readonly length: number } {
  to.fill(0)
  to.writeUInt16BE(port, 2)
  const v4 = readIPv4(address, 0)
  if (v4 >= 0) {
    to.writeUInt16LE(AF_INET, 0)
    to.writeUInt32BE(v4, 4)
    return { family: AF_INET, length: IPV4_BYTES }
  }
  to.writeUInt16LE(AF_INET6, 0)
  const groups = readIPv6(address)
  if (!groups) throw new Error(`not an IP address: ${address}`)
  for (const [at, group] of groups.entries()) to.writeUInt16BE(group, 8 + 2 * at)
  return { family: AF_INET6, length: ADDRESS_BYTES }
}

/** Returns an IPv4 address mapped into IPv6 as IPv4. */
export function readAddress(from: Buffer): SocketAddress {
  const port = from.readUInt16BE(2)
  if (from.readUInt16LE(0) === AF_INET) return { address: showIPv4(from.readUInt32BE(4)), port }
  const groups = Array.from({ length: 8 }, (_, at) => from.readUInt16BE(8 + 2 * at))
  return { address: showIPv6(groups), port }
}
