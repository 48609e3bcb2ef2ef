// A data directory that is being restored. It is made under another name, beside its place, and gets its own when it is whole.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, lstat, mkdir, open, rename, rm, stat, statfs, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { errnoCode, refuseDisk } from '../../lib/files/atomic-file.ts'
import type { TarEntry } from '../../lib/files/tar.ts'
import { refuse } from '../../lib/refusal.ts'

const run = promisify(execFile)

export class RestoreDirectory implements AsyncDisposable {
  /** Where it lies until it is whole. */
  readonly root: string
  readonly #target: string
  readonly #modes: [path: string, mode: number][] = []
  readonly #links: [path: string, link: string][] = []

  private constructor(target: string, root: string) {
    this.#target = target
    this.root = root
  }

  static async make(target: string): Promise<RestoreDirectory> {
    await mustBeMissing(target)
    const root = join(dirname(target), `.${basename(target)}.restoring-${randomBytes(8).toString('hex')}`)
    try {
      await mkdir(dirname(target), { recursive: true })
      await mkdir(root, 0o700)
    } catch (error) {
      refuseDisk(error, 'make', root)
    }
    return new RestoreDirectory(target, root)
  }

  /** `path` is relative, and its directory was written before. Links come at the end, so that nothing is written through one. */
  async write(path: string, { kind, mode, mtime, link, body }: TarEntry): Promise<void> {
    const place = join(this.root, path)
    try {
      if (kind === 'link') this.#links.push([place, link ?? ''])
      else if (kind === 'directory') {
        await mkdir(place, 0o700)
        this.#modes.push([place, mode])
      } else {
        const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
        await using file = await open(place, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
        for await (const chunk of body) await file.writeFile(chunk)
        await file.chmod(mode)
        await file.utimes(mtime, mtime)
      }
    } catch (error) {
      refuseDisk(error, 'write', place)
    }
  }

  /** Gives it its name, when all of it is on the disk. */
  async finish(): Promise<void> {
    try {
      for (const [path, link] of this.#links) await symlink(link, path)
      // The deepest first: a directory that cannot be written to any more may have some below it.
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

/** All of it in one go: a call for each file would take minutes. A machine without the program writes it a little later. */
async function syncFilesystem(path: string): Promise<void> {
  await run('sync', ['-f', path])
    .catch(() => run('sync'))
    .catch(() => {})
}

export async function mustBeMissing(root: string): Promise<void> {
  const there = await lstat(root).catch((error) =>
    errnoCode(error) === 'ENOENT' ? undefined : refuseDisk(error, 'use', root),
  )
  if (there)
    refuse(
      'conflict',
      `${root} exists already; nothing was changed`,
      `restore under another name, or move it away first: mv ${root} ${root}.old`,
    )
}

/** The nearest directory that is there, at or above this path. */
export async function nearestExistingDirectory(path: string): Promise<string> {
  const isThere = await stat(path).then(
    () => true,
    (error) => (errnoCode(error) === 'ENOENT' ? false : refuseDisk(error, 'use', path)),
  )
  return isThere || path === dirname(path) ? path : nearestExistingDirectory(dirname(path))
}

/** Room for so many bytes where this path will be. */
export async function mustHaveDiskSpace(root: string, bytes: number): Promise<void> {
  const path = await nearestExistingDirectory(root)
  const found = await statfs(path).catch((error) => refuseDisk(error, 'use', path))
  const free = found.bavail * found.bsize
  if (bytes > free)
    refuse(
      'unavailable',
      `the backup needs ${bytes} bytes, and ${path} has room for ${free}; nothing was changed`,
      'free some space',
    )
}
