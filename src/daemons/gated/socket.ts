// One folder's socket: where it lies, who may come in, and how many.
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdirSync, renameSync, rmdirSync, rmSync, symlinkSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { groupDirs, type Layout } from '../../core/layout.ts'
import { type Connection, type Gate, openConnection } from './connection.ts'
import { endSoon } from './line-transport.ts'
import { peerUid } from './peer.ts'

/** What the kernel keeps of a path, without the zero at its end. */
export const PATH_MAX_BYTES = 107
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

export interface SocketOptions extends Gate {
  readonly layout: Layout
  /** Whom the agents run as, where that is not who runs the instance. */
  readonly agentUid?: number | undefined
  /** A connection of somebody else was closed. */
  onStranger(folder: string, uid: number): void
  readonly silenceMs?: number | undefined
}

/** Where a folder's socket lies, and where the name in its place points when its path would be too long for one. */
export function socketPlaces(layout: Layout, folder: string): { readonly path: string; readonly link?: string } {
  const { socket } = groupDirs(layout, folder)
  if (Buffer.byteLength(socket) <= PATH_MAX_BYTES) return { path: socket }
  const short = hash('sha256', folder, 'hex').slice(0, 12)
  return { path: join(layout.ipc, `.${short}`), link: socket }
}

/** Where sockets are while they are made. No folder's name starts with a dot. */
export function makingPlace({ ipc }: Layout): string {
  return join(ipc, '.new')
}

/** No name is used twice: a server that closes removes what it was bound to. */
let made = 0

export class FolderSocket {
  readonly #folder: string
  readonly #options: SocketOptions
  readonly #server: Server
  readonly #connections = new Map<Socket, Connection>()
  #turnedAway = 0

  private constructor(folder: string, options: SocketOptions) {
    this.#folder = folder
    this.#options = options
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket))
  }

  static async open(folder: string, options: SocketOptions): Promise<FolderSocket> {
    const opened = new FolderSocket(folder, options)
    await opened.#bind()
    return opened
  }

  /** Its connections finish what is under way. */
  async close(): Promise<void> {
    const { path, link } = socketPlaces(this.#options.layout, this.#folder)
    this.#server.close()
    for (const place of link ? [link, path] : [path]) rmSync(place, { force: true })
    const closing = [...this.#connections].map(async ([socket, connection]) => {
      const timer = setTimeout(() => socket.destroy(), CLOSE_MS)
      await connection.close()
      clearTimeout(timer)
      socket.destroy()
    })
    await Promise.all(closing)
  }

  /** The same for a folder that is gone; the directories of those below it stay. */
  async remove(): Promise<void> {
    await this.close()
    try {
      rmdirSync(groupDirs(this.#options.layout, this.#folder).ipc)
    } catch {
      // Something else lies in it.
    }
  }

  async #bind(): Promise<void> {
    const { layout, agentUid } = this.#options
    const { path, link } = socketPlaces(layout, this.#folder)
    try {
      if (agentUid === undefined) await this.#bindAt(path, 0o700)
      else await this.#bindFor(agentUid, path)
      if (link) replaceLink(path, link, agentUid === undefined ? 0o700 : 0o755)
    } catch (error) {
      this.#server.close()
      throw error
    }
  }

  /** Nobody else gets as far as its directory. */
  async #bindAt(path: string, mode: number): Promise<void> {
    try {
      await this.#listen(path)
    } catch {
      // Most often its directory is there, and nothing in it that a process that died has left.
      mkdirSync(dirname(path), { recursive: true, mode })
      rmSync(path, { force: true })
      await this.#listen(path)
    }
    chmodSync(path, 0o600)
  }

  /** Bound where nobody sees it, given away, and only then put in its place. */
  async #bindFor(uid: number, path: string): Promise<void> {
    const making = join(makingPlace(this.#options.layout), `${++made}`)
    await this.#listen(making)
    chownSync(making, uid, process.getegid?.() ?? -1)
    chmodSync(making, 0o660)
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 })
    renameSync(making, path)
  }

  async #listen(path: string): Promise<void> {
    this.#server.listen(path)
    await once(this.#server, 'listening')
  }

  #accept(socket: Socket): void {
    const uid = peerUid(socket)
    if (uid !== undefined && !this.#isWelcome(uid)) {
      this.#options.onStranger(this.#folder, uid)
      socket.destroy()
      return
    }
    if (this.#connections.size >= CONNECTIONS_MAX) {
      this.#turnAway(socket)
      return
    }
    const connection = openConnection(this.#options, this.#folder, socket, this.#options.silenceMs)
    this.#connections.set(socket, connection)
    socket.once('close', () => this.#connections.delete(socket))
  }

  /** Root could become whoever is let in. */
  #isWelcome(uid: number): boolean {
    return uid === 0 || uid === process.geteuid?.() || uid === this.#options.agentUid
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

function replaceLink(to: string, link: string, mode: number): void {
  mkdirSync(dirname(link), { recursive: true, mode })
  rmSync(link, { force: true })
  symlinkSync(to, link)
}
