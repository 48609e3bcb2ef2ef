// Sandbox made by bubblewrap: user, process, network and mount namespaces, no capabilities, a system-call filter, limits and
// no inherited environment. It needs neither root nor a container engine. If svc runs as root, bubblewrap already runs as the
// agents' user, because the kernel checks files such as /proc/sys by the real user and the version in Debian 12 can be
// tricked into creating mount points outside (CVE-2026-87766). So no mount point is below a directory that agents can write.
import { closeSync, fstatSync, readlinkSync } from 'node:fs'
import type { AgentUser } from '../../core/agent-user.ts'
import { CHAT_HOME } from '../../core/chats/chat-home.ts'
import { FILES_HOME } from '../../core/files/chat-files-directory.ts'
import { readEnvironment } from '../../lib/environment.ts'
import { Directory } from '../../lib/files/directory.ts'
import { refuse } from '../../lib/refusal.ts'
import {
  type Cell,
  type CellProcess,
  type CellResources,
  type ChatDirectory,
  type Descriptor,
  mustBeWithoutNul,
  type OpenDirectory,
  type SpawnSpec,
  type VisiblePaths,
} from '../cell.ts'
import { type CellPaths, INNER_HOME, INNER_SOCKET } from '../cell-paths.ts'
import { etcFiles, passwdFile } from '../etc-files.ts'
import { environmentText } from '../init-perl.ts'
import { spawnProcess } from '../launch.ts'
import { type RunLimits, resourceLimits, tmpfsBytes } from '../limits.ts'
import { AnonymousFile } from './anonymous-file.ts'
import { initCommand, STATUS_FD } from './init-program.ts'
import type { MountView } from './mount-view.ts'
import { seccompFilter } from './seccomp.ts'
import { openVisitorWorkspace } from './visitor-workspace.ts'

export interface BubblewrapOptions {
  readonly bwrap: string
  readonly perl: string
  readonly user?: AgentUser | undefined
  readonly limits: RunLimits
  readonly isNetworkOpen: boolean
  readonly paths: CellPaths
  /** Shows bubblewrap directories that its user cannot enter. */
  readonly view?: MountView | undefined
}

const NAMESPACES = ['user', 'pid', 'ipc', 'uts', 'cgroup-try'].map((name) => `--unshare-${name}`)

export class BubblewrapCell implements Cell {
  readonly kind = 'bwrap'
  readonly user: AgentUser | undefined
  readonly limits: RunLimits
  readonly isNetworkOpen: boolean
  readonly #options: BubblewrapOptions
  readonly #paths: CellPaths
  readonly #filter: AnonymousFile | undefined
  readonly #settings: ReadonlyMap<string, AnonymousFile>
  /** /etc/passwd by user and HOME. */
  readonly #users = new Map<string, AnonymousFile>()
  readonly #fixed: readonly string[]

  constructor(options: BubblewrapOptions) {
    this.#options = options
    this.user = options.user
    this.limits = options.limits
    this.isNetworkOpen = options.isNetworkOpen
    this.#paths = options.paths
    const filter = seccompFilter()
    this.#filter = filter && new AnonymousFile(filter)
    const texts: [string, string | Buffer][] = [
      ...this.#paths.smallFiles(),
      ...Object.entries(etcFiles(options.user, options.isNetworkOpen)),
    ]
    this.#settings = new Map(texts.map(([path, text]) => [path, new AnonymousFile(text)]))
    this.#fixed = this.#fixedArguments()
  }

  visiblePaths({ chat }: Pick<CellResources, 'chat'>): VisiblePaths {
    return { workspace: INNER_HOME, home: chat ? CHAT_HOME : INNER_HOME, socket: INNER_SOCKET }
  }

  pathInside(path: string): string {
    return this.#paths.pathInside(path)
  }

  searchPath(path: string): string {
    return this.#paths.searchPath(path)
  }

  async start(...run: Parameters<Cell['start']>): Promise<CellProcess> {
    return spawnProcess(await this.prepareSpawn(...run), this.limits)
  }

  async prepareSpawn(
    resources: CellResources,
    argv: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<SpawnSpec> {
    mustBeWithoutNul([...argv, ...Object.entries(env).flat(), ...Object.keys(resources.texts ?? {})])
    const { bwrap, perl, limits } = this.#options
    const { user = this.user } = resources
    const opensListener = resources.handover !== undefined
    const command =
      initCommand({ perl, limits: resourceLimits(limits), opensListener }, argv) ??
      refuse('unsupported', `the agents' sandbox does not support the processor architecture ${process.arch}`)
    const opened: OpenDirectory[] = []
    const descriptors: Descriptor[] = [
      'status',
      resources.handover ?? { text: '' },
      { text: environmentText(env) },
      'control',
    ]
    const pass = (descriptor: Descriptor): string => String(STATUS_FD + descriptors.push(descriptor) - 1)
    const reopen = (file: AnonymousFile): string => {
      const fd = file.reopen()
      opened.push({ fd, close: async () => closeSync(fd) })
      return pass(fd)
    }
    const mountable = async (opening: Promise<OpenDirectory>): Promise<OpenDirectory> => {
      const directory = await this.#openForBwrap(resources.folder, await opening)
      opened.push(directory)
      return directory
    }
    const release = async (): Promise<void> => {
      for (const each of opened.splice(0)) await each.close()
    }
    try {
      const home = await mountable(resources.openHome())
      const workspace = resources.chat
        ? [
            ...(await visitorMounts(home, resources.chat, opened, pass)),
            ...['--bind-fd', pass((await mountable(resources.chat.open())).fd), CHAT_HOME],
          ]
        : ['--bind-fd', pass(home.fd), INNER_HOME]
      const files = resources.files
        ? ['--ro-bind-fd', pass((await mountable(resources.files.open())).fd), FILES_HOME]
        : []
      const args = [
        ...this.#fixed,
        ...(this.#filter ? ['--seccomp', reopen(this.#filter)] : []),
        ...[
          ...this.#settings,
          ['/etc/passwd', this.#passwd(user, resources.chat ? CHAT_HOME : INNER_HOME)] as const,
        ].flatMap(([path, file]) => ['--perms', '0444', '--file', reopen(file), path]),
        ...Object.entries(resources.texts ?? {}).flatMap(([path, text]) => [
          '--perms',
          '0444',
          '--file',
          pass({ text }),
          path,
        ]),
        ...['--bind', resources.socket, INNER_SOCKET, ...workspace, ...files],
        ...['--remount-ro', '/run', '--remount-ro', '/', '--chdir', INNER_HOME],
        // Keeps Perl from searching locales. The init program does not pass this variable on.
        ...['--clearenv', '--setenv', 'PERL_SKIP_LOCALE_INIT', '1'],
      ]
      const argsFd = pass({ text: args.map((arg) => `${arg}\0`).join('') })
      const { view } = this.#options
      const bwrapCommand = [bwrap, '--args', argsFd, '--', ...command]
      const path = readEnvironment('PATH') ?? ''
      const entry = { env: { PATH: path }, cwd: '/', owner: user, descriptors, release }
      return view && user
        ? { ...entry, argv: view.commandInView(user, bwrapCommand) }
        : { ...entry, argv: bwrapCommand, user }
    } catch (error) {
      await release()
      throw error
    }
  }

  async close(): Promise<void> {
    this.#options.view?.close()
    this.#filter?.close()
    for (const file of [...this.#settings.values(), ...this.#users.values()]) file.close()
  }

  #passwd(user: AgentUser | undefined, home: string): AnonymousFile {
    const key = `${user?.uid} ${home}`
    const file = this.#users.get(key) ?? new AnonymousFile(passwdFile(user, home))
    this.#users.set(key, file)
    return file
  }

  /** Opens the directory through the view and verifies that an agent has not replaced it meanwhile. */
  async #openForBwrap(folder: string, verified: OpenDirectory): Promise<OpenDirectory> {
    const { view } = this.#options
    if (!view) return verified
    try {
      const path = readlinkSync(`/proc/self/fd/${verified.fd}`)
      // The message of a refusal would reveal paths of the machine.
      const seen = await Directory.open(view.pathFromHost(path)).catch(() => undefined)
      const [a, b] = [fstatSync(verified.fd), await seen?.stat()]
      if (seen && a.dev === b?.dev && a.ino === b.ino) return seen
      await seen?.close()
      return refuse('conflict', `the workspace of ${folder} is a symbolic link or not a directory`)
    } finally {
      await verified.close()
    }
  }

  #fixedArguments(): string[] {
    const size = String(tmpfsBytes(this.limits))
    return [
      ...NAMESPACES,
      ...(this.isNetworkOpen ? [] : ['--unshare-net']),
      ...[
        '--as-pid-1',
        '--disable-userns',
        '--die-with-parent',
        '--new-session',
        '--cap-drop',
        'ALL',
        '--hostname',
        'svc',
      ],
      // The kernel checks writes to /proc/sys by user, not by capability.
      ...['--proc', '/proc', '--ro-bind', '/proc/sys', '/proc/sys'],
      ...['--dev', '/dev', '--size', size, '--tmpfs', '/dev/shm', '--remount-ro', '/dev'],
      ...['--size', size, '--tmpfs', '/tmp', '--symlink', '../tmp', '/var/tmp', '--symlink', '../run', '/var/run'],
      ...['--perms', '0755', '--tmpfs', '/run'],
      // After the tmpfs mounts, which would hide SANDBOX_PATHS below them.
      ...this.#paths.mounts((path) => this.#options.view?.pathInView(path) ?? path),
      ...(this.isNetworkOpen ? machineNames() : []),
    ]
  }
}

/** Host names and DNS servers of the machine, for runs with unrestricted network. */
function machineNames(): string[] {
  return ['/etc/hosts', '/etc/resolv.conf'].flatMap((path) => ['--ro-bind-try', path, path])
}

/** Mounts of the visible part of the workspace below reach `all`. */
async function visitorMounts(
  home: OpenDirectory,
  chat: ChatDirectory,
  opened: { push(...each: OpenDirectory[]): void },
  pass: (fd: number) => string,
): Promise<string[]> {
  const workspace = await openVisitorWorkspace(home.fd, chat)
  opened.push({ fd: home.fd, close: () => workspace.close() })
  if (workspace.omittedCount > 0) chat.onOmitted?.(workspace.omittedCount)
  return workspace.mounts(INNER_HOME, pass)
}
