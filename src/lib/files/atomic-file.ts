// Writes files atomically, creates directories, and reads files with a size limit. File system errors become refusals that name the path.
import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Refusal, type RefusalCode, refuse } from '../refusal.ts'
import { inheritOwner } from './owner.ts'

/**
 * Replaces `path` by a file with this content and mode. When it returns, the file survives a power cut. A kill may leave a
 * file named `prefix` and 16 hex digits behind; callers that remove those need a prefix of their own.
 */
export async function writeAtomic(
  path: string,
  data: string | Uint8Array,
  mode: number,
  prefix = '.tmp-',
): Promise<void> {
  const directory = dirname(path)
  // In the same directory, since a rename cannot cross file systems; a short name, since `path` may use all 255 bytes.
  const temporary = join(directory, `${prefix}${randomBytes(8).toString('hex')}`)
  try {
    await using file = await open(temporary, 'wx', 0o600)
    await file.writeFile(data)
    // chmod instead of open's mode, which the umask would narrow.
    await file.chmod(mode)
    await file.sync()
    inheritOwner(temporary, file.fd)
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    refuseDisk(error, 'write', path)
  }
  await syncDirectory(directory)
}

/**
 * Creates a directory unless it exists. Creates missing parents one by one: Node's `recursive` never returns on a file system that allows none, such as /proc.
 */
export async function makeDirectory(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, mode).catch(async (error) => {
      if (errnoCode(error) !== 'ENOENT' || dirname(path) === path) throw error
      await makeDirectory(dirname(path), mode)
      await mkdir(path, mode)
    })
    inheritOwner(path)
  } catch (error) {
    const exists = errnoCode(error) === 'EEXIST' && (await stat(path).catch(() => undefined))?.isDirectory()
    if (!exists) refuseDisk(error, 'create', path)
  }
}

/** Reads a regular file of at most `maxBytes` as text. Never blocks, unlike opening a FIFO without a writer. */
export async function readText(path: string, maxBytes: number): Promise<string> {
  return decode(await readFileBytes(path, maxBytes), path)
}

/** Like `readText`, as bytes. */
export async function readFileBytes(path: string, maxBytes: number): Promise<Buffer> {
  try {
    await using file = await openRegular(path)
    // Count the bytes read, not the reported size: the file may grow, and files in /proc report none.
    const bytes = await readUpTo(file, maxBytes + 1)
    if (bytes.length > maxBytes) refuse('too_large', `cannot read ${path}: it is larger than ${maxBytes} bytes`)
    return bytes
  } catch (error) {
    refuseDisk(error, 'read', path)
  }
}

/** Refuses a path that is not a readable, regular file. */
export async function mustBeReadable(path: string): Promise<void> {
  try {
    await using _ = await openRegular(path)
  } catch (error) {
    refuseDisk(error, 'read', path)
  }
}

/** A regular file of any size, piece by piece. */
export async function* readPieces(path: string): AsyncGenerator<Buffer> {
  try {
    await using file = await openRegular(path)
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(65_536))
      if (bytesRead === 0) return
      yield buffer.subarray(0, bytesRead)
    }
  } catch (error) {
    refuseDisk(error, 'read', path)
  }
}

async function openRegular(path: string): Promise<FileHandle> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  const fault = kindFault(await file.stat())
  if (fault === undefined) return file
  await file.close()
  return refuse('invalid', `cannot read ${path}: ${fault}`)
}

/** At most `limit` bytes, however much the file grows meanwhile. */
export async function readUpTo(file: FileHandle, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  for (let length = 0; length < limit; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(65_536, limit - length)))
    if (bytesRead === 0) break
    chunks.push(buffer.subarray(0, bytesRead))
    length += bytesRead
  }
  return Buffer.concat(chunks)
}

function kindFault(stats: Stats): string | undefined {
  if (stats.isFile()) return undefined
  return stats.isDirectory() ? 'it is a directory' : 'it is not a regular file'
}

function decode(bytes: Buffer, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return refuse('invalid', `cannot read ${path}: it is not UTF-8 text`)
  }
}

export async function syncDirectory(directory: string): Promise<void> {
  try {
    await using handle = await open(directory, constants.O_RDONLY)
    await handle.sync()
  } catch (error) {
    refuseDisk(error, 'write', directory)
  }
}

const DISK_FAULTS: Readonly<Record<string, readonly [RefusalCode, string]>> = {
  ENOENT: ['not_found', 'it does not exist'],
  EACCES: ['forbidden', 'permission denied'],
  EPERM: ['forbidden', 'permission denied'],
  EROFS: ['unavailable', 'the file system is read-only'],
  ENOSPC: ['unavailable', 'the disk is full'],
  EDQUOT: ['unavailable', 'the disk quota is used up'],
  EFBIG: ['unavailable', 'the file would be larger than the system allows'],
  EIO: ['unavailable', 'the disk reports an error'],
  EMFILE: ['unavailable', 'too many files are open'],
  ENFILE: ['unavailable', 'too many files are open'],
  EISDIR: ['invalid', 'it is a directory'],
  ENOTDIR: ['invalid', 'a part of the path is not a directory'],
  EEXIST: ['conflict', 'it already exists'],
  ENOTEMPTY: ['conflict', 'it is a directory that is not empty'],
  ENXIO: ['invalid', 'it is not a regular file'],
  ELOOP: ['invalid', 'its symbolic links form a loop'],
  ENAMETOOLONG: ['invalid', 'the name is too long'],
}

/** Turns a file system error into a refusal such as `cannot write <path>: the disk is full`. Rethrows other errors. */
export function refuseDisk(error: unknown, doing: string, path: string): never {
  const code = errnoCode(error)
  const fault = code === undefined ? undefined : DISK_FAULTS[code]
  if (!fault) throw error
  const [refusal, reason] = fault
  // Writing creates the file, so ENOENT means that the directory is missing.
  const shown = code === 'ENOENT' && doing === 'write' ? 'its directory does not exist' : reason
  throw Object.assign(new Refusal(refusal, `cannot ${doing} ${path}: ${shown}`), { cause: error })
}

/** The system's error code, such as ENOENT. */
export function errnoCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
