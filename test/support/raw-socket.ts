// Bare sockets for tests of a proxy between them: records the received bytes and how the connection ended.
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { until } from './until.ts'

/** A test, or anything else that runs clean-up work at its end. */
export interface SocketEnding {
  after(work: () => void): void
}

/** One end of a connection. */
export class Peer {
  readonly socket: Socket
  received = 0
  hasEnded = false
  isClosed = false
  error: string | undefined
  /** Received bytes; empty if `keepsBytes` is off. */
  readonly pieces: Buffer[] = []
  keepsBytes = true
  /** Called after each piece. */
  onData: () => void = () => {}
  #text = ''
  #textPieces = 0
  readonly #hash = createHash('sha256')

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (piece: Buffer) => {
      this.received += piece.length
      this.#hash.update(piece)
      if (this.keepsBytes) this.pieces.push(piece)
      this.onData()
    })
    socket.on('end', () => {
      this.hasEnded = true
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.error = error.code
    })
    socket.on('close', () => {
      this.isClosed = true
    })
  }

  get bytes(): Buffer {
    return Buffer.concat(this.pieces)
  }

  get text(): string {
    for (; this.#textPieces < this.pieces.length; this.#textPieces++)
      this.#text += this.pieces[this.#textPieces]?.toString('latin1') ?? ''
    return this.#text
  }

  /** Of all received bytes; call it once. */
  digest(): string {
    return this.#hash.digest('hex')
  }

  send(bytes: string | Uint8Array): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  }

  /** Sends the bytes and half-closes. */
  sendLast(bytes: string | Uint8Array = ''): void {
    this.socket.end(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  }

  /** Waits for this many bytes or the end. */
  async has(count: number): Promise<void> {
    await until(() => this.received >= count || this.isClosed || this.hasEnded)
  }

  /** Waits for this text or the end. */
  async says(part: string): Promise<string> {
    await until(() => this.text.includes(part) || this.isClosed || this.hasEnded)
    return this.text
  }

  /** Waits until the other side has ended or closed. */
  async over(): Promise<string> {
    await until(() => this.hasEnded || this.isClosed)
    return this.text
  }

  async closed(): Promise<void> {
    await until(() => this.isClosed)
  }
}

export interface PeerOptions {
  readonly host?: string
  /** Local address. */
  readonly from?: string
}

export async function connectPeer(t: SocketEnding, port: number, options: PeerOptions = {}): Promise<Peer> {
  const { host = '127.0.0.1', from } = options
  const socket = connect({ port, host, allowHalfOpen: true, ...(from === undefined ? {} : { localAddress: from }) })
  t.after(() => socket.destroy())
  await once(socket, 'connect')
  return new Peer(socket)
}

export interface PeerServer {
  readonly port: number
  readonly peers: Peer[]
  readonly server: Server
  /** Waits for connection number `count`. */
  peer(count?: number): Promise<Peer>
}

export interface PeerServerOptions {
  readonly host?: string
  readonly port?: number
  /** Called for each connection. */
  readonly serve?: (peer: Peer, count: number) => void
}

export async function openPeerServer(t: SocketEnding, options: PeerServerOptions = {}): Promise<PeerServer> {
  const { host = '127.0.0.1', port = 0, serve } = options
  const peers: Peer[] = []
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const peer = new Peer(socket)
    const count = peers.push(peer)
    serve?.(peer, count)
  })
  t.after(() => {
    for (const { socket } of peers) socket.destroy()
    server.close()
  })
  server.listen(port, host)
  await once(server, 'listening')
  return {
    port: portOf(server),
    peers,
    server,
    peer: async (count = 1) => {
      await until(() => peers.length >= count)
      const peer = peers[count - 1]
      if (!peer) throw new Error('no connection')
      return peer
    },
  }
}

/** Sends everything back. */
export function echo({ socket }: Peer): void {
  socket.pipe(socket)
}

export function portOf(server: Server): number {
  const at = server.address()
  if (at === null || typeof at === 'string') throw new Error('a listener without a port')
  return at.port
}

/** A loopback port that no process listens on or can listen on: the local port of a connection. */
export async function unusedPort(t: SocketEnding): Promise<number> {
  const { port } = await openPeerServer(t)
  const { socket } = await connectPeer(t, port)
  return socket.localPort ?? 0
}

/** Random bytes that cannot be reproduced by chance. They do not start like TLS. */
export function noise(count: number): Buffer {
  const block = randomBytes(Math.max(1, Math.min(count, 1_048_583)))
  block.writeUInt8(0x80 | block.readUInt8())
  return Buffer.alloc(count, block)
}

export function digestOf(...parts: readonly Uint8Array[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest('hex')
}

/** Waits until the number is stable, and returns it. */
export async function untilStill(look: () => number | Promise<number>): Promise<number> {
  let [last, times] = [Number.NaN, 0]
  await until(async () => {
    const now = await look()
    times = now === last ? times + 1 : 0
    last = now
    return times >= 30
  })
  return last
}

/** Waits for this time, for events that must not happen. */
export async function passMs(ms: number): Promise<void> {
  const from = performance.now()
  await until(() => performance.now() - from >= ms)
}
