// Opens the cell of `SANDBOX=container`, or explains why it does not work and how to fix it. Removes what processes of this
// instance that have ended left in the engine.
import { realpathSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { AgentUser } from '../../core/agent-user.ts'
import { Directory } from '../../lib/files/directory.ts'
import { liveDirectories, removeDeadDirectories } from '../../lib/files/live-directory.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { agentImage } from '../describe.ts'
import { runLimits } from '../limits.ts'
import type { CellSettings } from '../settings.ts'
import { ContainerCell } from './container-cell.ts'
import { ContainerOwner } from './container-directory.ts'
import { INSTANCE_LABEL, OWNER_LABEL } from './container-spec.ts'
import { openDescriptorSender } from './descriptor-sender.ts'
import { EngineClient } from './engine-client.ts'
import { agentSeccompProfile } from './seccomp.ts'

export interface OpenContainerCellOptions {
  readonly settings: CellSettings
  readonly user: AgentUser | undefined
  /** The data directory. */
  readonly root: string
  readonly groups: string
  onError(error: unknown): void
}

const STANDARD_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export async function openContainerCell(options: OpenContainerCellOptions): Promise<ContainerCell> {
  const { settings, user, groups, onError } = options
  const sender =
    openDescriptorSender() ?? refuse('unavailable', "agents' containers need Linux and a Node with node:ffi")
  const root = realpathSync(options.root)
  const cells = join(root, 'cells')
  const hostRoot = settings.HOST_DATA_DIR ?? root
  const image = agentImage(settings.AGENT_IMAGE)
  const engine = await EngineClient.open(settings.ENGINE_SOCKET)
  let owner: ContainerOwner | undefined
  try {
    if (engine.kind === 'docker' && engine.isRootless)
      refuse(
        'unavailable',
        'agents cannot use workspaces in containers of a rootless docker',
        'use rootless podman, or set SANDBOX=bwrap in .env',
      )
    const found = (await engine.imagePath(image)) ?? refuseImage(image, settings.AGENT_IMAGE === undefined)
    await removeLeftovers(engine, cells, hostRoot)
    owner = await ContainerOwner.open(cells, user)
    const profile = JSON.stringify(agentSeccompProfile())
    const cell = new ContainerCell({
      engine,
      sender,
      owner,
      image,
      searchPath: found.path ?? STANDARD_PATH,
      user,
      limits: runLimits(settings),
      isNetworkOpen: settings.NETWORK === 'open',
      idleMs: settings.AGENT_CONTAINER_IDLE,
      root,
      hostRoot,
      // Podman reads a file; docker takes its content.
      seccomp:
        engine.kind === 'podman' ? join(hostRoot, relative(root, owner.writeFile('seccomp.json', profile))) : profile,
      onError,
    })
    await probe(cell, { groups, root, hostRoot, image })
    return cell
  } catch (error) {
    engine.close()
    owner?.close()
    throw error
  }
}

function refuseImage(image: string, isDefault: boolean): never {
  const remedy = isDefault
    ? `build it in the source tree with: docker build -t ${image} .; or set AGENT_IMAGE`
    : `docker pull ${image}, or build it, or remove AGENT_IMAGE`
  return refuse('unavailable', `there is no image ${image} for agents' containers`, remedy)
}

/** Of processes that were killed. A container ends with its process, unless the engine was down or it had not started. */
async function removeLeftovers(engine: EngineClient, cells: string, hostRoot: string): Promise<void> {
  // The list first: a process that starts meanwhile is not in it.
  const containers = await engine.list(`${INSTANCE_LABEL}=${hostRoot}`)
  const live = await liveDirectories(cells)
  for (const { id, labels } of containers) if (!live.has(labels[OWNER_LABEL] ?? '')) await engine.remove(id)
  removeDeadDirectories(cells, live)
}

interface ProbeContext {
  readonly groups: string
  readonly root: string
  readonly hostRoot: string
  readonly image: string
}

/** Runs a program with the mounts of a real run. */
async function probe(cell: ContainerCell, { groups, root, hostRoot, image }: ProbeContext): Promise<void> {
  const openHome = async (): Promise<Directory> =>
    (await Directory.open(groups, { follow: true })) ?? refuse('not_found', `directory ${groups} does not exist`)
  try {
    const run = await cell.start({ folder: '', home: groups, socket: '', openHome }, ['perl', '-e', 'exit'], {})
    const { code, startFault } = await run.ended
    // It has all workspaces.
    cell.removeIdle()
    if (code !== 0)
      refuse('unavailable', `agents' containers do not work: ${startFault ?? `exit code ${code}`}`, hintFor(image))
  } catch (error) {
    await cell.close()
    if (!(error instanceof Refusal) || error.code !== 'conflict') throw error
    refuse(
      'unavailable',
      `the container engine does not see the data directory ${root} at ${hostRoot}`,
      'set HOST_DATA_DIR to the path of the data directory on the machine of the engine',
    )
  }
}

function hintFor(image: string): string {
  return `check that the image ${image} has perl and that HOST_DATA_DIR is the path of the data directory on the machine of the engine`
}
