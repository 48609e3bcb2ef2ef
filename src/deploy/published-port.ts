// Whether a port of this machine can be published.
import { createServer } from 'node:net'
import { errnoCode } from '../lib/files/atomic-file.ts'

/** `address` as in a compose file: `127.0.0.1:8080` or `[::1]:8080`. */
export async function isPortFree(address: string): Promise<boolean> {
  const [, v6, v4, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(address) ?? []
  const server = createServer()
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host: v6 ?? v4, port: Number(port) }, resolve)
    })
    return true
  } catch (error) {
    // The engine may bind ports that this user may not, and addresses that are added later.
    return errnoCode(error) !== 'EADDRINUSE'
  } finally {
    server.close()
  }
}
