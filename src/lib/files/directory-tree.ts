// Removes and chowns everything below an open directory, deepest entries first. Only one directory is open at a time, however
// deep the tree: it returns through "..", which must still be the directory it came from.
import type { Stats } from 'node:fs'
import { join } from 'node:path'
import type { Directory } from './directory.ts'
import type { FileOwner } from './owner.ts'

/** Entries of one directory processed at once. */
const BATCH = 64

interface Level {
  readonly dev: number
  readonly ino: number
  /** Subdirectories not visited yet. */
  readonly left: string[]
}

type Visit = (parent: Directory, name: string, isDirectory: boolean) => Promise<void>

/** Removes the entry with this name without following links. */
export async function removeTree(parent: Directory, name: string): Promise<void> {
  const top = await parent.openDirectory(name)
  if (!top) return parent.removeFile(name)
  await visitBelow(top, (directory, entry, isDirectory) =>
    isDirectory ? directory.removeDirectory(entry) : directory.removeFile(entry),
  )
  await parent.removeDirectory(name)
}

export interface OwnerChange {
  readonly owner: FileOwner
  /** Whether the tree's users own such a file, so that a copy of it gives nothing away. */
  mayCopy(file: Stats): boolean
  onProgress?(done: number): void
  /** Called with the path of an entry that keeps its owner, because it has a name outside of the tree. */
  onKept?(path: string): void
  readonly signal?: AbortSignal | undefined
}

/**
 * Gives everything below `top`, and then `top`, to an owner; returns the number of entries. Does not close `top`. A user who
 * can write in the tree may have made a second name (a hard link) for a file elsewhere, whose owner must not change: such a file is
 * replaced by a copy, or keeps its owner.
 */
export async function chownTree(top: Directory, change: OwnerChange): Promise<number> {
  const { owner, mayCopy, onProgress, onKept, signal } = change
  const inside = await findFilesInside(top, signal)
  const isInside = (entry: Stats): boolean =>
    entry.isDirectory() || entry.nlink === 1 || entry.nlink === inside.get(identityOf(entry))
  let done = 0
  await visitBelow(await top.reopen(), async (directory, name) => {
    signal?.throwIfAborted()
    let outside: Stats | undefined
    const isChanged = await directory.setOwnerOf(name, owner, (entry) => {
      if (isInside(entry)) return true
      outside = entry
      return false
    })
    // A file that already belongs to the owner is the copy of an interrupted run, or was made since.
    if (!isChanged && outside && outside.uid !== owner.uid) {
      if (outside.isFile() && mayCopy(outside)) await directory.replaceByCopy(name, owner)
      else onKept?.(join(directory.path, name))
    }
    onProgress?.(++done)
  })
  await top.setOwner(owner)
  onProgress?.(++done)
  return done
}

/** The files that have several names, all of them in the tree, with their number. */
async function findFilesInside(top: Directory, signal: AbortSignal | undefined): Promise<ReadonlyMap<string, number>> {
  const files = new Map<string, { count: number; readonly nlink: number }>()
  await visitBelow(await top.reopen(), async (directory, name, isDirectory) => {
    signal?.throwIfAborted()
    const entry = isDirectory ? undefined : await directory.statOf(name)
    if (!entry || entry.isDirectory() || entry.nlink === 1) return
    const file = files.get(identityOf(entry)) ?? { count: 0, nlink: entry.nlink }
    file.count++
    files.set(identityOf(entry), file)
  })
  return new Map(
    [...files].filter(([, { count, nlink }]) => count === nlink).map(([identity, { nlink }]) => [identity, nlink]),
  )
}

function identityOf({ dev, ino }: Stats): string {
  return `${dev}:${ino}`
}

/** Calls `visit` for every entry below `top`, for a directory after its contents. Closes `top`. */
async function visitBelow(top: Directory, visit: Visit): Promise<void> {
  let at = top
  try {
    const levels = [await enter(at, visit)]
    for (let level = levels.at(-1); level; level = levels.at(-1)) {
      const name = level.left.at(-1)
      const child = name === undefined ? undefined : await at.openDirectory(name)
      if (child) {
        await at.close()
        at = child
        levels.push(await enter(at, visit))
        continue
      }
      // It was replaced since it was listed.
      if (name !== undefined) {
        level.left.pop()
        await visit(at, name, false)
        continue
      }
      levels.pop()
      const above = levels.at(-1)
      if (!above) break
      const parent = await at.openParent(above)
      await at.close()
      at = parent
      const done = above.left.pop()
      if (done !== undefined) await visit(at, done, true)
    }
  } finally {
    await at.close()
  }
}

/** Visits entries that are not directories and collects the directories. */
async function enter(directory: Directory, visit: Visit): Promise<Level> {
  const entries = await directory.entries()
  const files = entries.filter((entry) => !entry.isDirectory())
  for (let from = 0; from < files.length; from += BATCH)
    await Promise.all(files.slice(from, from + BATCH).map(({ name }) => visit(directory, name, false)))
  const { dev, ino } = await directory.stat()
  const left = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
  return { dev, ino, left }
}
