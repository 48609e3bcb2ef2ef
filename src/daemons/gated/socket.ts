// One folder's socket: where it lies, and who may come in. It is the operator's (`svc chat`): each run of an agent has a
// socket of its own.
import { hash } from 'node:crypto'
import { chmodSync, mkdirSync, rmdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Gate } from '../../agent-socket/connection.ts'
import { ToolListener } from '../../agent-socket/listener.ts'
import { groupDirs, type Layout } from '../../core/layout.ts'

/** What the kernel keeps of a path, without the zero at its end. */
export const PATH_MAX_BYTES = 107
const DIRECTORY_MODE = 0o700

export interface SocketOptions extends Gate {
  readonly layout: Layout
  /** A connection of another user was closed. */
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

export class FolderSocket {
  readonly #folder: string
  readonly #options: SocketOptions
  readonly #listener: ToolListener

  private constructor(folder: string, options: SocketOptions) {
    this.#folder = folder
    this.#options = options
    const { onStranger, silenceMs } = options
    this.#listener = new ToolListener(options, { folder, silenceMs, onStranger })
  }

  static async open(folder: string, options: SocketOptions): Promise<FolderSocket> {
    const opened = new FolderSocket(folder, options)
    try {
      await opened.#bind()
    } catch (error) {
      await opened.#listener.close()
      throw error
    }
    return opened
  }

  /** Its connections finish what is under way. */
  async close(): Promise<void> {
    const { path, link } = socketPlaces(this.#options.layout, this.#folder)
    const closing = this.#listener.close()
    for (const place of link ? [link, path] : [path]) rmSync(place, { force: true })
    await closing
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
    const { path, link } = socketPlaces(this.#options.layout, this.#folder)
    try {
      await this.#listener.listen(path)
    } catch {
      // Most often its directory is there, and nothing in it that a process that died has left.
      mkdirSync(dirname(path), { recursive: true, mode: DIRECTORY_MODE })
      rmSync(path, { force: true })
      await this.#listener.listen(path)
    }
    chmodSync(path, 0o600)
    if (link) replaceLink(path, link)
  }
}

function replaceLink(to: string, link: string): void {
  mkdirSync(dirname(link), { recursive: true, mode: DIRECTORY_MODE })
  rmSync(link, { force: true })
  symlinkSync(to, link)
}
