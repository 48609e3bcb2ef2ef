// Changes the owner of existing workspaces to the agent user: earlier versions created them as svc's user.
import { join } from 'node:path'
import { Directory } from '../../lib/files/directory.ts'
import { chownTree } from '../../lib/files/directory-tree.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Layout } from '../layout.ts'

const PROGRESS_EVERY = 1000

/**
 * Changes worlds whose top directory has another owner, and returns the number of entries changed. The top directory is
 * changed last, so an interrupted run is repeated. If a world fails, the others are still changed; then it throws.
 */
export async function chownWorkspaces(layout: Layout, onProgress?: (done: number) => void): Promise<number> {
  const { agent } = layout
  if (!agent) return 0
  let done = 0
  let fault: Refusal | undefined
  const count = (): void => {
    if (++done % PROGRESS_EVERY === 0) onProgress?.(done)
  }
  for (const world of await worldsIn(layout)) {
    try {
      // The operator may have made a world a link.
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
  return entries
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map(({ name }) => join(layout.groups, name))
}
