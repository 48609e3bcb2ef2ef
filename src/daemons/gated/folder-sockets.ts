// The tool sockets of all groups, bound as soon as a group exists. See docs/decisions.md#tool-sockets.
import { once } from 'node:events'
import { chmodSync, rmSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { groupStamp } from '../../core/change-stamps.ts'
import type { Layout } from '../../core/layout.ts'
import { makeDirectorySync } from '../../lib/files/owner.ts'
import type { Log } from '../../lib/log/log.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { query, text } from '../../store/statement.ts'
import { FolderSocket, type FolderSocketOptions, PATH_MAX_BYTES } from './folder-socket.ts'

export interface FolderSocketsOptions extends FolderSocketOptions {
  readonly log: Log
}

const POLL_MS = 1000
/** Shortest time between two checks. */
const CHECK_INTERVAL_MS = 100
/** Delay before a socket that could not be bound is retried. */
const RETRY_MS = 10_000
/** Sockets bound between two yields to the event loop. */
const BATCH_SIZE = 50

export class FolderSockets {
  readonly #options: FolderSocketsOptions
  readonly #sockets = new Map<string, FolderSocket>()
  readonly #stops: (() => void)[] = []
  readonly #lock: Server
  /** Stamp of the groups whose sockets are bound. */
  #stamp: string | undefined
  #retryAt = 0
  #lastError = ''
  #checking: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #checkedAt = Number.NEGATIVE_INFINITY
  #isStale = false
  #isClosing = false

  private constructor(options: FolderSocketsOptions, lock: Server) {
    this.#options = options
    this.#lock = lock
  }

  /** The sockets of all groups listen when it returns. */
  static async open(options: FolderSocketsOptions): Promise<FolderSockets> {
    const { layout } = options
    mustHaveShortPath(layout)
    makeDirectorySync(layout.ipc, 0o700)
    chmodSync(layout.ipc, 0o700)
    const sockets = new FolderSockets(options, await acquireLock(layout))
    try {
      await sockets.#start()
    } catch (error) {
      // Otherwise the open listeners would keep the process running.
      await sockets.close()
      throw error
    }
    return sockets
  }

  async #start(): Promise<void> {
    const { host } = this.#options
    await this.#check()
    const check = (): void => this.#checkSoon()
    const timer = setInterval(check, POLL_MS).unref()
    this.#stops.push(() => clearInterval(timer))
    this.#stops.push(host.signals.on(check))
    this.#stops.push(host.engine.listen(check))
  }

  async close(): Promise<void> {
    this.#isClosing = true
    for (const stop of this.#stops) stop()
    clearTimeout(this.#timer)
    await this.#checking
    await Promise.all([...this.#sockets.values()].map((socket) => socket.close()))
    this.#lock.close()
  }

  /** Rate limited, because every message triggers it. */
  #checkSoon(): void {
    this.#isStale = true
    if (this.#checking || this.#timer || this.#isClosing) return
    const wait = this.#checkedAt + CHECK_INTERVAL_MS - performance.now()
    if (wait <= 0) return void this.#runCheck()
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#runCheck()
    }, wait).unref()
  }

  #runCheck(): void {
    this.#checking = this.#check().finally(() => {
      this.#checking = undefined
      this.#checkedAt = performance.now()
      if (this.#isStale) this.#checkSoon()
    })
  }

  async #check(): Promise<void> {
    this.#isStale = false
    const { host } = this.#options
    try {
      const stamp = await host.engine.read((tx) => groupStamp.read(tx))
      const isRetry = this.#retryAt > 0 && performance.now() >= this.#retryAt
      if (stamp === this.#stamp && !isRetry) return
      const rows = await host.engine.read((tx) =>
        query(tx, { folder: text }, 'select folder from groups order by folder'),
      )
      await this.#sync(new Set(rows.map(({ folder }) => folder)))
      // Changes since the read have another stamp.
      this.#stamp = stamp
    } catch (error) {
      if (!(error instanceof Refusal)) host.faults.report('job', error)
    }
  }

  async #sync(folders: ReadonlySet<string>): Promise<void> {
    const removed = [...this.#sockets].filter(([folder]) => !folders.has(folder))
    // Subfolders first, so that the directories are empty.
    for (const [folder, socket] of removed.toReversed()) {
      this.#sockets.delete(folder)
      await socket.remove()
    }
    this.#retryAt = 0
    let bound = 0
    for (const folder of folders) {
      if (this.#isClosing) return
      if (this.#sockets.has(folder)) continue
      await this.#add(folder)
      if (++bound % BATCH_SIZE === 0) await yieldToEventLoop()
    }
    if (this.#retryAt === 0) this.#lastError = ''
  }

  async #add(folder: string): Promise<void> {
    try {
      this.#sockets.set(folder, await FolderSocket.open(folder, this.#options))
    } catch (error) {
      this.#retryAt = performance.now() + RETRY_MS
      const message = error instanceof Error ? error.message : String(error)
      // All folders may fail for the same reason.
      if (message !== this.#lastError) this.#options.log.error({ folder, err: error }, 'cannot bind a tool socket')
      this.#lastError = message
    }
  }
}

function mustHaveShortPath(layout: Layout): void {
  const longest = join(layout.ipc, '.0123456789ab')
  if (Buffer.byteLength(longest) <= PATH_MAX_BYTES) return
  refuse(
    'invalid',
    `the path ${layout.ipc} is too long: socket paths below it would exceed ${PATH_MAX_BYTES} bytes`,
    'move the instance to a directory with a shorter path',
  )
}

/** Two processes would replace each other's sockets. The lock of a process that died does not count. */
async function acquireLock({ ipc }: Layout): Promise<Server> {
  const path = join(ipc, '.gated')
  if (await acceptsConnections(path)) refuse('conflict', `another process serves the tool sockets in ${ipc}`)
  rmSync(path, { force: true })
  const lock = createServer((socket) => socket.destroy())
  lock.listen(path)
  await once(lock, 'listening')
  lock.unref()
  return lock
}

function acceptsConnections(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
