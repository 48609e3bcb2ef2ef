// A proxy that forwards responses in slices of a few bytes, like a bad connection.
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { RepeatableRandom } from './repeatable-random.ts'

const LARGEST = 40

/** Returns the same URL, through the proxy. */
export async function slicing(t: TestContext, by: RepeatableRandom, url: string): Promise<string> {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const back = connect(Number(port), hostname)
    for (const socket of [client, back]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      // Either side may disconnect.
      socket.on('error', () => {})
      socket.on('close', () => sockets.delete(socket))
    }
    client.on('close', () => back.destroy())
    client.pipe(back)
    void hand(back, client, by)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  const through = new URL(url)
  through.port = String(address.port)
  return through.href
}

async function hand(from: Socket, to: Socket, by: RepeatableRandom): Promise<void> {
  try {
    for await (const chunk of from) {
      if (!Buffer.isBuffer(chunk)) throw new Error('a socket gives bytes')
      for (let at = 0; at < chunk.length && !to.destroyed; ) {
        const length = by.between(1, LARGEST)
        to.write(chunk.subarray(at, at + length))
        at += length
        await turn()
      }
    }
    to.end()
  } catch {
    // Reset, so that the other side is reset too.
    to.destroy()
  }
}
