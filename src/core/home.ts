// The workspace of a group as a place to read and write for the host. Its agent writes there too, and may have put a link in
// the way: a folder below another lies in the other's workspace.
import { realpathSync } from 'node:fs'
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
  const { home, world } = placesOf(layout, folder)
  return judged(layout, folder, await realOf(home), await realOf(world))
}

/** The same without asking another thread. */
export function realHomeNow(layout: Layout, folder: string): string | undefined {
  const { home, world } = placesOf(layout, folder)
  return judged(layout, folder, realNow(home), realNow(world))
}

function placesOf(layout: Layout, folder: string): { home: string; world: string } {
  return { home: groupDirs(layout, folder).home, world: groupDirs(layout, worldOf(folder)).home }
}

function judged(
  layout: Layout,
  folder: string,
  real: string | undefined,
  above: string | undefined,
): string | undefined {
  if (real === undefined || above === undefined) return undefined
  const { home, world } = placesOf(layout, folder)
  // Where the world itself lies is the operator's choice: no agent can write beside it.
  if (real !== join(above, relative(world, home))) refuse('conflict', `the workspace of ${folder} leads elsewhere`)
  return real
}

async function realOf(path: string): Promise<string | undefined> {
  try {
    return await realpath(path)
  } catch (error) {
    return missing(error, path)
  }
}

function realNow(path: string): string | undefined {
  try {
    return realpathSync.native(path)
  } catch (error) {
    return missing(error, path)
  }
}

function missing(error: unknown, path: string): undefined {
  if (diskCode(error) !== 'ENOENT') refuseDisk(error, 'read', path)
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
