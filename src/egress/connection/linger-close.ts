// Closes a client connection after a final response. Closing with unread input resets the connection, and the client might
// lose the response, so the remaining input is read and discarded for a moment.

import type { TcpConnection } from '../transport/transport.ts'
import type { EgressContext } from './egress-context.ts'

const DISCARDED_MAX = 65_536

/** Sends `bytes`, half-closes, and closes when the client does or after a timeout; at once if too many are lingering. */
export function lingerClose(
  { transport, limits, refusals }: Pick<EgressContext, 'transport' | 'limits' | 'refusals'>,
  connection: TcpConnection,
  bytes: Uint8Array,
  onClose: () => void = () => {},
): void {
  const source = connection.remote.address
  if (!refusals.acquire(source)) {
    connection.write(bytes)
    connection.close()
    onClose()
    return
  }
  let discarded = 0
  const end = (): void => {
    timer.cancel()
    refusals.release(source)
    onClose()
  }
  const close = (): void => {
    connection.close()
    end()
  }
  const timer = transport.after(limits.refusalMs, close)
  connection.owner = {
    received: ({ length }) => {
      discarded += length
      if (discarded > DISCARDED_MAX) close()
    },
    ended: () => {},
    drained: () => {},
    closed: end,
  }
  connection.write(bytes)
  connection.end()
  connection.resume()
}
