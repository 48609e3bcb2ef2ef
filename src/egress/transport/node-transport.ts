// TCP transport on Node's sockets, for systems other than Linux and for a Node without `node:ffi`.
import { once } from 'node:events'
import { connect, createServer, Socket } from 'node:net'
import { type FaultHandler, guard, throwUncaught } from '../../lib/fault-boundary.ts'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import type { ListenEndpoint } from '../../lib/settings.ts'
import { FileBudget } from './file-budget.ts'
import { KEEP_ALIVE_MS, NO_OWNER, plainAddress } from './socket-defaults.ts'
import type { BoundListener, ConnectionOwner, SocketAddress, TcpConnection, TcpTransport, Timer } from './transport.ts'

const BACKLOG = 4096

class NodeConnection implements TcpConnection {
  owner: ConnectionOwner = NO_OWNER
  readonly remote: SocketAddress
  hasEnded = false
  readonly #socket: Socket
  /** Destination of received bytes once `pumpTo` was called. */
  #to: NodeConnection | undefined
  #from: NodeConnection | undefined
  #error: string | undefined
  #isOver = false

  constructor(socket: Socket, remote: SocketAddress, onFault: FaultHandler) {
    this.#socket = socket
    this.remote = remote
    const fail: FaultHandler = (error) => {
      onFault(error)
      socket.destroy()
    }
    socket.setKeepAlive(true, KEEP_ALIVE_MS)
    socket.setNoDelay(true)
    const receive = (bytes: Buffer): void => this.#receive(bytes)
    const end = (): void => this.#ended()
    const drain = (): void => (this.#from ? this.#from.resume() : this.owner.drained())
    const close = (): void => this.#closed()
    socket.on('data', guard(fail, receive))
    socket.on('end', guard(fail, end))
    socket.on('drain', guard(fail, drain))
    socket.on('error', (error) => {
      this.#error = errnoCode(error) ?? 'EIO'
    })
    socket.on('close', guard(fail, close))
  }

  /** Known once connected. */
  get local(): SocketAddress {
    return endpoint(this.#socket.localAddress, this.#socket.localPort)
  }

  get bytesIn(): number {
    return this.#socket.bytesRead
  }

  get bytesOut(): number {
    return this.#socket.bytesWritten
  }

  /** Node does not tell how much the kernel has queued. */
  get unsent(): number {
    return this.#socket.writableLength
  }

  write(bytes: Uint8Array): boolean {
    // The socket may keep a reference, and the caller may reuse its memory.
    return this.#isOver || this.#socket.write(Buffer.from(bytes))
  }

  end(): void {
    if (!this.#isOver) this.#socket.end()
  }

  reset(): void {
    this.#isOver = true
    // Node delays the reset of a connecting socket until it is connected, which may take minutes.
    if (this.#socket.connecting) this.#socket.destroy()
    else this.#socket.resetAndDestroy()
  }

  close(): void {
    this.#isOver = true
    this.#socket.destroy()
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  originalDestination(): undefined {}

  pumpTo(to: NodeConnection): void {
    this.#to = to
    to.#from = this
    if (this.hasEnded) to.end()
    else if (to.#socket.writableNeedDrain) this.pause()
    else this.resume()
  }

  #receive(bytes: Buffer): void {
    if (this.#isOver) return
    if (!this.#to) this.owner.received(bytes)
    else if (!this.#to.#isOver && !this.#to.#socket.write(bytes)) this.pause()
  }

  #ended(): void {
    this.hasEnded = true
    if (this.#isOver) return
    if (this.#to) this.#to.end()
    else this.owner.ended()
  }

  #closed(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.owner.closed(this.#error)
  }
}

/** `maxFiles` limits the descriptors of all connections together. `onFault` gets exceptions; their connection is closed. */
export function openNodeTransport(maxFiles?: number, onFault: FaultHandler = throwUncaught): TcpTransport {
  const budget = new FileBudget(maxFiles)
  const spend = (socket: Socket): void => {
    budget.take(1)
    socket.on(
      'close',
      guard(onFault, () => budget.give(1)),
    )
  }
  return {
    listen: (at, accepted) => listen(at, accepted, { budget, spend, onFault }),
    connect: (to, owner) => {
      const socket = budget.hasRoom ? dial(to) : new Socket().destroy(systemError('EMFILE'))
      if (!socket.destroyed) spend(socket)
      const connection = new NodeConnection(socket, to, onFault)
      connection.owner = owner
      const onConnect = (): void => owner.connected()
      socket.on(
        'connect',
        guard((error) => socket.destroy(error instanceof Error ? error : undefined), onConnect),
      )
      return connection
    },
    pump: (from, to) => {
      if (from instanceof NodeConnection && to instanceof NodeConnection) from.pumpTo(to)
    },
    after: (ms, run): Timer => {
      const timer = setTimeout(guard(onFault, run), ms)
      return { cancel: () => clearTimeout(timer) }
    },
    now: () => performance.now(),
  }
}

function dial({ address, port }: SocketAddress): Socket {
  return connect({ host: address, port, allowHalfOpen: true, autoSelectFamily: false })
}

function systemError(code: string): Error {
  return Object.assign(new Error(code), { code })
}

async function listen(
  { host, port }: ListenEndpoint,
  accepted: (connection: TcpConnection) => void,
  { budget, spend, onFault }: { budget: FileBudget; spend: (socket: Socket) => void; onFault: FaultHandler },
): Promise<BoundListener> {
  const accept = (socket: Socket): void => {
    const { remoteAddress, remotePort } = socket
    // A client that has already disconnected has no address.
    if (remoteAddress === undefined || !budget.hasRoom) return void socket.destroy()
    spend(socket)
    accepted(new NodeConnection(socket, endpoint(remoteAddress, remotePort), onFault))
  }
  const server = createServer({ allowHalfOpen: true }, guard(onFault, accept))
  // When out of files, Node drops the connection and goes on.
  server.listen({ host, port, backlog: BACKLOG })
  await once(server, 'listening')
  server.on('error', () => {})
  const at = server.address()
  if (at === null || typeof at === 'string') throw new Error('listener has no port')
  return { address: at.address, port: at.port, close: () => void server.close() }
}

function endpoint(address = '', port = 0): SocketAddress {
  return { address: plainAddress(address), port }
}
