// The workspace of a group as a place to read and write for the host. Its agent writes there too, and may have put a link in
// the way: a folder below another lies in the other's workspace.
import { realpath } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { diskCode, refuseDisk } from '../lib/atomic-file.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { groupDirs, type Layout } from './layout.ts'
import { worldOf } from './tiers.ts'

/** What agents call their workspace (decision T12). */
export const HOME = '/home/node'

/** The real path of a workspace; nothing where there is none. One that leads elsewhere is refused. */
export async function realHome(layout: Layout, folder: string): Promise<string | undefined> {
  const [{ home }, world] = [groupDirs(layout, folder), groupDirs(layout, worldOf(folder)).home]
  const [real, above] = [await realOf(home), await realOf(world)]
  if (real === undefined || above === undefined) return undefined
  // Where the world itself lies is the operator's choice: no agent can write beside it.
  if (real !== join(above, relative(world, home))) refuse('conflict', `the workspace of ${folder} leads elsewhere`)
  return real
}

async function realOf(path: string): Promise<string | undefined> {
  try {
    return await realpath(path)
  } catch (error) {
    return diskCode(error) === 'ENOENT' ? undefined : refuseDisk(error, 'read', path)
  }
}

/** What went wrong on the disk, in the words of an agent: it knows its workspace, and not where that lies. */
export async function inHome<T>(home: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new Refusal(error.code, error.message.replaceAll(home, HOME), error.hint)
  }
}
