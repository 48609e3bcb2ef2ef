// Bare sockets of Node's for tests of what stands between them: what came, byte for byte, and how it ended.
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { until } from './until.ts'

/** What ends with a test. */
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
  /** All that came, unless only its sum is wanted. */
  readonly pieces: Buffer[] = []
  keepsBytes = true
  readonly #hash = createHash('sha256')

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (piece: Buffer) => {
      this.received += piece.length
      this.#hash.update(piece)
      if (this.keepsBytes) this.pieces.push(piece)
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
    return this.bytes.toString('latin1')
  }

  /** Of all that came; asked for once. */
  digest(): string {
    return this.#hash.digest('hex')
  }

  send(bytes: string | Uint8Array): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  }

  /** Sends these bytes with the end of this side behind them. */
  sendLast(bytes: string | Uint8Array = ''): void {
    this.socket.end(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  }

  /** Once so many bytes came, or nothing more will. */
  async has(count: number): Promise<void> {
    await until(() => this.received >= count || this.isClosed || this.hasEnded)
  }

  /** Once this came, or nothing more will. */
  async says(part: string): Promise<string> {
    await until(() => this.text.includes(part) || this.isClosed || this.hasEnded)
    return this.text
  }

  /** Once the other side has ended or broken it. */
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
  /** Which of this machine's own addresses it comes from. */
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
  /** The `count`th that came. */
  peer(count?: number): Promise<Peer>
}

export interface PeerServerOptions {
  readonly host?: string
  readonly port?: number
  /** Told of each as it comes. */
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
      if (!peer) throw new Error('nobody came')
      return peer
    },
  }
}

/** Answers what it is sent with the same, and ends when the other side has. */
export function echo({ socket }: Peer): void {
  socket.pipe(socket)
}

export function portOf(server: Server): number {
  const at = server.address()
  if (at === null || typeof at === 'string') throw new Error('a listener without a port')
  return at.port
}

/** A port of this machine on which nobody listens, and nobody can meanwhile: it is that of somebody who has connected. */
export async function unusedPort(t: SocketEnding): Promise<number> {
  const { port } = await openPeerServer(t)
  const { socket } = await connectPeer(t, port)
  return socket.localPort ?? 0
}

/** Noise of this length, which no codec and no copy of a page makes right by chance. It does not begin as TLS does. */
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

/** The number, once it has not changed for many looks. */
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

/** Until so much time has passed: for what must not happen meanwhile. */
export async function passMs(ms: number): Promise<void> {
  const from = performance.now()
  await until(() => performance.now() - from >= ms)
}
