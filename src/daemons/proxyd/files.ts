// The pages that folders publish, from the disk. Whoever writes there is an agent: nothing leads out of its folder's slot,
// however a path is written and whatever is linked or swapped while we look.
import { constants, type FileHandle, open, readlink, realpath, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { diskCode } from '../../lib/atomic-file.ts'

export interface OpenFile {
  readonly handle: FileHandle
  /** With the name that its content type goes by. */
  readonly name: string
  readonly size: number
  readonly modifiedMs: number
}

export type Found = { readonly file: OpenFile } | 'directory' | undefined

const INDEX = 'index.html'
const GONE: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'EACCES', 'EPERM', 'ENXIO'])

/**
 * The segments of a path below the slots, decoded once: of `/team/a%20b/` that is `team`, `a b` and an empty one. Nothing
 * where a segment hides something, as names that begin with a dot do.
 */
export function segmentsOf(path: string): string[] | undefined {
  const segments = path.slice(1).split('/')
  const decoded: string[] = []
  for (const [at, segment] of segments.entries()) {
    const text = decode(segment)
    const isLast = at === segments.length - 1
    if (text === undefined || (text === '' && !isLast)) return undefined
    if (text.startsWith('.') || /[/\\\u0000-\u001f\u007f]/.test(text)) return undefined
    decoded.push(text)
  }
  return decoded
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

/** A file, the index of a directory, or that a directory was asked for without its slash. To be closed by the caller. */
export async function findFile(root: string, folder: string, segments: readonly string[]): Promise<Found> {
  try {
    return await look(root, folder, segments)
  } catch (error) {
    if (GONE.has(diskCode(error) ?? '')) return undefined
    throw error
  }
}

async function look(root: string, folder: string, segments: readonly string[]): Promise<Found> {
  const hasSlash = segments.at(-1) === ''
  const path = join(root, ...segments)
  const slot = join(await realpath(root), folder)
  if ((await stat(path)).isDirectory()) {
    if (!isWithin(slot, await realpath(path))) return undefined
    return hasSlash ? openWithin(slot, join(path, INDEX)) : 'directory'
  }
  return hasSlash ? undefined : openWithin(slot, path)
}

/** Opened without following a link at its end; what was swapped above it in between is seen by where the open file lies. */
async function openWithin(slot: string, path: string): Promise<Found> {
  const real = await realpath(path)
  if (!isWithin(slot, real)) return undefined
  // Not waiting: behind a name may be a pipe that nobody writes to.
  const handle = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const held = await handle.stat()
    if (held.isFile() && isWithin(slot, await placeOf(handle, real)))
      return { file: { handle, name: path, size: held.size, modifiedMs: held.mtimeMs } }
  } catch (error) {
    await handle.close()
    throw error
  }
  await handle.close()
  return undefined
}

/** Where an open file lies, by the kernel's own word; where it has none, by another look at the name. */
async function placeOf({ fd }: FileHandle, name: string): Promise<string> {
  return process.platform === 'linux' ? readlink(`/proc/self/fd/${fd}`) : realpath(name)
}

/** Also by what it is: a link to a hidden file is hidden. */
function isWithin(slot: string, real: string): boolean {
  if (real === slot) return true
  if (!real.startsWith(`${slot}${sep}`)) return false
  return !relative(slot, real)
    .split(sep)
    .some((segment) => segment.startsWith('.'))
}
