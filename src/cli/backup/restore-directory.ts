// A data directory that is being restored. It has a temporary name next to its target and is renamed when complete.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, type FileHandle, lstat, mkdir, open, rename, rm, stat, statfs, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { errnoCode, refuseDisk } from '../../lib/files/atomic-file.ts'
import { readSparse, type SparsePart } from '../../lib/files/sparse-file.ts'
import { refuse } from '../../lib/refusal.ts'
import type { ArchiveEntry } from './archive.ts'

const run = promisify(execFile)

export class RestoreDirectory implements AsyncDisposable {
  /** The temporary path. */
  readonly root: string
  readonly #target: string
  readonly #modes: [path: string, mode: number][] = []
  readonly #links: [path: string, link: string][] = []

  private constructor(target: string, root: string) {
    this.#target = target
    this.root = root
  }

  static async create(target: string): Promise<RestoreDirectory> {
    await mustBeMissing(target)
    const root = join(dirname(target), `.${basename(target)}.restoring-${randomBytes(8).toString('hex')}`)
    try {
      await mkdir(dirname(target), { recursive: true })
      await mkdir(root, 0o700)
    } catch (error) {
      refuseDisk(error, 'create', root)
    }
    return new RestoreDirectory(target, root)
  }

  /** `path` is relative to the root; its directory must exist. Links are created by `finish`, so no write follows one. */
  async write(path: string, { kind, realSize, mode, mtime, link, body }: ArchiveEntry): Promise<void> {
    const target = join(this.root, path)
    try {
      if (kind === 'link') this.#links.push([target, link ?? ''])
      else if (kind === 'directory') {
        await mkdir(target, 0o700)
        this.#modes.push([target, mode])
      } else {
        const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
        await using file = await open(target, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
        if (realSize === undefined) for await (const chunk of body) await file.writeFile(chunk)
        else await writeSparse(file, readSparse(body, realSize), realSize)
        await file.chmod(mode)
        await file.utimes(mtime, mtime)
      }
    } catch (error) {
      refuseDisk(error, 'write', target)
    }
  }

  /** Syncs everything to disk, then renames the directory to its target. */
  async finish(): Promise<void> {
    try {
      for (const [path, link] of this.#links) await symlink(link, path)
      // Deepest first: below a directory that is no longer writable, modes could not be changed.
      for (const [path, mode] of this.#modes.reverse()) await chmod(path, mode)
      await chmod(this.root, 0o755)
      await syncFilesystem(this.root)
      await mustBeMissing(this.#target)
      await rename(this.root, this.#target)
      await using parent = await open(dirname(this.#target), constants.O_RDONLY)
      await parent.sync()
    } catch (error) {
      refuseDisk(error, 'write', this.#target)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true })
  }
}

/** What is not written stays a hole. */
async function writeSparse(file: FileHandle, parts: AsyncIterable<SparsePart>, size: number): Promise<void> {
  for await (const { offset, bytes } of parts)
    for (let at = 0; at < bytes.length; )
      at += (await file.write(bytes, at, bytes.length - at, offset + at)).bytesWritten
  await file.truncate(size)
}

/** One call, because a sync of each file would take minutes. Without the program, the system writes the data later. */
async function syncFilesystem(path: string): Promise<void> {
  await run('sync', ['-f', path])
    .catch(() => run('sync'))
    .catch(() => {})
}

export async function mustBeMissing(root: string): Promise<void> {
  const stats = await lstat(root).catch((error) =>
    errnoCode(error) === 'ENOENT' ? undefined : refuseDisk(error, 'use', root),
  )
  if (stats)
    refuse(
      'conflict',
      `${root} already exists; nothing was changed`,
      `restore under another name, or move it away first: mv ${root} ${root}.old`,
    )
}

/** `path`, or the nearest directory above it that exists. */
export async function nearestExistingDirectory(path: string): Promise<string> {
  const exists = await stat(path).then(
    () => true,
    (error) => (errnoCode(error) === 'ENOENT' ? false : refuseDisk(error, 'use', path)),
  )
  return exists || path === dirname(path) ? path : nearestExistingDirectory(dirname(path))
}

/** `root` need not exist yet. */
export async function mustHaveDiskSpace(root: string, bytes: number): Promise<void> {
  const path = await nearestExistingDirectory(root)
  const { bavail, bsize } = await statfs(path).catch((error) => refuseDisk(error, 'use', path))
  const free = bavail * bsize
  if (bytes > free)
    refuse(
      'unavailable',
      `the backup needs ${bytes} bytes, but ${path} has only ${free} free; nothing was changed`,
      'free some space',
    )
}
