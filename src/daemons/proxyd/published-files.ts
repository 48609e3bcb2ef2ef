// Opens published files. Agents write to these directories, so no path, symbolic link or rename during the lookup may lead
// out of the folder's slot.
import { constants, type FileHandle, open, readlink, realpath, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { errnoCode } from '../../lib/files/atomic-file.ts'

export interface OpenFile {
  readonly handle: FileHandle
  /** Determines the content type. */
  readonly name: string
  /** Where it is below the root, without symbolic links. */
  readonly segments: readonly string[]
  readonly size: number
  readonly modifiedMs: number
}

export type PublishedFile = { readonly file: OpenFile } | 'directory' | undefined

const INDEX = 'index.html'
const NOT_FOUND_CODES: ReadonlySet<string> = new Set([
  'ENOENT',
  'ENOTDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'EACCES',
  'EPERM',
  'ENXIO',
])

/** Splits `/team/a b/` into `team`, `a b` and ''. Undefined for hidden names, separators and control characters. */
export function splitPath(path: string): string[] | undefined {
  const segments = path.slice(1).split('/')
  const isHidden = (name: string, at: number): boolean =>
    name.startsWith('.') || (name === '' && at < segments.length - 1) || /[\\\u0000-\u001f\u007f]/.test(name)
  return segments.some(isHidden) ? undefined : segments
}

/** A file or the index of a directory, which the caller closes; 'directory' where the trailing slash is missing. */
export async function findFile(root: string, folder: string, segments: readonly string[]): Promise<PublishedFile> {
  try {
    return await lookUp(root, folder, segments)
  } catch (error) {
    if (NOT_FOUND_CODES.has(errnoCode(error) ?? '')) return undefined
    throw error
  }
}

async function lookUp(root: string, folder: string, segments: readonly string[]): Promise<PublishedFile> {
  const hasSlash = segments.at(-1) === ''
  const path = join(root, ...segments)
  const realRoot = await realpath(root)
  const slot = join(realRoot, folder)
  const openFile = (at: string): Promise<PublishedFile> => openWithin(realRoot, slot, at)
  if ((await stat(path)).isDirectory()) {
    if (!isWithin(slot, await realpath(path))) return undefined
    return hasSlash ? openFile(join(path, INDEX)) : 'directory'
  }
  return hasSlash ? undefined : openFile(path)
}

/** O_NOFOLLOW refuses a link at the end; a directory that was swapped meanwhile shows in the path of the open file. */
async function openWithin(root: string, slot: string, path: string): Promise<PublishedFile> {
  const real = await realpath(path)
  if (!isWithin(slot, real)) return undefined
  // O_NONBLOCK: opening a FIFO without a writer would block.
  const handle = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const stats = await handle.stat()
    const opened = await realPathOf(handle, real)
    if (stats.isFile() && isWithin(slot, opened)) {
      const segments = relative(root, opened).split(sep)
      return { file: { handle, name: path, segments, size: stats.size, modifiedMs: stats.mtimeMs } }
    }
  } catch (error) {
    await handle.close()
    throw error
  }
  await handle.close()
  return undefined
}

/** Path of the open file, from the kernel where /proc exists. */
async function realPathOf({ fd }: FileHandle, name: string): Promise<string> {
  return process.platform === 'linux' ? readlink(`/proc/self/fd/${fd}`) : realpath(name)
}

/** A link to a hidden file is hidden, too. */
function isWithin(slot: string, real: string): boolean {
  if (real === slot) return true
  if (!real.startsWith(`${slot}${sep}`)) return false
  return !relative(slot, real)
    .split(sep)
    .some((segment) => segment.startsWith('.'))
}
