// Opens workspaces for the host. A child's workspace is inside its parent's, and both agents may rename it or replace it with
// a link at any time, so every access starts at an open descriptor.
import { join } from 'node:path'
import { Directory } from '../../lib/files/directory.ts'
import { SyncDirectory } from '../../lib/files/directory-sync.ts'
import { removeTree } from '../../lib/files/directory-tree.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { groupDirs, type Layout } from '../layout.ts'

/** Path of the workspace as agents see it. See docs/decisions.md#workspace-path-and-output-style. */
export const AGENT_HOME = '/home/node'

/** Mode of a world's directory where agents have several users: those of other worlds must not enter. */
export const WORLD_MODE = 0o700

/** Undefined if it does not exist. Refuses a workspace that is a link. */
export async function openHome(layout: Layout, folder: string): Promise<Directory | undefined> {
  const { below } = pathsOf(layout, folder)
  let directory = await openWorld(layout, folder).catch((error) => refuseLink(folder, error))
  for (const name of below) {
    if (!directory) break
    await using parent: Directory = directory
    directory = await parent.openDirectory(name)
    if (!directory && (await parent.kindOf(name)) !== undefined) refuseLink(folder)
  }
  return directory
}

/** Synchronous version; also returns undefined for a workspace that is a link. */
export function openHomeSync(layout: Layout, folder: string): SyncDirectory | undefined {
  const { world, below } = pathsOf(layout, folder)
  let directory = SyncDirectory.open(world)
  for (const name of below) {
    using parent = directory
    directory = parent?.openDirectory(name)
  }
  return directory
}

/** Opens the workspace and creates missing directories. */
export async function makeHome(layout: Layout, folder: string): Promise<Directory> {
  const { world, below } = pathsOf(layout, folder)
  // Other users must not read workspaces.
  await (await Directory.make(layout.groups, 0o700, { follow: true })).close()
  // A new world must not take over the target of a link; the directory of an existing world may be a link.
  const follow = below.length > 0
  const { agents } = layout
  // Where agents have several users, a new world belongs to root until its first turn, see `WorldOwners`.
  const owner = agents?.count === 1 ? agents : undefined
  await (await Directory.make(world, agents ? WORLD_MODE : 0o755, { follow, owner })).close()
  await using top = (await openWorld(layout, folder)) ?? refuse('not_found', `${folder} has no workspace`)
  return await top.makePath(below.join('/'))
}

/** Opens the directory of a folder's world; what root creates in it gets its owner. */
export function openWorld(layout: Layout, folder: string): Promise<Directory | undefined> {
  // It may be a link that the operator created: agents cannot write in `groups/`.
  return Directory.open(pathsOf(layout, folder).world, { follow: true })
}

export async function removeHome(layout: Layout, folder: string): Promise<void> {
  const segments = folder.split('/')
  const name = segments.pop() ?? folder
  const parentFolder = segments.join('/')
  await using parent =
    parentFolder === '' ? await Directory.open(layout.groups, { follow: true }) : await openHome(layout, parentFolder)
  if (parent) await removeTree(parent, name)
}

/** Replaces host paths in refusals by the agent's paths. */
export async function withAgentPaths<T>(home: Directory, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new Refusal(error.code, error.message.replaceAll(home.path, AGENT_HOME), error.hint)
  }
}

function pathsOf(layout: Layout, folder: string): { world: string; below: readonly string[] } {
  groupDirs(layout, folder)
  const [world = folder, ...below] = folder.split('/')
  return { world: join(layout.groups, world), below }
}

function refuseLink(folder: string, cause?: unknown): never {
  if (cause !== undefined && !(cause instanceof Refusal && cause.code === 'conflict')) throw cause
  return refuse('conflict', `the workspace of ${folder} is a symbolic link or not a directory`)
}
