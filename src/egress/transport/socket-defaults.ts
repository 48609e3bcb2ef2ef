// Constants that both transports share.
import type { ConnectionOwner } from './transport.ts'

/** Keep-alive probes detect a vanished peer: the first after KEEP_ALIVE_MS without a byte, then about nine more. */
export const KEEP_ALIVE_MS = 60_000
export const PROBE_MS = 10_000

/** Owner of a connection until `owner` is set. */
export const NO_OWNER: ConnectionOwner = { received: () => {}, ended: () => {}, drained: () => {}, closed: () => {} }

/** Writes an IPv4 address mapped into IPv6 as IPv4. */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address
}
