// The tool socket of a folder, for the operator (`svc chat`). Each run of an agent has another socket.
import { hash } from 'node:crypto'
import { chmodSync, rmdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ToolSocketContext } from '../../agent-socket/connection.ts'
import { ToolListener } from '../../agent-socket/tool-listener.ts'
import { groupDirs, type Layout } from '../../core/layout.ts'
import { makeDirectorySync } from '../../lib/files/owner.ts'

/** Limit of the kernel, without the terminating zero. */
export const PATH_MAX_BYTES = 107
const DIRECTORY_MODE = 0o700

export interface FolderSocketOptions extends ToolSocketContext {
  readonly layout: Layout
  /** Called when a connection of another user is closed. */
  onUnexpectedUser(folder: string, uid: number): void
  readonly silenceMs?: number | undefined
}

/** If the path is too long for a socket, `link` is a symbolic link to a shorter one. */
export function socketPaths(layout: Layout, folder: string): { readonly path: string; readonly link?: string } {
  const { socket } = groupDirs(layout, folder)
  if (Buffer.byteLength(socket) <= PATH_MAX_BYTES) return { path: socket }
  const short = hash('sha256', folder, 'hex').slice(0, 12)
  return { path: join(layout.ipc, `.${short}`), link: socket }
}

export class FolderSocket {
  readonly #folder: string
  readonly #options: FolderSocketOptions
  readonly #listener: ToolListener

  private constructor(folder: string, options: FolderSocketOptions) {
    this.#folder = folder
    this.#options = options
    const { onUnexpectedUser, silenceMs } = options
    this.#listener = new ToolListener(options, { folder, firstLineTimeoutMs: silenceMs, onUnexpectedUser })
  }

  static async open(folder: string, options: FolderSocketOptions): Promise<FolderSocket> {
    const opened = new FolderSocket(folder, options)
    try {
      await opened.#bind()
    } catch (error) {
      await opened.#listener.close()
      throw error
    }
    return opened
  }

  /** Running calls finish first. */
  async close(): Promise<void> {
    const { path, link } = socketPaths(this.#options.layout, this.#folder)
    const closing = this.#listener.close()
    for (const file of link ? [link, path] : [path]) rmSync(file, { force: true })
    await closing
  }

  /** Also removes the directory of a removed folder, unless subfolders use it. */
  async remove(): Promise<void> {
    await this.close()
    try {
      rmdirSync(groupDirs(this.#options.layout, this.#folder).ipc)
    } catch {
      // The directory is not empty.
    }
  }

  async #bind(): Promise<void> {
    const { path, link } = socketPaths(this.#options.layout, this.#folder)
    try {
      await this.#listener.listen(path)
    } catch {
      // The directory is missing, or a process that died left its socket.
      makeDirectorySync(dirname(path), DIRECTORY_MODE)
      rmSync(path, { force: true })
      await this.#listener.listen(path)
    }
    chmodSync(path, 0o600)
    if (link) replaceLink(path, link)
  }
}

function replaceLink(to: string, link: string): void {
  makeDirectorySync(dirname(link), DIRECTORY_MODE)
  rmSync(link, { force: true })
  symlinkSync(to, link)
}
