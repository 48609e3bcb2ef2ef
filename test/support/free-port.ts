// Ports for processes that cannot choose a free one themselves: their own URL is in their settings.
import { once } from 'node:events'
import { createServer } from 'node:net'

/** `svc serve` uses the ports after the first for its other daemons. */
const BLOCK = 16
/** Below the range from which the kernel takes the ports of other tests. */
const [FIRST, LAST] = [10_000, 32_000]

/** The first of 16 free ports. Processes look at different ports first. */
export async function freePort(): Promise<number> {
  const blocks = Math.floor((LAST - FIRST) / BLOCK)
  for (let attempt = 0; attempt < blocks; attempt++) {
    const first = FIRST + ((process.pid + attempt) % blocks) * BLOCK
    if (await areFree(first)) return first
  }
  throw new Error('there are no free ports')
}

async function areFree(first: number): Promise<boolean> {
  for (let port = first; port < first + BLOCK; port++) {
    const server = createServer()
    const opened = once(server, 'listening').then(
      () => true,
      () => false,
    )
    server.listen(port, '127.0.0.1')
    if (!(await opened)) return false
    server.close()
    await once(server, 'close')
  }
  return true
}
