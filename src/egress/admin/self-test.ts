// Whether somebody answers at an address of ours: a connection is made and closed without a byte.
import { connect } from 'node:net'
import type { Endpoint } from '../wire.ts'

/** A machine that is busy for a second has not lost its listener. */
const WAIT_MS = 3000

export function isListening({ address, port }: Endpoint): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  // "All addresses" is no place to go to; a socket that takes both families takes this one.
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
