// Synchronous reads below an open directory, by the rules of `Directory`: relative to descriptors, one name at a time, never
// through a link.
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
import { errnoCode } from './atomic-file.ts'

const { O_DIRECTORY, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

const HAS_DESCRIPTOR_PATHS = existsSync('/proc/self/fd')

export class SyncDirectory implements Disposable {
  readonly #fd: number
  readonly #path: string

  private constructor(fd: number, path: string) {
    this.#fd = fd
    this.#path = path
  }

  /** All segments of `path` are trusted and may be links. Undefined if there is no directory. */
  static open(path: string): SyncDirectory | undefined {
    return SyncDirectory.#openAt(path, path, O_RDONLY | O_DIRECTORY)
  }

  /** Undefined if no directory has this name; symbolic links do not count. */
  openDirectory(name: string): SyncDirectory | undefined {
    return SyncDirectory.#openAt(this.#address(name), join(this.#path, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  }

  static #openAt(address: string, path: string, flags: number): SyncDirectory | undefined {
    const fd = unlessDiskFault(() => openSync(address, flags))
    return fd === undefined ? undefined : new SyncDirectory(fd, path)
  }

  /** Undefined if the disk fails. */
  stat(): Stats | undefined {
    return unlessDiskFault(() => fstatSync(this.#fd))
  }

  /** Its current path according to the kernel. */
  realPath(): string {
    return HAS_DESCRIPTOR_PATHS ? readlinkSync(`/proc/self/fd/${this.#fd}`) : realpathSync.native(this.#path)
  }

  /** Resolves all links of a path below. Only a hint, which may be outdated at once. */
  realPathOf(path: string): string | undefined {
    return unlessDiskFault(() => realpathSync.native(this.#address(path)))
  }

  isLink(name: string): boolean {
    return this.#stat(name)?.isSymbolicLink() ?? false
  }

  /** Undefined for anything but a regular file of at most `maxBytes`. */
  readText(name: string, maxBytes: number): string | undefined {
    // Check the kind first: opening a device may have side effects.
    if (!this.#stat(name)?.isFile()) return undefined
    // O_NONBLOCK, because opening a FIFO would wait for a writer.
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
  // Read no more than the checked size: the file may grow meanwhile.
  const bytes = Buffer.allocUnsafe(opened.size)
  return bytes.toString('utf8', 0, readSync(fd, bytes))
}

function unlessDiskFault<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    if (errnoCode(error) === undefined) throw error
    return undefined
  }
}
