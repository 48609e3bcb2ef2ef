// Who may connect to a tool socket, and how many at once.

import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { CallRate } from '../core/call-rate.ts'
import { type Connection, type ConnectionOptions, type Gate, openConnection } from './connection.ts'
import { endSoon } from './line-transport.ts'
import { peerUid } from './peer.ts'

const CONNECTIONS_MAX = 8
/** How many of those that are turned away may still be reading why. */
const TURNED_AWAY_MAX = 8
/** How long a connection has to finish what is under way when its socket closes. */
const CLOSE_MS = 2000

const TOO_MANY = {
  jsonrpc: '2.0',
  id: null,
  error: { code: -32000, message: `this socket has ${CONNECTIONS_MAX} connections already; close one of them first` },
}

export interface ListenerOptions extends Omit<ConnectionOptions, 'calls'> {
  /** A user besides root and the one of svc. */
  readonly alsoUid?: number | undefined
  /** A connection of another user was closed. */
  onStranger(folder: string, uid: number): void
}

export class ToolListener {
  readonly #gate: Gate
  readonly #options: ListenerOptions
  readonly #server: Server
  readonly #calls: CallRate
  readonly #connections = new Map<Socket, Connection>()
  #turnedAway = 0

  constructor(gate: Gate, options: ListenerOptions) {
    this.#gate = gate
    this.#options = options
    this.#calls = new CallRate(gate.host.limits.toolCallsPerSecond, gate.host.clock)
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket))
  }

  async listen(path: string): Promise<void> {
    this.#server.listen(path)
    await once(this.#server, 'listening')
  }

  /** Its connections finish what is under way. */
  async close(): Promise<void> {
    this.#server.close()
    const closing = [...this.#connections].map(async ([socket, connection]) => {
      const timer = setTimeout(() => socket.destroy(), CLOSE_MS)
      await connection.close()
      clearTimeout(timer)
      socket.destroy()
    })
    await Promise.all(closing)
  }

  #accept(socket: Socket): void {
    const uid = peerUid(socket)
    if (uid !== undefined && !this.#isWelcome(uid)) {
      this.#options.onStranger(this.#options.folder, uid)
      socket.destroy()
      return
    }
    if (this.#connections.size >= CONNECTIONS_MAX) {
      this.#turnAway(socket)
      return
    }
    this.#connections.set(socket, openConnection(this.#gate, socket, { ...this.#options, calls: this.#calls }))
    socket.once('close', () => this.#connections.delete(socket))
  }

  /** Root could become whichever user is let in. */
  #isWelcome(uid: number): boolean {
    return uid === 0 || uid === process.geteuid?.() || uid === this.#options.alsoUid
  }

  #turnAway(socket: Socket): void {
    socket.on('error', () => socket.destroy())
    if (this.#turnedAway >= TURNED_AWAY_MAX) {
      socket.destroy()
      return
    }
    this.#turnedAway++
    socket.once('close', () => this.#turnedAway--)
    endSoon(socket, `${JSON.stringify(TOO_MANY)}\n`)
  }
}
