// Wires on Node's own sockets: for systems other than Linux, and for a Node that cannot call the kernel itself.
import { once } from 'node:events'
import { connect, createServer, Socket } from 'node:net'
import { diskCode } from '../../lib/atomic-file.ts'
import type { Listen } from '../../lib/settings.ts'
import type { Bound, Endpoint, Timer, Wire, WireOwner, Wires } from '../wire.ts'
import { FileBudget } from './file-budget.ts'
import { KEEP_ALIVE_MS, NOBODY, plainAddress } from './wiring.ts'

const BACKLOG = 4096

class NetWire implements Wire {
  owner: WireOwner = NOBODY
  readonly remote: Endpoint
  hasEnded = false
  readonly #socket: Socket
  /** Where what comes goes, once it is pumped. */
  #to: NetWire | undefined
  #from: NetWire | undefined
  #error: string | undefined
  #isOver = false

  constructor(socket: Socket, remote: Endpoint) {
    this.#socket = socket
    this.remote = remote
    socket.setKeepAlive(true, KEEP_ALIVE_MS)
    socket.setNoDelay(true)
    socket.on('data', (bytes: Buffer) => this.#arrived(bytes))
    socket.on('end', () => this.#ended())
    socket.on('drain', () => (this.#from ? this.#from.resume() : this.owner.drained()))
    socket.on('error', (error) => {
      this.#error = diskCode(error) ?? 'EIO'
    })
    socket.on('close', () => this.#closed())
  }

  /** Known once it is connected. */
  get local(): Endpoint {
    return endpoint(this.#socket.localAddress, this.#socket.localPort)
  }

  get bytesIn(): number {
    return this.#socket.bytesRead
  }

  get bytesOut(): number {
    return this.#socket.bytesWritten
  }

  /** What the system has taken over nobody tells us. */
  get unsent(): number {
    return this.#socket.writableLength
  }

  write(bytes: Uint8Array): boolean {
    // A socket may keep what it is given; the caller's memory is the caller's.
    return this.#isOver || this.#socket.write(Buffer.from(bytes))
  }

  end(): void {
    if (!this.#isOver) this.#socket.end()
  }

  reset(): void {
    this.#isOver = true
    // Node resets a socket that is not connected yet when it is, which may take minutes.
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

  pumpTo(to: NetWire): void {
    this.#to = to
    to.#from = this
    if (this.hasEnded) to.end()
    else if (to.#socket.writableNeedDrain) this.pause()
    else this.resume()
  }

  #arrived(bytes: Buffer): void {
    if (this.#isOver) return
    if (!this.#to) this.owner.bytes(bytes)
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

/** With `maxFiles`, connections take so many descriptors in all. */
export function openNetWires(maxFiles?: number): Wires {
  const budget = new FileBudget(maxFiles)
  const spend = (socket: Socket): void => {
    budget.take(1)
    socket.on('close', () => budget.give(1))
  }
  return {
    listen: (at, accepted) => listen(at, accepted, budget, spend),
    connect: (to, owner) => {
      const socket = budget.hasRoom ? dial(to) : new Socket().destroy(systemFault('EMFILE'))
      if (!socket.destroyed) spend(socket)
      const wire = new NetWire(socket, to)
      wire.owner = owner
      socket.on('connect', () => owner.connected())
      return wire
    },
    pump: (from, to) => {
      if (from instanceof NetWire && to instanceof NetWire) from.pumpTo(to)
    },
    after: (ms, run): Timer => {
      const timer = setTimeout(run, ms)
      return { cancel: () => clearTimeout(timer) }
    },
    now: () => performance.now(),
  }
}

function dial({ address, port }: Endpoint): Socket {
  return connect({ host: address, port, allowHalfOpen: true, autoSelectFamily: false })
}

function systemFault(code: string): Error {
  return Object.assign(new Error(code), { code })
}

async function listen(
  { host, port }: Listen,
  accepted: (wire: Wire) => void,
  budget: FileBudget,
  spend: (socket: Socket) => void,
): Promise<Bound> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const { remoteAddress, remotePort } = socket
    // Whoever was gone before we looked has no address.
    if (remoteAddress === undefined || !budget.hasRoom) return void socket.destroy()
    spend(socket)
    accepted(new NetWire(socket, endpoint(remoteAddress, remotePort)))
  })
  // Without a file to spare Node drops the connection by itself, and goes on.
  server.listen({ host, port, backlog: BACKLOG })
  await once(server, 'listening')
  server.on('error', () => {})
  const at = server.address()
  if (at === null || typeof at === 'string') throw new Error('a listener without a port')
  return { address: at.address, port: at.port, close: () => void server.close() }
}

function endpoint(address = '', port = 0): Endpoint {
  return { address: plainAddress(address), port }
}
