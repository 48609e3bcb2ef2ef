// Sandbox made by a container engine (`SANDBOX=container`), for svc in a container. A run has a container without a network;
// when it has ended, the container waits for the next run of the same folder with the same mounts. See
// docs/decisions.md#agents-in-containers.
import { basename, dirname, join, normalize, relative, resolve, sep } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { AgentUser } from '../../core/agent-user.ts'
import { CHAT_HOME } from '../../core/chats/chat-home.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { type Cell, type CellProcess, type CellResources, mustBeWithoutNul, type VisiblePaths } from '../cell.ts'
import { INNER_HOME, INNER_SOCKET } from '../cell-paths.ts'
import { cellUser } from '../etc-files.ts'
import { environmentText, limitsText, PROXY_PORT } from '../init-perl.ts'
import { failedProcess } from '../launch.ts'
import { RLIMIT_NPROC, type RunLimits, resourceLimits } from '../limits.ts'
import { AgentContainer } from './agent-container.ts'
import type { ContainerOwner } from './container-directory.ts'
import { ContainerPool } from './container-pool.ts'
import { containerBody, FOLDER_LABEL, INSTANCE_LABEL, OWNER_LABEL } from './container-spec.ts'
import type { DescriptorSender } from './descriptor-sender.ts'
import type { EngineClient } from './engine-client.ts'
import { containerCommand, INNER_SOCKETS, INNER_TEXTS } from './init-program.ts'
import { isDirectoryEntry, type MountPlan, openMountPlan } from './mount-plan.ts'

export interface ContainerCellOptions {
  readonly engine: EngineClient
  readonly sender: DescriptorSender
  readonly owner: ContainerOwner
  readonly image: string
  /** PATH of the image. */
  readonly searchPath: string
  readonly user?: AgentUser | undefined
  readonly limits: RunLimits
  readonly isNetworkOpen: boolean
  readonly idleMs: number
  /** The data directory, as this process and as the engine see it. */
  readonly root: string
  readonly hostRoot: string
  /** JSON, or for podman the path of a file. */
  readonly seccomp: string
  onError(error: unknown): void
}

/** For an engine that hangs. */
const CLOSE_MS = 5000

/** The checkout or package of this program. */
const SVC_ROOT = resolve(fileURLToPath(new URL('../../..', import.meta.url)))

export class ContainerCell implements Cell {
  readonly kind = 'container'
  readonly user: AgentUser | undefined
  readonly limits: RunLimits
  readonly isNetworkOpen: boolean
  readonly #options: ContainerCellOptions
  readonly #pool: ContainerPool<AgentContainer>
  readonly #open = new Set<AgentContainer>()
  readonly #limitsText: string
  /** Of svc and Node in the image, known after the first run. */
  #programs = { svc: '', node: '', code: '' }

  constructor(options: ContainerCellOptions) {
    this.#options = options
    this.user = options.user
    this.limits = options.limits
    this.isNetworkOpen = options.isNetworkOpen
    this.#pool = new ContainerPool(options.idleMs, options.onError)
    const limits = [...resourceLimits(options.limits)]
    // The kernel counts it over all containers of one user; a control group counts it over this one.
    this.#limitsText = limitsText(new Map(limits.filter(([resource]) => resource !== RLIMIT_NPROC)))
  }

  visiblePaths({ chat }: Pick<CellResources, 'chat'>): VisiblePaths {
    return { workspace: INNER_HOME, home: chat ? CHAT_HOME : INNER_HOME, socket: INNER_SOCKET }
  }

  /** The image has its own copy of svc, whose command is `<root>/bin/svc.js`. A package has compiled code in `dist`. */
  pathInside(path: string): string {
    const { svc, node, code } = this.#programs
    if (path === process.execPath) return node === '' ? path : node
    if (svc === '' || !path.startsWith(SVC_ROOT + sep)) return path
    const inside = relative(SVC_ROOT, path)
    const isCompiled = code === 'dist' && inside.startsWith(`src${sep}`)
    const compiled = inside.replace(/^src/, 'dist').replace(/\.ts$/, '.js')
    return join(dirname(dirname(svc)), isCompiled ? compiled : inside)
  }

  searchPath(): string {
    return this.#options.searchPath
  }

  async start(
    resources: CellResources,
    argv: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<CellProcess> {
    const { onError } = this.#options
    const order = this.#order(resources, argv, env)
    const plan = await openMountPlan(resources)
    try {
      const { folder, user = this.user } = resources
      const container = (await this.#pool.take(plan.key)) ?? (await this.#create(folder, plan, user))
      const socket = basename(INNER_SOCKET)
      if (resources.socket !== '') container.directory.showSocket(resources.socket, socket)
      const process = this.#startIn(container, order, resources.handover)
      process.ended
        .then(() => {
          container.directory.hideSocket(socket)
          this.#pool.park(plan.key, container)
        })
        .catch(onError)
      return process
    } catch (error) {
      // The engine may answer again, and a swapped directory may be back.
      if (error instanceof Refusal && error.code === 'unavailable') return failedProcess(error.message)
      throw error
    } finally {
      // Not awaited: the program may end before the caller, who attaches listeners, continues.
      void plan.close().catch(onError)
    }
  }

  /** Removes the containers that wait for a run. */
  removeIdle(): void {
    this.#pool.clear()
  }

  async close(): Promise<void> {
    const { engine, owner } = this.#options
    this.#pool.close()
    const removing = Promise.all([...this.#open].map((container) => container.remove()))
    // They end without the engine as well, because their first process has lost its connection.
    await Promise.race([removing, pause(CLOSE_MS, undefined, { ref: false })])
    engine.close()
    owner.close()
  }

  #startIn(container: AgentContainer, order: string, handover: number | undefined): CellProcess {
    try {
      return container.start(order, handover)
    } catch (error) {
      container.remove().catch(this.#options.onError)
      throw error
    }
  }

  /** Fields that end with a NUL, as the first process of a container reads them. */
  #order(resources: CellResources, argv: readonly string[], env: Readonly<Record<string, string>>): string {
    const texts = Object.entries(resources.texts ?? {})
    mustBeWithoutNul([...argv, ...Object.entries(env).flat(), ...texts.flat()])
    for (const [path] of texts)
      if (!normalize(path).startsWith(`${INNER_TEXTS}/`))
        refuse('invalid', `a file of a run must be below ${INNER_TEXTS}: ${path}`)
    const port = resources.handover === undefined ? 0 : PROXY_PORT
    const counts = [argv.length, Object.keys(env).length, texts.length]
    const fields = [this.#limitsText, port, INNER_HOME, ...counts, ...argv]
    const end = texts.flat().map((field) => `${field}\0`)
    return `${fields.map((field) => `${field}\0`).join('')}${environmentText(env)}${end.join('')}`
  }

  async #create(folder: string, plan: MountPlan, user: AgentUser | undefined): Promise<AgentContainer> {
    const { engine, sender, owner, image, limits, isNetworkOpen, hostRoot, seccomp, onError } = this.#options
    const directory = owner.makeDirectory(user)
    if (plan.kind === 'chat') directory.writeView(plan.entries, isDirectoryEntry)
    const own = {
      ...(plan.kind === 'chat' ? { [INNER_HOME]: directory.view } : {}),
      [INNER_SOCKETS]: directory.sockets,
      ...owner.etcMounts(plan.kind, user, isNetworkOpen),
    }
    const mounts = [
      ...Object.entries(own).map(([target, source]) => ({ source, target, isReadOnly: true })),
      ...plan.mounts,
    ]
    const body = containerBody({
      image,
      command:
        containerCommand(plan.mounts.map(({ target }) => target)) ??
        refuse('unsupported', `agents' containers do not support the processor architecture ${process.arch}`),
      user: cellUser(user),
      limits,
      isNetworkOpen,
      labels: { [INSTANCE_LABEL]: hostRoot, [OWNER_LABEL]: owner.id, [FOLDER_LABEL]: folder },
      mounts: mounts.map((mount) => ({ ...mount, source: this.#hostPath(mount.source) })),
      seccomp,
      usernsMode: usernsMode(engine),
    })
    const container = await AgentContainer.open({ engine, sender, directory, body, user, limits, onError })
    this.#open.add(container)
    container.onRemoved(() => this.#open.delete(container))
    const { identities, svc, node, code } = container.report
    // Before any code of an agent runs.
    if (plan.mounts.some(({ identity }, at) => identities[at] !== identity)) {
      await container.remove()
      refuse('conflict', `the workspace of ${folder} is a symbolic link or not a directory`)
    }
    this.#programs = { svc: svc && normalize(svc), node: node && normalize(node), code }
    return container
  }

  /** The same path as the engine sees it. */
  #hostPath(path: string): string {
    const { root, hostRoot } = this.#options
    if (root === hostRoot) return path
    if (path === root || path.startsWith(root + sep)) return join(hostRoot, relative(root, path))
    return refuse('conflict', `${path} is outside of the data directory, which containers cannot see`)
  }
}

/** So that a user has the same number inside and outside. */
function usernsMode({ kind, isRootless, mapsUsers }: EngineClient): string | undefined {
  if (kind === 'podman' && isRootless) return 'keep-id'
  return mapsUsers ? 'host' : undefined
}
