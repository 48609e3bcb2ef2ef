// The tool socket of one run. It is bound to the turn and fence of the run and removed with it; no other run can open it.
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentUser } from '../core/agent-user.ts'
import { makeProcessDirectory } from '../lib/files/process-directory.ts'
import type { BoundTurn, ToolSocketContext } from './connection.ts'
import { ToolListener } from './tool-listener.ts'

export interface RunSocket {
  readonly path: string
  close(): Promise<void>
}

export interface RunSocketsOptions extends ToolSocketContext {
  /** The user of the agents, if it is not the user of svc. */
  readonly user?: AgentUser | undefined
  onUnexpectedUser(folder: string, uid: number): void
}

interface PreparedSocket {
  readonly listener: ToolListener
  readonly path: string
}

/**
 * The sockets of the runs of this process, in a directory that only svc can list. The next one is created ahead of time,
 * because creating a file takes long on a busy disk.
 */
export class RunSockets {
  readonly #options: RunSocketsOptions
  #directory: string | undefined
  #spare: Promise<PreparedSocket | undefined> | undefined
  #isClosed = false

  constructor(options: RunSocketsOptions) {
    this.#options = options
  }

  /** Creates the next socket ahead of time. */
  prepare(): void {
    if (!this.#isClosed) this.#spare ??= this.#listen().catch(() => undefined)
  }

  async open(folder: string, bound: BoundTurn): Promise<RunSocket> {
    const { user, onUnexpectedUser } = this.#options
    const { listener, path } = (await this.#takeSpare()) ?? (await this.#listen())
    listener.bind({ folder, bound, agentUid: user?.uid, onUnexpectedUser })
    return {
      path,
      close: () => {
        this.prepare()
        return listener.close()
      },
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await (await this.#takeSpare())?.listener.close()
    if (this.#directory !== undefined) rmSync(this.#directory, { recursive: true, force: true })
    this.#directory = undefined
  }

  /** The system may have cleaned up temporary files, and the socket with them. */
  async #takeSpare(): Promise<PreparedSocket | undefined> {
    const taken = this.#spare
    this.#spare = undefined
    const spare = await taken
    if (!spare || existsSync(spare.path)) return spare
    await spare.listener.close()
    return undefined
  }

  async #listen(): Promise<PreparedSocket> {
    const { user } = this.#options
    const listener = new ToolListener(this.#options)
    const name = randomBytes(9).toString('base64url')
    let path = join(this.#socketDirectory(), name)
    try {
      // The system may have cleaned up the directory.
      await listener.listen(path).catch(() => {
        this.#directory = undefined
        path = join(this.#socketDirectory(), name)
        return listener.listen(path)
      })
      chmodSync(path, 0o600)
      if (user) chownSync(path, user.uid, user.gid)
    } catch (error) {
      await listener.close()
      throw error
    }
    return { listener, path }
  }

  /** Not in the data directory: its path may be too long for a socket, and the agents' user may have no access to it. */
  #socketDirectory(): string {
    this.#directory ??= makeProcessDirectory('svc-run-', this.#options.user ? 0o711 : 0o700)
    return this.#directory
  }
}
