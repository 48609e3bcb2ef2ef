// Files of this process that are mounted in containers, in `<data>/cells`: replacements in /etc, and for each container a directory
// with its sockets and the view of visitors' turns.
import { chmodSync, chownSync, linkSync, mkdirSync, readSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import type { AgentUser } from '../../core/agent-user.ts'
import { CHAT_HOME } from '../../core/chats/chat-home.ts'
import { LiveDirectory, listenIn } from '../../lib/files/live-directory.ts'
import { CLIENT_DIRECTORY, COPY_BYTES_MAX, type VisibleEntry } from '../bubblewrap/visitor-workspace.ts'
import { INNER_HOME } from '../cell-paths.ts'
import { etcFiles, passwdFile } from '../etc-files.ts'
import { CONTROL_SOCKET } from './init-program.ts'

export class ContainerOwner {
  readonly #directory: LiveDirectory
  readonly #passwdFiles = new Set<string>()
  #count = 0

  private constructor(directory: LiveDirectory) {
    this.#directory = directory
  }

  static async open(cells: string, user: AgentUser | undefined): Promise<ContainerOwner> {
    const owner = new ContainerOwner(await LiveDirectory.open(cells))
    owner.writeFile('resolv.conf', '')
    for (const [path, text] of Object.entries(etcFiles(user))) owner.writeFile(path.slice('/etc/'.length), text)
    return owner
  }

  get id(): string {
    return this.#directory.id
  }

  /** Sources of mounts, by their path inside. */
  etcMounts(
    kind: 'own' | 'chat',
    user: AgentUser | undefined,
    isNetworkOpen: boolean,
  ): Readonly<Record<string, string>> {
    const at = (name: string): string => join(this.#directory.path, name)
    const passwd = `passwd-${kind}-${user?.uid}`
    if (!this.#passwdFiles.has(passwd))
      this.writeFile(passwd, passwdFile(user, kind === 'own' ? INNER_HOME : CHAT_HOME))
    this.#passwdFiles.add(passwd)
    const users = { '/etc/passwd': at(passwd), '/etc/group': at('group') }
    return isNetworkOpen ? users : { ...users, '/etc/hosts': at('hosts'), '/etc/resolv.conf': at('resolv.conf') }
  }

  /** Returns its path. */
  writeFile(name: string, text: string): string {
    const path = join(this.#directory.path, name)
    writeFileSync(path, text, { mode: 0o644 })
    return path
  }

  /** `user` is the user of the container. */
  makeDirectory(user: AgentUser | undefined): ContainerDirectory {
    const name = String(++this.#count)
    return new ContainerDirectory(`svc-${this.id}-${name}`, join(this.#directory.path, name), user)
  }

  close(): void {
    this.#directory.close()
  }
}

/** Agents see it but cannot write in it. */
export class ContainerDirectory {
  /** Name of the container. */
  readonly name: string
  readonly sockets: string
  readonly view: string
  readonly #path: string
  readonly #user: AgentUser | undefined

  constructor(name: string, path: string, user: AgentUser | undefined) {
    this.name = name
    this.#path = path
    this.#user = user
    this.sockets = join(path, 'ipc')
    this.view = join(path, 'home')
    mkdirSync(this.sockets, { recursive: true, mode: 0o755 })
  }

  /** Accepts the first process of the container. The socket is removed before an agent could see it. */
  async listenForInit(onConnection: (socket: Socket) => void): Promise<{ close(): void }> {
    const server = await listenIn(this.sockets, CONTROL_SOCKET, (socket) => {
      server.close()
      onConnection(socket)
    })
    const path = join(this.sockets, CONTROL_SOCKET)
    chmodSync(path, 0o600)
    if (this.#user) chownSync(path, this.#user.uid, this.#user.gid)
    return { close: () => void server.close() }
  }

  /** Shows the tool socket of a run. A hard link leads to the same listener and can be made while the container runs. */
  showSocket(socket: string, name: string): void {
    this.hideSocket(name)
    linkSync(socket, join(this.sockets, name))
  }

  hideSocket(name: string): void {
    rmSync(join(this.sockets, name), { force: true })
  }

  /** The workspace as visitors' turns see it: copies, links, and empty entries on which the others are mounted. */
  writeView(entries: readonly VisibleEntry[], isDirectory: (entry: VisibleEntry) => boolean): void {
    mkdirSync(join(this.view, CLIENT_DIRECTORY), { recursive: true, mode: 0o755 })
    for (const entry of entries) {
      const path = join(this.view, entry.path)
      if (entry.kind === 'link') symlinkSync(entry.target, path)
      else if (entry.kind === 'copy')
        writeFileSync(path, readStart(entry.file.fd), { mode: Number.parseInt(entry.mode, 8) })
      else if (isDirectory(entry)) mkdirSync(path, { mode: 0o755 })
      else writeFileSync(path, '', { mode: 0o444 })
    }
  }

  remove(): void {
    rmSync(this.#path, { recursive: true, force: true })
  }
}

/** The file may grow at any time. */
function readStart(fd: number): Buffer {
  const buffer = Buffer.alloc(COPY_BYTES_MAX)
  return buffer.subarray(0, readSync(fd, buffer, 0, buffer.length, 0))
}
