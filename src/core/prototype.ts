// The workspace of a group that an agent registers: the skeleton, and what its parent keeps in `prototype/`.
import { Directory, kindOfEntry } from '../lib/directory.ts'
import { removeTree } from '../lib/directory-tree.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { HOME, inHome, makeHome, openHome, removeHome } from './home.ts'
import type { Layout } from './layout.ts'
import { bundledProducts, findProduct, setUpFolder } from './products.ts'

const FILES_MAX = 2000
const BYTES_MAX = 64 * 1024 * 1024
/** Each level keeps two directories open. */
const DEPTH_MAX = 32

export interface Workspace {
  readonly folder: string
  readonly product: string
  /** The folder whose prototype is copied. */
  readonly from?: string | undefined
}

/** Makes it; when that fails, what was not there before is removed again. */
export async function makeWorkspace(layout: Layout, { folder, product, from }: Workspace): Promise<void> {
  const undo = await removalsOf(layout, folder)
  try {
    if (from !== undefined) await copyPrototype(layout, from, folder)
    await setUpFolder(layout, folder, await findProduct(bundledProducts, product))
  } catch (error) {
    // The fault that led here is the one to report.
    await Promise.allSettled(undo.map((remove) => remove()))
    throw withoutRoot(layout, error)
  }
}

/** An agent reads the refusal, and must not learn where the instance lies. */
function withoutRoot({ root }: Layout, error: unknown): unknown {
  if (!(error instanceof Refusal)) return error
  return new Refusal(error.code, error.message.replaceAll(`${root}/`, ''), error.hint)
}

/** How to remove those directories of a group that are not there yet. */
async function removalsOf(layout: Layout, folder: string): Promise<(() => Promise<void>)[]> {
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
    // Something else has the name: the set-up says so.
    if (error instanceof Refusal) return false
    throw error
  }
}

async function removePages(path: string, folder: string): Promise<void> {
  const segments = folder.split('/')
  const name = segments.pop() ?? folder
  await using pages = await Directory.open(path, { follow: true })
  await using above = await pages?.openPath(segments.join('/'))
  if (above) await removeTree(above, name)
}

/** Copies into the workspace of `to`, which is made where it is missing. Files that are there stay. */
export async function copyPrototype(layout: Layout, from: string, to: string): Promise<void> {
  await using home = await openHome(layout, from)
  await using prototype = await home?.openDirectory('prototype')
  if (!home || !prototype) return refuse('not_found', `no prototype dir: there is no directory ${HOME}/prototype`)
  await inHome(home, async () => {
    await using target = await makeHome(layout, to)
    await copyTree(prototype, target, { files: 0, directories: 0, bytes: 0 }, DEPTH_MAX)
  })
}

interface Counts {
  files: number
  directories: number
  bytes: number
}

/** Regular files alone: the agent's own links mean nothing in another workspace. */
async function copyTree(from: Directory, to: Directory, counts: Counts, depthLeft: number): Promise<void> {
  for (const entry of await from.entries()) {
    const kind = kindOfEntry(entry)
    if (kind === 'file') await copyFile(from, to, entry.name, counts)
    if (kind !== 'directory') continue
    if (depthLeft === 0) refuse('too_large', `copy prototype: its directories are nested deeper than ${DEPTH_MAX}`)
    if (++counts.directories > FILES_MAX) refuseSize()
    await using below = await from.openDirectory(entry.name)
    if (!below) continue
    await using target = await to.makePath(entry.name)
    await copyTree(below, target, counts, depthLeft - 1)
  }
}

async function copyFile(from: Directory, to: Directory, name: string, counts: Counts): Promise<void> {
  // The agent may have removed it, or put something else in its place, since it was listed.
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
