// The last word to a client. Closing a connection with bytes that nobody read resets it, and then the client never reads
// why: what still comes is read and dropped for a moment.
import type { Gate } from './gate.ts'
import type { Wire } from './wire.ts'

const DROPPED_MAX = 65_536

/** Sends `bytes`, ends, and closes when the other side has, or soon; at once where too many wait already. */
export function sendOff(
  { wires, limits, refusals }: Pick<Gate, 'wires' | 'limits' | 'refusals'>,
  wire: Wire,
  bytes: Uint8Array,
  over: () => void = () => {},
): void {
  const source = wire.remote.address
  if (!refusals.begin(source)) {
    wire.write(bytes)
    wire.close()
    over()
    return
  }
  let dropped = 0
  const end = (): void => {
    timer.cancel()
    refusals.end(source)
    over()
  }
  const close = (): void => {
    wire.close()
    end()
  }
  const timer = wires.after(limits.refusalMs, close)
  wire.owner = {
    bytes: ({ length }) => {
      dropped += length
      if (dropped > DROPPED_MAX) close()
    },
    ended: () => {},
    drained: () => {},
    closed: end,
  }
  wire.write(bytes)
  wire.end()
  wire.resume()
}
