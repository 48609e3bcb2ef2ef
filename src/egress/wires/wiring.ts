// What both makes of wires share.
import type { WireOwner } from '../wire.ts'

/** A peer that vanished is found by probes: after so long without a byte, and then some nine times in a row. */
export const KEEP_ALIVE_MS = 60_000
export const PROBE_MS = 10_000

/** Whose wire nobody has taken yet. */
export const NOBODY: WireOwner = { bytes: () => {}, ended: () => {}, drained: () => {}, closed: () => {} }

/** One spelling for each IPv4 address: a socket that takes both families has it in the long form. */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address
}
