// The sockets of all groups (decision T8): bound as long as this process runs, and as soon as a group is there.
import { once } from 'node:events'
import { chmodSync, mkdirSync, rmSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { setImmediate as breathe } from 'node:timers/promises'
import type { Layout } from '../../core/layout.ts'
import { groupStamp } from '../../core/stamp.ts'
import type { Log } from '../../lib/log.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { run } from '../../store/statement.ts'
import { FolderSocket, PATH_MAX_BYTES, type SocketOptions } from './socket.ts'

export interface SocketsOptions extends SocketOptions {
  readonly log: Log
}

const LOOK_MS = 1000
/** Between two looks. */
const PAUSE_MS = 100
/** How long after a socket could not be bound it is tried again. */
const AGAIN_MS = 10_000
/** So many are bound before others get their turn. */
const AT_ONCE = 50

export class Sockets {
  readonly #options: SocketsOptions
  readonly #sockets = new Map<string, FolderSocket>()
  readonly #stops: (() => void)[] = []
  readonly #lock: Server
  /** What the table said when all of it was bound. */
  #stamp: string | undefined
  #againAt = 0
  #complaint = ''
  #looking: Promise<void> | undefined
  #waiting: NodeJS.Timeout | undefined
  #lookedAt = Number.NEGATIVE_INFINITY
  #isStale = false
  #isClosing = false

  private constructor(options: SocketsOptions, lock: Server) {
    this.#options = options
    this.#lock = lock
  }

  /** Those of all groups listen when it returns. */
  static async open(options: SocketsOptions): Promise<Sockets> {
    const { layout } = options
    mustBeShort(layout)
    mkdirSync(layout.ipc, { recursive: true, mode: 0o700 })
    chmodSync(layout.ipc, 0o700)
    const sockets = new Sockets(options, await mustBeAlone(layout))
    try {
      await sockets.#begin()
    } catch (error) {
      // The store may be closed meanwhile. What listens here is nobody's then, and would keep the process running.
      await sockets.close()
      throw error
    }
    return sockets
  }

  async #begin(): Promise<void> {
    const { host } = this.#options
    await this.#look()
    const look = (): void => this.#lookSoon()
    const timer = setInterval(look, LOOK_MS).unref()
    this.#stops.push(() => clearInterval(timer))
    this.#stops.push(host.signals.on(look))
    this.#stops.push(host.engine.listen(look))
  }

  async close(): Promise<void> {
    this.#isClosing = true
    for (const stop of this.#stops) stop()
    clearTimeout(this.#waiting)
    await this.#looking
    await Promise.all([...this.#sockets.values()].map((socket) => socket.close()))
    this.#lock.close()
  }

  /** At once, but not at every message where many come. */
  #lookSoon(): void {
    this.#isStale = true
    if (this.#looking || this.#waiting || this.#isClosing) return
    const wait = this.#lookedAt + PAUSE_MS - performance.now()
    if (wait <= 0) {
      this.#start()
      return
    }
    this.#waiting = setTimeout(() => {
      this.#waiting = undefined
      this.#start()
    }, wait).unref()
  }

  #start(): void {
    this.#looking = this.#look().finally(() => {
      this.#looking = undefined
      this.#lookedAt = performance.now()
      if (this.#isStale) this.#lookSoon()
    })
  }

  async #look(): Promise<void> {
    this.#isStale = false
    const { host } = this.#options
    try {
      const stamp = await host.engine.read((tx) => groupStamp.read(tx))
      const isRetry = this.#againAt > 0 && performance.now() >= this.#againAt
      if (stamp === this.#stamp && !isRetry) return
      const { rows } = await host.engine.read((tx) => run(tx, 'select folder from groups order by folder'))
      await this.#follow(new Set(rows.map(({ folder }) => String(folder))))
      // What was changed meanwhile has another stamp.
      this.#stamp = stamp
    } catch (error) {
      if (!(error instanceof Refusal)) host.onStray?.(error)
    }
  }

  async #follow(folders: ReadonlySet<string>): Promise<void> {
    const gone = [...this.#sockets].filter(([folder]) => !folders.has(folder))
    // Those below before those above, so that no directory is left.
    for (const [folder, socket] of gone.toReversed()) {
      this.#sockets.delete(folder)
      await socket.remove()
    }
    this.#againAt = 0
    let bound = 0
    for (const folder of folders) {
      if (this.#isClosing) return
      if (this.#sockets.has(folder)) continue
      await this.#add(folder)
      if (++bound % AT_ONCE === 0) await breathe()
    }
    if (this.#againAt === 0) this.#complaint = ''
  }

  async #add(folder: string): Promise<void> {
    try {
      this.#sockets.set(folder, await FolderSocket.open(folder, this.#options))
    } catch (error) {
      this.#againAt = performance.now() + AGAIN_MS
      const complaint = error instanceof Error ? error.message : String(error)
      // Ten thousand folders may have one and the same reason.
      if (complaint !== this.#complaint)
        this.#options.log.error({ folder, err: error }, 'a tool socket could not be bound')
      this.#complaint = complaint
    }
  }
}

function mustBeShort(layout: Layout): void {
  const longest = join(layout.ipc, '.0123456789ab')
  if (Buffer.byteLength(longest) <= PATH_MAX_BYTES) return
  refuse(
    'invalid',
    `the path ${layout.ipc} is too long for the sockets of the agents, which may have ${PATH_MAX_BYTES} bytes`,
    'move the instance to a place with a shorter path',
  )
}

/** Two processes would take each other's sockets away. What a process that died has left is no obstacle. */
async function mustBeAlone({ ipc }: Layout): Promise<Server> {
  const path = join(ipc, '.gated')
  if (await isAnswered(path)) refuse('conflict', `another process serves the tools of this instance at ${ipc}`)
  rmSync(path, { force: true })
  const lock = createServer((socket) => socket.destroy())
  lock.listen(path)
  await once(lock, 'listening')
  lock.unref()
  return lock
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
