// Accepts connections to a tool socket: checks the peer's uid and limits their number and what they send.
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { CallRateLimiter } from '../core/access/call-rate-limit.ts'
import { guard } from '../lib/fault-boundary.ts'
import { listenByDescriptor } from '../lib/files/live-directory.ts'
import { FlowLimiter, type FlowLimits } from '../lib/flow-limiter.ts'
import type { AgentConnection, AgentConnectionOptions, ToolSocketContext } from './connection.ts'
import { closeGracefully } from './graceful-close.ts'
import { peerUid, refuseDescriptors } from './socket-options.ts'

const CONNECTIONS_MAX = 8
/** Refused connections that may still be reading the error. */
const REFUSED_MAX = 8
/** Time for pending requests of a connection when its socket closes. */
const CLOSE_MS = 2000

/** Opening a connection counts as this many lines. */
const CONNECTION_LINES = 10
/** Bytes are those of requests and responses: a list of tools has about 60 KB. */
const BYTES_PER_SECOND = 1024 * 1024
const LINES_PER_SECOND_MIN = 200
/** Has room for the longest line, and for a client that sends many requests at its start. */
const BURST_S = 10

/** All lines of a socket: notifications, malformed lines and calls that are refused count too. */
export function socketLimits(toolCallsPerSecond: number): FlowLimits {
  const linesPerSecond = toolCallsPerSecond === 0 ? 0 : Math.max(LINES_PER_SECOND_MIN, 2 * toolCallsPerSecond)
  return { bytesPerSecond: BYTES_PER_SECOND, linesPerSecond, burstS: BURST_S }
}

const TOO_MANY = {
  jsonrpc: '2.0',
  id: null,
  error: { code: -32000, message: `too many connections: a tool socket takes ${CONNECTIONS_MAX}; close one first` },
}

export interface ToolListenerOptions extends Omit<AgentConnectionOptions, 'calls' | 'flow'> {
  /** May connect besides root and the user of svc. */
  readonly agentUid?: number | undefined
  /** Called when a connection of another user was refused. */
  onUnexpectedUser(folder: string, uid: number): void
}

export class ToolListener {
  readonly #context: ToolSocketContext
  readonly #server: Server
  readonly #calls: CallRateLimiter
  readonly #flow: FlowLimiter
  readonly #connections = new Map<Socket, Promise<AgentConnection | undefined>>()
  /** Connections that wait to be opened, because there were many. They count as connections. */
  readonly #waiting = new Set<Socket>()
  #options: ToolListenerOptions | undefined

  /** Without options, connections are refused until `bind` is called. */
  constructor(context: ToolSocketContext, options?: ToolListenerOptions) {
    this.#context = context
    this.#options = options
    const { limits, clock, metrics } = context.host
    this.#calls = new CallRateLimiter(() => limits.toolCallsPerSecond, clock, metrics)
    this.#flow = new FlowLimiter(socketLimits(limits.toolCallsPerSecond))
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket))
    // More are closed before a socket is created for them, so that a flood of connections takes little time.
    this.#server.maxConnections = CONNECTIONS_MAX + REFUSED_MAX
  }

  bind(options: ToolListenerOptions): void {
    this.#options = options
  }

  async listen(path: string): Promise<void> {
    this.#server.listen(path)
    await once(this.#server, 'listening')
    refuseDescriptors(this.#server)
  }

  /** However long the path of the directory is. */
  async listenIn(directory: string, name: string): Promise<void> {
    await listenByDescriptor(this.#server, directory, name)
    refuseDescriptors(this.#server)
  }

  /** Waits for pending requests of its connections. */
  async close(): Promise<void> {
    this.#server.close()
    for (const socket of this.#waiting) socket.destroy()
    this.#waiting.clear()
    const closing = [...this.#connections].map(async ([socket, connection]) => {
      const timer = setTimeout(() => socket.destroy(), CLOSE_MS)
      await connection.then((opened) => opened?.close())
      clearTimeout(timer)
      socket.destroy()
    })
    await Promise.all(closing)
  }

  #accept(socket: Socket): void {
    try {
      this.#admit(socket)
    } catch (error) {
      this.#fail(socket, error)
    }
  }

  #fail(socket: Socket, error: unknown): void {
    this.#context.onError(error, this.#options?.folder ?? '', 'connection')
    socket.destroy()
  }

  #admit(socket: Socket): void {
    const options = this.#options
    const uid = peerUid(socket)
    if (!options || (uid !== undefined && !isAllowedUid(uid, options.agentUid))) {
      if (uid !== undefined) options?.onUnexpectedUser(options.folder, uid)
      socket.destroy()
      return
    }
    if (this.#connections.size + this.#waiting.size >= CONNECTIONS_MAX) {
      this.#refuse(socket)
      return
    }
    // The client may disconnect before the connection module is loaded; no other handler exists until then.
    socket.on('error', () => socket.destroy())
    const open = (): void => {
      const opening = this.#open(socket, options).catch((error) => {
        this.#fail(socket, error)
        return undefined
      })
      this.#connections.set(socket, opening)
      socket.once('close', () => this.#connections.delete(socket))
    }
    const isFree = this.#flow.isFree()
    this.#flow.countLines(CONNECTION_LINES)
    if (isFree) {
      open()
      return
    }
    this.#waiting.add(socket)
    const openLater = (): void => {
      if (!this.#waiting.delete(socket)) return
      // A client that only connects has ended by now; `end` was emitted before anything listened.
      if (socket.readableEnded) socket.destroy()
      else if (!socket.destroyed) open()
    }
    this.#flow.later(guard((error) => this.#fail(socket, error), openLater))
  }

  /** Loads the MCP package with the first connection, because it takes longer to load than the rest of the daemon. */
  async #open(socket: Socket, options: ToolListenerOptions): Promise<AgentConnection> {
    const { openAgentConnection } = await import('./connection.ts')
    return openAgentConnection(this.#context, socket, { ...options, calls: this.#calls, flow: this.#flow })
  }

  #refuse(socket: Socket): void {
    socket.on('error', () => socket.destroy())
    closeGracefully(socket, `${JSON.stringify(TOO_MANY)}\n`)
  }
}

/** Root is allowed: it could become any allowed user anyway. */
function isAllowedUid(uid: number, alsoUid: number | undefined): boolean {
  return uid === 0 || uid === process.geteuid?.() || uid === alsoUid
}
