// The last word to a client. Closing a connection with bytes that nobody read resets it, and then the client never reads
// why: what still comes is read and dropped for a moment.
import type { Gate } from './gate.ts'
import type { Wire } from './wire.ts'

const DROPPED_MAX = 65_536

/** Sends `bytes`, ends, and closes when the other side has, or soon. */
export function sendOff(
  { wires, limits }: Pick<Gate, 'wires' | 'limits'>,
  wire: Wire,
  bytes: Uint8Array,
  over: () => void = () => {},
): void {
  let dropped = 0
  const close = (): void => {
    timer.cancel()
    wire.close()
    over()
  }
  const timer = wires.after(limits.refusalMs, close)
  wire.owner = {
    bytes: ({ length }) => {
      dropped += length
      if (dropped > DROPPED_MAX) close()
    },
    ended: () => {},
    drained: () => {},
    closed: () => {
      timer.cancel()
      over()
    },
  }
  wire.write(bytes)
  wire.end()
  wire.resume()
}
