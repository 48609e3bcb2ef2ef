// Reads files below an open directory without leaving this thread, by the rules of `Directory`: relative to descriptors, one
// name at a time, never through a link.
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  readlinkSync,
  readSync,
  realpathSync,
  type Stats,
} from 'node:fs'
import { join } from 'node:path'
import { diskCode } from './atomic-file.ts'

const { O_DIRECTORY, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

const HAS_DESCRIPTOR_PATHS = existsSync('/proc/self/fd')

export class SyncDirectory implements Disposable {
  readonly #fd: number
  readonly #path: string

  private constructor(fd: number, path: string) {
    this.#fd = fd
    this.#path = path
  }

  /** Every segment of `path` is trusted, and may be a link. Undefined where no directory is there. */
  static open(path: string): SyncDirectory | undefined {
    return SyncDirectory.#openAt(path, path, O_RDONLY | O_DIRECTORY)
  }

  /** Undefined where no directory has this name; a symbolic link is none. */
  openDirectory(name: string): SyncDirectory | undefined {
    return SyncDirectory.#openAt(this.#address(name), join(this.#path, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  }

  static #openAt(address: string, path: string, flags: number): SyncDirectory | undefined {
    const fd = unlessDiskFault(() => openSync(address, flags))
    return fd === undefined ? undefined : new SyncDirectory(fd, path)
  }

  /** Where the kernel says that it is now. */
  realPath(): string {
    return HAS_DESCRIPTOR_PATHS ? readlinkSync(`/proc/self/fd/${this.#fd}`) : realpathSync.native(this.#path)
  }

  /** Where a path below leads, with all its links: no more than a hint, which may be outdated at once. */
  realPathOf(path: string): string | undefined {
    return unlessDiskFault(() => realpathSync.native(this.#address(path)))
  }

  isLink(name: string): boolean {
    return this.#stat(name)?.isSymbolicLink() ?? false
  }

  /** The text of a regular file of at most `maxBytes`; undefined for anything else. */
  readText(name: string, maxBytes: number): string | undefined {
    // Not opened to find out: opening a device may do something.
    if (!this.#stat(name)?.isFile()) return undefined
    // O_NONBLOCK: opening a FIFO would wait for a writer.
    const flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY
    const fd = unlessDiskFault(() => openSync(this.#address(name), flags))
    if (fd === undefined) return undefined
    try {
      return unlessDiskFault(() => textOf(fd, maxBytes))
    } finally {
      closeSync(fd)
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#fd)
  }

  #stat(name: string): Stats | undefined {
    return unlessDiskFault(() => lstatSync(this.#address(name), { throwIfNoEntry: false }))
  }

  #address(name: string): string {
    return HAS_DESCRIPTOR_PATHS ? `/proc/self/fd/${this.#fd}/${name}` : join(this.#path, name)
  }
}

function textOf(fd: number, maxBytes: number): string | undefined {
  const opened = fstatSync(fd)
  if (!opened.isFile() || opened.size > maxBytes) return undefined
  // By the size that was checked: the file may grow while it is read.
  const bytes = Buffer.allocUnsafe(opened.size)
  return bytes.toString('utf8', 0, readSync(fd, bytes))
}

function unlessDiskFault<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    if (diskCode(error) === undefined) throw error
    return undefined
  }
}
