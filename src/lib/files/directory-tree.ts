// Removes and chowns everything below an open directory, deepest entries first. Only one directory is open at a time, however
// deep the tree: it returns through "..", which must still be the directory it came from.
import type { Directory, FileOwner } from './directory.ts'

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

/** Gives everything below `top`, and then `top`, to `owner`; returns the number of entries. Does not close `top`. */
export async function chownTree(
  top: Directory,
  owner: FileOwner,
  onProgress?: (done: number) => void,
): Promise<number> {
  let done = 0
  await visitBelow(await top.reopen(), async (directory, name) => {
    await directory.setOwnerOf(name, owner)
    onProgress?.(++done)
  })
  await top.setOwner(owner)
  onProgress?.(++done)
  return done
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
