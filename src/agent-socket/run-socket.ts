// The tool socket of one run. It is bound to the turn and fence of the run and removed with it; no other run can open it.
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, existsSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { AgentUser } from '../core/agent-user.ts'
import { LiveDirectory } from '../lib/files/live-directory.ts'
import { makeProcessDirectory, removeProcessDirectory } from '../lib/files/process-directory.ts'
import { ByteRelay } from './byte-relay.ts'
import type { BoundTurn, ToolSocketContext } from './connection.ts'
import { ToolListener } from './tool-listener.ts'

export interface RunSocket {
  readonly path: string
  close(): Promise<void>
}

export interface RunSocketsOptions extends ToolSocketContext {
  /** Whether the users of agents are not the user of svc. */
  readonly hasOtherUsers?: boolean | undefined
  /** Where to make the directory of the sockets; default the directory for temporary files. */
  readonly parent?: string | undefined
  /** Keeps descriptors from this process by another one, for kernels that cannot refuse them. */
  readonly isRelayed?: boolean | undefined
  onUnexpectedUser(folder: string, uid: number): void
}

interface PreparedSocket {
  readonly listener: ToolListener
  readonly path: string
  close(): Promise<void>
}

/**
 * The sockets of the runs of this process, in a directory that only svc can list. The next one is created ahead of time,
 * because creating a file takes long on a busy disk.
 */
export class RunSockets {
  readonly #options: RunSocketsOptions
  #directory: SocketDirectory | undefined
  #spare: Promise<PreparedSocket | undefined> | undefined
  #isClosed = false

  constructor(options: RunSocketsOptions) {
    this.#options = options
  }

  /** Creates the next socket ahead of time. */
  prepare(): void {
    if (!this.#isClosed) this.#spare ??= this.#listen().catch(() => undefined)
  }

  /** `user` is the user of the agent, if it is not the user of svc. */
  async open(folder: string, bound: BoundTurn, user?: AgentUser): Promise<RunSocket> {
    const { onUnexpectedUser } = this.#options
    const { listener, path, close } = (await this.#takeSpare()) ?? (await this.#listen())
    if (user) chownSync(path, user.uid, user.gid)
    listener.bind({ folder, bound, agentUid: user?.uid, onUnexpectedUser })
    return {
      path,
      close: () => {
        this.prepare()
        return close()
      },
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await (await this.#takeSpare())?.close()
    this.#directory?.close()
    this.#directory = undefined
  }

  /** The system may have cleaned up temporary files, and the socket with them. */
  async #takeSpare(): Promise<PreparedSocket | undefined> {
    const taken = this.#spare
    this.#spare = undefined
    const spare = await taken
    if (!spare || existsSync(spare.path)) return spare
    await spare.close()
    return undefined
  }

  async #listen(): Promise<PreparedSocket> {
    const { isRelayed = false } = this.#options
    const listener = new ToolListener(this.#options)
    const name = randomBytes(9).toString('base64url')
    const ownName = isRelayed ? `${name}.svc` : name
    let relay: ByteRelay | undefined
    let path = ''
    const listen = async (): Promise<void> => {
      const { path: directory } = await this.#socketDirectory()
      if (this.#options.parent === undefined) await listener.listen(join(directory, ownName))
      else await listener.listenIn(directory, ownName)
      path = join(directory, name)
    }
    const close = async (): Promise<void> => {
      await listener.close()
      relay?.close()
      if (relay) rmSync(path, { force: true })
    }
    try {
      // The system may have cleaned up the directory.
      await listen().catch(() => {
        this.#directory = undefined
        return listen()
      })
      if (isRelayed) {
        chmodSync(join(dirname(path), ownName), 0o600)
        relay = await ByteRelay.open(dirname(path), name, ownName)
      }
      chmodSync(path, 0o600)
      return { listener, path, close }
    } catch (error) {
      await close()
      throw error
    }
  }

  /** By default not in the data directory, to which the agents' user may have no access. */
  async #socketDirectory(): Promise<SocketDirectory> {
    const { parent, hasOtherUsers } = this.#options
    this.#directory ??=
      parent === undefined ? temporaryDirectory(hasOtherUsers ? 0o711 : 0o700) : await LiveDirectory.open(parent)
    return this.#directory
  }
}

interface SocketDirectory {
  readonly path: string
  close(): void
}

function temporaryDirectory(mode: number): SocketDirectory {
  const path = makeProcessDirectory('svc-run-', mode)
  return { path, close: () => removeProcessDirectory(path) }
}
