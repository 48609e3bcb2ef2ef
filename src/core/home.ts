// The workspace of a group, opened for the host. Agents write there too: the folder below another lies in the workspace of
// the other, and either agent may rename it or put a link in its place at any moment. So everything starts at a descriptor.
import { join } from 'node:path'
import { Directory } from '../lib/directory.ts'
import { SyncDirectory } from '../lib/directory-sync.ts'
import { removeTree } from '../lib/directory-tree.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { groupDirs, type Layout } from './layout.ts'

/** What agents call their workspace (decision T12). */
export const HOME = '/home/node'

/** Undefined where there is none. A workspace that leads elsewhere is refused. */
export async function openHome(layout: Layout, folder: string): Promise<Directory | undefined> {
  const { world, below } = pathsOf(layout, folder)
  // The world may be a link that the operator made: agents cannot write in `groups/`.
  const options = { follow: true, owner: layout.agent }
  let at = await Directory.open(world, options).catch((error) => refuseElsewhere(folder, error))
  for (const name of below) {
    if (!at) break
    await using above: Directory = at
    at = await above.openDirectory(name)
    if (!at && (await above.kindOf(name)) !== undefined) refuseElsewhere(folder)
  }
  return at
}

/** The same without leaving this thread; undefined also for a workspace that leads elsewhere. */
export function openHomeSync(layout: Layout, folder: string): SyncDirectory | undefined {
  const { world, below } = pathsOf(layout, folder)
  let at = SyncDirectory.open(world)
  for (const name of below) {
    using above = at
    at = above?.openDirectory(name)
  }
  return at
}

/** Opens it, and makes the directories that are missing. */
export async function makeHome(layout: Layout, folder: string): Promise<Directory> {
  const { world, below } = pathsOf(layout, folder)
  // No other user of the machine reads workspaces.
  await (await Directory.make(layout.groups, 0o700, { follow: true })).close()
  // A new group must not take over a directory that a link leads to; one that is there may be such a link.
  const follow = below.length > 0
  await using top = await Directory.make(world, 0o755, { follow, owner: layout.agent })
  return await top.makePath(below.join('/'))
}

/** Removes the workspace with all that is in it. */
export async function removeHome(layout: Layout, folder: string): Promise<void> {
  const segments = folder.split('/')
  const name = segments.pop() ?? folder
  const parent = segments.join('/')
  await using above =
    parent === '' ? await Directory.open(layout.groups, { follow: true }) : await openHome(layout, parent)
  if (above) await removeTree(above, name)
}

/** Replaces host paths in refusals by what an agent calls them. */
export async function inHome<T>(home: Directory, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new Refusal(error.code, error.message.replaceAll(home.path, HOME), error.hint)
  }
}

function pathsOf(layout: Layout, folder: string): { world: string; below: readonly string[] } {
  groupDirs(layout, folder)
  const [world = folder, ...below] = folder.split('/')
  return { world: join(layout.groups, world), below }
}

function refuseElsewhere(folder: string, cause?: unknown): never {
  if (cause !== undefined && !(cause instanceof Refusal && cause.code === 'conflict')) throw cause
  return refuse('conflict', `the workspace of ${folder} leads elsewhere`)
}
