// The tool socket of one run: made for it, bound to its turn and fence, and gone with it. Nothing else of the instance can
// be reached through it, and no other run can open it.
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentUser } from '../core/agent-user.ts'
import { makeProcessDirectory } from '../lib/process-directory.ts'
import type { BoundTurn, Gate } from './connection.ts'
import { ToolListener } from './listener.ts'

export interface RunSocket {
  readonly path: string
  close(): Promise<void>
}

export interface RunSocketsOptions extends Gate {
  /** Whom the runs belong to, where that is not the user of svc. */
  readonly user?: AgentUser | undefined
  onStranger(folder: string, uid: number): void
}

/** The sockets of the runs of this process, in a directory of their own that only svc can list. */
export class RunSockets {
  readonly #options: RunSocketsOptions
  #directory: string | undefined

  constructor(options: RunSocketsOptions) {
    this.#options = options
  }

  async open(folder: string, bound: BoundTurn): Promise<RunSocket> {
    const { user, onStranger } = this.#options
    const listener = new ToolListener(this.#options, { folder, bound, alsoUid: user?.uid, onStranger })
    const name = randomBytes(9).toString('base64url')
    let path = join(this.#place(), name)
    try {
      // A cleaner of temporary files may have removed the directory.
      await listener.listen(path).catch(() => {
        this.#directory = undefined
        path = join(this.#place(), name)
        return listener.listen(path)
      })
      chmodSync(path, 0o600)
      if (user) chownSync(path, user.uid, user.gid)
    } catch (error) {
      await listener.close()
      throw error
    }
    return { path, close: () => listener.close() }
  }

  close(): void {
    if (this.#directory !== undefined) rmSync(this.#directory, { recursive: true, force: true })
    this.#directory = undefined
  }

  /** Not in the data directory: its path may be too long for a socket, and the agents' user need not be able to enter it. */
  #place(): string {
    this.#directory ??= makeProcessDirectory('svc-run-', this.#options.user ? 0o711 : 0o700)
    return this.#directory
  }
}
