// Runs inside a network namespace and passes sockets to the test outside. A socket stays in the namespace in which it was
// created. Exits with the test.
import type { SendHandle } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { connect, createServer } from 'node:net'

export interface Order {
  readonly number: number
  readonly kind: 'listen' | 'connect' | 'datagrams'
  readonly host: string
  readonly port: number
  /** The source address. */
  readonly from?: string | undefined
}

export interface Outcome {
  readonly number: number
  /** The system error code. */
  readonly error?: string | undefined
}

function tell(outcome: Outcome, handle?: SendHandle, told: () => void = () => {}): void {
  process.send?.(outcome, handle, {}, told)
}

function obey({ number, kind, host, port, from }: Order): void {
  const fail = (error: NodeJS.ErrnoException): void => tell({ number, error: error.code ?? error.message })
  if (kind === 'listen') {
    const server = createServer().on('error', fail)
    server.listen(port, host, () => tell({ number }, server, () => server.close()))
  } else if (kind === 'datagrams') {
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4').on('error', fail)
    socket.bind(port, host, () => tell({ number }, socket, () => socket.close()))
  } else {
    const socket = connect({ host, port, ...(from && { localAddress: from }) }).on('error', fail)
    // Do not read here: the bytes would be lost to the test.
    socket.pause().on('connect', () => tell({ number }, socket))
  }
}

if (import.meta.main) {
  process.on('message', (order: Order) => obey(order))
  process.on('disconnect', () => process.exit())
  tell({ number: 0 })
}
