// The workspace of a group that an agent registers: the skeleton, and what its parent keeps in `prototype/`.
import { constants } from 'node:fs'
import { lstat, open, readdir, readlink, realpath, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { diskCode, refuseDisk } from '../lib/atomic-file.ts'
import { refuse } from '../lib/refusal.ts'
import { HOME, inHome, realHome } from './home.ts'
import { groupDirs, type Layout } from './layout.ts'
import { bundledProducts, findProduct, makeDirs, setUpFolder, writeMissing } from './products.ts'

const FILES_MAX = 2000
const BYTES_MAX = 64 * 1024 * 1024

export interface Workspace {
  readonly folder: string
  readonly product: string
  /** The folder whose prototype is copied. */
  readonly from?: string | undefined
}

/** Makes it; when that fails, what was not there before is gone again. */
export async function makeWorkspace(layout: Layout, { folder, product, from }: Workspace): Promise<void> {
  const { home, webPub, webPriv } = groupDirs(layout, folder)
  const fresh: string[] = []
  for (const dir of [home, webPub, webPriv]) if (!(await isThere(dir))) fresh.push(dir)
  try {
    if (from !== undefined) await copyPrototype(layout, from, home)
    await setUpFolder(layout, folder, await findProduct(bundledProducts, product))
  } catch (error) {
    for (const dir of fresh) await rm(dir, { recursive: true, force: true })
    throw error
  }
}

/** Regular files alone: a link, or what became one meanwhile, could lead out of the workspace. */
async function copyPrototype(layout: Layout, from: string, to: string): Promise<void> {
  const home = await realHome(layout, from)
  const none = `no prototype dir: there is no directory ${HOME}/prototype`
  if (home === undefined) return refuse('not_found', none)
  const base = join(home, 'prototype')
  if ((await kindOf(base)) !== 'directory') refuse('not_found', none)
  let [files, bytes] = [0, 0]
  await inHome(home, async () => {
    for (const path of await filesIn(base)) {
      const found = await readInside(base, join(base, path))
      if (!found) continue
      files++
      bytes += found.data.length
      if (files > FILES_MAX || bytes > BYTES_MAX)
        refuse('too_large', `copy prototype: it has more than ${FILES_MAX} files or ${BYTES_MAX} bytes`)
      await makeDirs(layout.root, dirname(join(to, path)))
      await writeMissing(join(to, path), found.data, found.mode)
    }
  })
}

/** Relative to `base`, in the order of their names. */
async function filesIn(base: string, below = ''): Promise<string[]> {
  const entries = await readdir(join(base, below), { withFileTypes: true }).catch((error) =>
    refuseDisk(error, 'copy', join(base, below)),
  )
  const found: string[] = []
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(below, entry.name)
    if (entry.isDirectory()) found.push(...(await filesIn(base, path)))
    else if (entry.isFile()) found.push(path)
    if (found.length > FILES_MAX) break
  }
  return found
}

async function readInside(base: string, path: string): Promise<{ data: Buffer; mode: number } | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants
  try {
    await using file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
    const stats = await file.stat()
    // A directory on the way may have been exchanged for a link since it was listed: asked of what is open, not of its name.
    const real = await readlink(`/proc/self/fd/${file.fd}`).catch(() => realpath(path))
    if (!stats.isFile() || !real.startsWith(`${base}/`)) return undefined
    if (stats.size > BYTES_MAX) refuse('too_large', `copy prototype: ${path} is larger than ${BYTES_MAX} bytes`)
    return { data: await file.readFile(), mode: stats.mode & 0o100 ? 0o755 : 0o644 }
  } catch (error) {
    const code = diskCode(error)
    return code === 'ENOENT' || code === 'ELOOP' ? undefined : refuseDisk(error, 'copy', path)
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await kindOf(path)) !== undefined
}

async function kindOf(path: string): Promise<'directory' | 'other' | undefined> {
  try {
    return (await lstat(path)).isDirectory() ? 'directory' : 'other'
  } catch (error) {
    const code = diskCode(error)
    return code === 'ENOENT' || code === 'ENOTDIR' ? undefined : refuseDisk(error, 'read', path)
  }
}
