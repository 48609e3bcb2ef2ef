// Accepts connections to a tool socket: checks the peer's uid and limits their number.
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { CallRateLimiter } from '../core/access/call-rate-limit.ts'
import { listenByDescriptor } from '../lib/files/live-directory.ts'
import type { AgentConnection, AgentConnectionOptions, ToolSocketContext } from './connection.ts'
import { closeGracefully } from './graceful-close.ts'
import { peerUid, refuseDescriptors } from './socket-options.ts'

const CONNECTIONS_MAX = 8
/** Refused connections that may still be reading the error. */
const REFUSED_MAX = 8
/** Time for pending requests of a connection when its socket closes. */
const CLOSE_MS = 2000

const TOO_MANY = {
  jsonrpc: '2.0',
  id: null,
  error: { code: -32000, message: `too many connections: a tool socket takes ${CONNECTIONS_MAX}; close one first` },
}

export interface ToolListenerOptions extends Omit<AgentConnectionOptions, 'calls'> {
  /** May connect besides root and the user of svc. */
  readonly agentUid?: number | undefined
  /** Called when a connection of another user was refused. */
  onUnexpectedUser(folder: string, uid: number): void
}

export class ToolListener {
  readonly #context: ToolSocketContext
  readonly #server: Server
  readonly #calls: CallRateLimiter
  readonly #connections = new Map<Socket, Promise<AgentConnection | undefined>>()
  #options: ToolListenerOptions | undefined
  #refusedCount = 0

  /** Without options, connections are refused until `bind` is called. */
  constructor(context: ToolSocketContext, options?: ToolListenerOptions) {
    this.#context = context
    this.#options = options
    const { limits, clock, metrics } = context.host
    this.#calls = new CallRateLimiter(limits.toolCallsPerSecond, clock, metrics)
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket))
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
    if (this.#connections.size >= CONNECTIONS_MAX) {
      this.#refuse(socket)
      return
    }
    const opening = this.#open(socket, options).catch((error) => {
      this.#fail(socket, error)
      return undefined
    })
    this.#connections.set(socket, opening)
    socket.once('close', () => this.#connections.delete(socket))
    // The client may disconnect before the connection module is loaded; no other handler exists until then.
    socket.on('error', () => socket.destroy())
  }

  /** Loads the MCP package with the first connection, because it takes longer to load than the rest of the daemon. */
  async #open(socket: Socket, options: ToolListenerOptions): Promise<AgentConnection> {
    const { openAgentConnection } = await import('./connection.ts')
    return openAgentConnection(this.#context, socket, { ...options, calls: this.#calls })
  }

  #refuse(socket: Socket): void {
    socket.on('error', () => socket.destroy())
    if (this.#refusedCount >= REFUSED_MAX) {
      socket.destroy()
      return
    }
    this.#refusedCount++
    socket.once('close', () => this.#refusedCount--)
    closeGracefully(socket, `${JSON.stringify(TOO_MANY)}\n`)
  }
}

/** Root is allowed: it could become any allowed user anyway. */
function isAllowedUid(uid: number, alsoUid: number | undefined): boolean {
  return uid === 0 || uid === process.geteuid?.() || uid === alsoUid
}
