// Checks that a listener of ours accepts: connects and closes without sending a byte.
import { connect } from 'node:net'
import type { SocketAddress } from '../transport/transport.ts'

/** Long enough for a machine that is busy for a second. */
const WAIT_MS = 3000

export function isListening({ address, port }: SocketAddress): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  // "All addresses" cannot be dialled; a dual-stack socket accepts on loopback too.
  const host = address === '::' || address === '0.0.0.0' ? '127.0.0.1' : address
  const socket = connect({ host, port, timeout: WAIT_MS })
  const end = (isThere: boolean): void => {
    socket.destroy()
    resolve(isThere)
  }
  socket.once('connect', () => end(true))
  socket.once('timeout', () => end(false))
  socket.once('error', () => end(false))
  return promise
}
