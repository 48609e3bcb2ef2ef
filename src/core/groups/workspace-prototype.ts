// Creates the workspace of a group that an agent registers: the initial files, and a copy of its parent's `prototype/`.
import { Directory, kindOfEntry } from '../../lib/files/directory.ts'
import { removeTree } from '../../lib/files/directory-tree.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Layout } from '../layout.ts'
import { bundledProducts, findProduct, setUpFolder } from './products.ts'
import { AGENT_HOME, makeHome, openHome, removeHome, withAgentPaths } from './workspace-home.ts'

const FILES_MAX = 2000
const BYTES_MAX = 64 * 1024 * 1024
/** Each level keeps two directories open, so depth is limited. */
const DEPTH_MAX = 32
/** The workspace, public and private pages. */
const WORKSPACE_DIRECTORIES = 3

interface NewWorkspace {
  readonly folder: string
  readonly product: string
  /** The folder whose prototype is copied. */
  readonly from?: string | undefined
  /** Keeps what was created before a failure, for another attempt. */
  readonly keepsPartial?: boolean
}

/** On failure, removes the directories that it created. */
export async function makeWorkspace(layout: Layout, workspace: NewWorkspace): Promise<void> {
  const { folder, product, from, keepsPartial = false } = workspace
  const undo = keepsPartial ? [] : await planCleanup(layout, folder)
  try {
    if (from !== undefined) await copyPrototype(layout, from, folder)
    await setUpFolder(layout, folder, await findProduct(bundledProducts, product))
  } catch (error) {
    // Report the original error, not a failed cleanup.
    await Promise.allSettled(undo.map((remove) => remove()))
    throw withoutRoot(layout, error)
  }
}

/** Whether one of the directories of a group exists. */
export async function hasWorkspace(layout: Layout, folder: string): Promise<boolean> {
  return (await planCleanup(layout, folder)).length < WORKSPACE_DIRECTORIES
}

/** Removes the directories of a group with their files. */
export async function removeWorkspace(layout: Layout, folder: string): Promise<void> {
  await removeHome(layout, folder)
  for (const path of [layout.webPub, layout.webPriv]) await removePages(path, folder)
}

export async function hasPrototype(layout: Layout, folder: string): Promise<boolean> {
  await using home = await openHome(layout, folder)
  await using prototype = await home?.openDirectory('prototype')
  return prototype !== undefined
}

/** The agent reads the refusal and must not see host paths. */
function withoutRoot({ root }: Layout, error: unknown): unknown {
  if (!(error instanceof Refusal)) return error
  return new Refusal(error.code, error.message.replaceAll(`${root}/`, ''), error.hint)
}

/** Cleanups for those directories of a group that do not exist yet. */
async function planCleanup(layout: Layout, folder: string): Promise<(() => Promise<void>)[]> {
  const removals: (() => Promise<void>)[] = []
  if (await isMissing(openHome(layout, folder))) removals.push(() => removeHome(layout, folder))
  for (const path of [layout.webPub, layout.webPriv]) {
    await using pages = await Directory.open(path, { follow: true })
    if (await isMissing(pages?.openPath(folder))) removals.push(() => removePages(path, folder))
  }
  return removals
}

async function isMissing(opening: Promise<Directory | undefined> | undefined): Promise<boolean> {
  try {
    await using found = await opening
    return found === undefined
  } catch (error) {
    // Something else has this name; the setup reports it.
    if (error instanceof Refusal) return false
    throw error
  }
}

async function removePages(path: string, folder: string): Promise<void> {
  const segments = folder.split('/')
  const name = segments.pop() ?? folder
  await using pages = await Directory.open(path, { follow: true })
  await using parent = await pages?.openPath(segments.join('/'))
  if (parent) await removeTree(parent, name)
}

/** Creates the workspace of `to` if needed. Existing files are not overwritten. */
export async function copyPrototype(layout: Layout, from: string, to: string): Promise<void> {
  await using home = await openHome(layout, from)
  await using prototype = await home?.openDirectory('prototype')
  if (!home || !prototype) return refuse('not_found', `no prototype dir: there is no directory ${AGENT_HOME}/prototype`)
  await withAgentPaths(home, async () => {
    await using target = await makeHome(layout, to)
    await copyTree(prototype, target, { files: 0, directories: 0, bytes: 0 }, DEPTH_MAX)
  })
}

interface CopyCounts {
  files: number
  directories: number
  bytes: number
}

/** Copies regular files only: links would point elsewhere in another workspace. */
async function copyTree(from: Directory, to: Directory, counts: CopyCounts, depthLeft: number): Promise<void> {
  for (const entry of await from.entries()) {
    const kind = kindOfEntry(entry)
    if (kind === 'file') await copyFile(from, to, entry.name, counts)
    if (kind !== 'directory') continue
    if (depthLeft === 0) refuse('too_large', `copy prototype: its directories are nested deeper than ${DEPTH_MAX}`)
    if (++counts.directories > FILES_MAX) refuseSize()
    await using child = await from.openDirectory(entry.name)
    if (!child) continue
    await using target = await to.makePath(entry.name)
    await copyTree(child, target, counts, depthLeft - 1)
  }
}

async function copyFile(from: Directory, to: Directory, name: string, counts: CopyCounts): Promise<void> {
  // The agent may have removed or replaced it since it was listed.
  if ((await from.kindOf(name)) !== 'file') return
  const found = await from.readFile(name, BYTES_MAX)
  if (!found) return
  counts.bytes += found.data.length
  if (++counts.files > FILES_MAX || counts.bytes > BYTES_MAX) refuseSize()
  await to.createFile(name, found.data, found.mode & 0o100 ? 0o755 : 0o644)
}

function refuseSize(): never {
  return refuse(
    'too_large',
    `copy prototype: it has more than ${FILES_MAX} files, ${FILES_MAX} directories or ${BYTES_MAX} bytes`,
  )
}
