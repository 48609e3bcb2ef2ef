// Gives existing workspaces to the user that agents run as: those of an earlier version belong to the user that svc ran as.
import { join } from 'node:path'
import { Directory } from '../lib/directory.ts'
import { chownTree } from '../lib/directory-tree.ts'
import { Refusal } from '../lib/refusal.ts'
import type { Layout } from './layout.ts'

const PROGRESS_EVERY = 1000

/**
 * Changes the owner of every entry of those worlds whose top directory has another owner, and returns how many entries that
 * were. The top directory is changed last, so that an interrupted run is repeated. A world that cannot be changed does not
 * keep the others from it; its refusal is thrown at the end.
 */
export async function takeOwnership(layout: Layout, onProgress?: (done: number) => void): Promise<number> {
  const { agent } = layout
  if (!agent) return 0
  let done = 0
  let fault: Refusal | undefined
  const count = (): void => {
    if (++done % PROGRESS_EVERY === 0) onProgress?.(done)
  }
  for (const world of await worldsIn(layout)) {
    try {
      // A world may be a link that the operator made.
      await using top = await Directory.open(world, { follow: true })
      if (top && (await top.stat()).uid !== agent.uid) await chownTree(top, agent, count)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      fault ??= error
    }
  }
  if (fault) throw fault
  return done
}

async function worldsIn(layout: Layout): Promise<string[]> {
  await using groups = await Directory.open(layout.groups, { follow: true })
  const entries = (await groups?.entries()) ?? []
  // Files that are no workspaces, such as an editor's, stay as they are.
  return entries
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map(({ name }) => join(layout.groups, name))
}
