// The tool socket of one run: made for it, bound to its turn and fence, and gone with it. Nothing else of the instance can
// be reached through it, and no other run can open it.
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, mkdirSync, rmSync } from 'node:fs'
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
    const path = join(this.#place(), randomBytes(9).toString('base64url'))
    try {
      await listener.listen(path)
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

  /**
   * Not in the data directory: its path may be too long for a socket, and the agents' user need not be able to enter it.
   * Made again where a cleaner of temporary files has removed it.
   */
  #place(): string {
    const mode = this.#options.user ? 0o711 : 0o700
    if (this.#directory !== undefined) mkdirSync(this.#directory, { recursive: true, mode })
    else this.#directory = makeProcessDirectory('svc-run-', mode)
    return this.#directory
  }
}
