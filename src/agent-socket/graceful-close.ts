// Closes a connection so that the client still receives the last line.
import type { Duplex } from 'node:stream'

/** Time for the client to read the remaining output, and then to close its side. */
const FLUSH_MS = 30_000
const LINGER_MS = 1000

/** Input is read and discarded until then, because a client that is blocked in a write would not read the line. */
export function closeGracefully(socket: Duplex, line = ''): void {
  if (socket.destroyed || socket.writableEnded) return
  let timer = setTimeout(() => socket.destroy(), FLUSH_MS).unref()
  socket.once('finish', () => {
    clearTimeout(timer)
    timer = setTimeout(() => socket.destroy(), LINGER_MS).unref()
  })
  socket.once('close', () => clearTimeout(timer))
  socket.end(line)
  socket.resume()
}
