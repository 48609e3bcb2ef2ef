// A cell made by bubblewrap: namespaces of its own for users, processes, network and files, no capability, a filter of
// system calls, limits, and nothing inherited. It needs neither root nor a container engine. Started by root, bubblewrap
// itself already runs as the agents' user: the kernel checks files such as /proc/sys by the real user, and the version in
// Debian 12 can be led to create mount points outside (CVE-2026-87766). For the same reason no mount point lies below a
// directory that an agent can write.
import { closeSync, fstatSync, readlinkSync } from 'node:fs'
import type { AgentUser } from '../core/agent-user.ts'
import { CHAT_HOME } from '../core/chat-home.ts'
import { Directory } from '../lib/directory.ts'
import { refuse } from '../lib/refusal.ts'
import { fromEnvironment } from '../lib/settings.ts'
import {
  type Cell,
  type ChatPlace,
  type Descriptor,
  type Entry,
  mustBeWithoutNul,
  type OpenDirectory,
  type Place,
  type SeenPlaces,
} from './cell.ts'
import { HiddenFile } from './hidden-file.ts'
import { environmentText, initCommand, STATUS_FD } from './init.ts'
import { type RunLimits, resourceLimits, temporaryBytes } from './limits.ts'
import type { MountView } from './mount-view.ts'
import { type CellPaths, INNER_HOME, INNER_SOCKET } from './paths.ts'
import { seccompFilter } from './seccomp.ts'
import { openVisitorWorkspace } from './visitor-workspace.ts'

export interface BubblewrapOptions {
  readonly bwrap: string
  readonly perl: string
  readonly user?: AgentUser | undefined
  readonly limits: RunLimits
  readonly isNetworkOpen: boolean
  readonly paths: CellPaths
  /** Where bubblewrap finds what its user could not enter otherwise. */
  readonly view?: MountView | undefined
}

const NAMESPACES = ['user', 'pid', 'ipc', 'uts', 'cgroup-try'].map((name) => `--unshare-${name}`)

/** Bubblewrap outside, and its first process inside. */
const WRAPPERS = 2

export class BubblewrapCell implements Cell {
  readonly kind = 'bwrap'
  readonly user: AgentUser | undefined
  readonly limits: RunLimits
  readonly isNetworkOpen: boolean
  readonly #options: BubblewrapOptions
  readonly #paths: CellPaths
  readonly #filter: HiddenFile | undefined
  readonly #settings: ReadonlyMap<string, HiddenFile>
  readonly #users: Readonly<Record<'own' | 'chat', HiddenFile>>
  readonly #fixed: readonly string[]

  constructor(options: BubblewrapOptions) {
    this.#options = options
    this.user = options.user
    this.limits = options.limits
    this.isNetworkOpen = options.isNetworkOpen
    this.#paths = options.paths
    const filter = seccompFilter()
    this.#filter = filter && new HiddenFile(filter)
    const texts: [string, string | Buffer][] = [...this.#paths.texts(), ...Object.entries(settingsOf(options))]
    this.#settings = new Map(texts.map(([path, text]) => [path, new HiddenFile(text)]))
    this.#users = {
      own: new HiddenFile(usersOf(options, INNER_HOME)),
      chat: new HiddenFile(usersOf(options, CHAT_HOME)),
    }
    this.#fixed = this.#fixedArguments()
  }

  seen({ chat }: Pick<Place, 'chat'>): SeenPlaces {
    return { workspace: INNER_HOME, home: chat ? CHAT_HOME : INNER_HOME, socket: INNER_SOCKET }
  }

  inner(path: string): string {
    return this.#paths.inner(path)
  }

  searchPath(path: string): string {
    return this.#paths.searchPath(path)
  }

  async enter(place: Place, argv: readonly string[], env: Readonly<Record<string, string>>): Promise<Entry> {
    mustBeWithoutNul([...argv, ...Object.entries(env).flat(), ...Object.keys(place.texts ?? {})])
    const { bwrap, perl, limits } = this.#options
    const listens = place.handover !== undefined
    const command =
      initCommand({ perl, limits: resourceLimits(limits), listens }, argv) ??
      refuse('unsupported', `agents cannot run in a cell on a machine of the kind ${process.arch}`)
    const opened: OpenDirectory[] = []
    const descriptors: Descriptor[] = ['status', place.handover ?? { text: '' }, { text: environmentText(env) }]
    const pass = (descriptor: Descriptor): string => String(STATUS_FD + descriptors.push(descriptor) - 1)
    const reopen = (file: HiddenFile): string => {
      const fd = file.reopen()
      opened.push({ fd, close: async () => closeSync(fd) })
      return pass(fd)
    }
    const mountable = async (opening: Promise<OpenDirectory>): Promise<OpenDirectory> => {
      const directory = await this.#seen(place.folder, await opening)
      opened.push(directory)
      return directory
    }
    const release = async (): Promise<void> => {
      for (const each of opened.splice(0)) await each.close()
    }
    try {
      const home = await mountable(place.openHome())
      const files = place.chat
        ? [
            ...(await visitorMounts(home, place.chat, opened, pass)),
            ...['--bind-fd', pass((await mountable(place.chat.open())).fd), CHAT_HOME],
          ]
        : ['--bind-fd', pass(home.fd), INNER_HOME]
      const args = [
        ...this.#fixed,
        ...(this.#filter ? ['--seccomp', reopen(this.#filter)] : []),
        ...[...this.#settings, ['/etc/passwd', this.#users[place.chat ? 'chat' : 'own']] as const].flatMap(
          ([path, file]) => ['--perms', '0444', '--file', reopen(file), path],
        ),
        ...Object.entries(place.texts ?? {}).flatMap(([path, text]) => [
          '--perms',
          '0444',
          '--file',
          pass({ text }),
          path,
        ]),
        ...['--bind', place.socket, INNER_SOCKET, ...files],
        ...['--remount-ro', '/run', '--remount-ro', '/', '--chdir', INNER_HOME],
        // Perl looks for locales otherwise; the init program gives none of its own variables on.
        ...['--clearenv', '--setenv', 'PERL_SKIP_LOCALE_INIT', '1'],
      ]
      const argsFd = pass({ text: args.map((arg) => `${arg}\0`).join('') })
      const { view } = this.#options
      const started = [bwrap, '--args', argsFd, '--', ...command]
      const entry = { env: { PATH: fromEnvironment('PATH') ?? '' }, cwd: '/', wrappers: WRAPPERS, descriptors, release }
      return view && this.user
        ? { ...entry, argv: view.enter(this.user, started) }
        : { ...entry, argv: started, user: this.user }
    } catch (error) {
      await release()
      throw error
    }
  }

  close(): void {
    this.#options.view?.close()
    this.#filter?.close()
    for (const file of [...this.#settings.values(), ...Object.values(this.#users)]) file.close()
  }

  /** The same directory as bubblewrap finds it. It must be the same: in between, an agent may have moved something. */
  async #seen(folder: string, verified: OpenDirectory): Promise<OpenDirectory> {
    const { view } = this.#options
    if (!view) return verified
    try {
      const path = readlinkSync(`/proc/self/fd/${verified.fd}`)
      // What a refusal would say here names places of the machine.
      const seen = await Directory.open(view.outside(path)).catch(() => undefined)
      const [a, b] = [fstatSync(verified.fd), await seen?.stat()]
      if (seen && a.dev === b?.dev && a.ino === b.ino) return seen
      await seen?.close()
      return refuse('conflict', `the workspace of ${folder} leads elsewhere`)
    } finally {
      await verified.close()
    }
  }

  #fixedArguments(): string[] {
    const size = String(temporaryBytes(this.limits))
    return [
      ...NAMESPACES,
      ...(this.isNetworkOpen ? [] : ['--unshare-net']),
      ...['--disable-userns', '--die-with-parent', '--new-session', '--cap-drop', 'ALL', '--hostname', 'svc'],
      // The kernel judges writes there by the user, not by capabilities.
      ...['--proc', '/proc', '--ro-bind', '/proc/sys', '/proc/sys'],
      ...['--dev', '/dev', '--size', size, '--tmpfs', '/dev/shm', '--remount-ro', '/dev'],
      ...['--size', size, '--tmpfs', '/tmp', '--symlink', '../tmp', '/var/tmp', '--symlink', '../run', '/var/run'],
      ...['--perms', '0755', '--tmpfs', '/run'],
      // Behind the empty directories, which would cover what the operator shows below them.
      ...this.#paths.mounts((path) => this.#options.view?.at(path) ?? path),
      ...(this.isNetworkOpen ? machineNames() : []),
    ]
  }
}

/** Names of the machine's network, for a run that is given all of it. */
function machineNames(): string[] {
  return ['/etc/hosts', '/etc/resolv.conf'].flatMap((path) => ['--ro-bind-try', path, path])
}

/** What is shown of the workspace at reach `chat`; closed with the rest of what was opened. */
async function visitorMounts(
  home: OpenDirectory,
  { children, onLeftOut }: ChatPlace,
  opened: { push(...each: OpenDirectory[]): void },
  pass: (fd: number) => string,
): Promise<string[]> {
  const workspace = await openVisitorWorkspace(home.fd, children)
  opened.push({ fd: home.fd, close: () => workspace.close() })
  if (workspace.leftOut > 0) onLeftOut?.(workspace.leftOut)
  return workspace.mounts(INNER_HOME, pass)
}

/** /etc/passwd. */
function usersOf({ user }: BubblewrapOptions, home: string): string {
  const uid = user?.uid ?? process.getuid?.() ?? 65_534
  const gid = user?.gid ?? process.getgid?.() ?? 65_534
  return `root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:${uid}:${gid}:agent:${home}:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`
}

/** Small files of /etc: other users and hosts of the machine are not shown. */
function settingsOf({ user, isNetworkOpen }: BubblewrapOptions): Record<string, string> {
  const gid = user?.gid ?? process.getgid?.() ?? 65_534
  return {
    '/etc/group': `root:x:0:\nagent:x:${gid}:\nnogroup:x:65534:\n`,
    ...(isNetworkOpen ? {} : { '/etc/hosts': '127.0.0.1 localhost svc\n::1 localhost\n' }),
  }
}
