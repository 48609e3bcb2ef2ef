// An open directory, for places where somebody else may rename things or put symbolic links at any moment. Its entries are
// addressed below the open descriptor (/proc/self/fd/<n>/<name>), one name at a time and never through a link, so that no
// operation can end up outside of the directory that was opened.
import { randomBytes } from 'node:crypto'
import { constants, type Dirent, existsSync, type Stats } from 'node:fs'
import {
  type FileHandle,
  lchown,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  realpath,
  rename,
  rmdir,
  unlink,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { diskCode, refuseDisk } from './atomic-file.ts'
import { refuse } from './refusal.ts'

const { O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants

const HAS_DESCRIPTOR_PATHS = existsSync('/proc/self/fd')

export interface FileOwner {
  readonly uid: number
  readonly gid: number
}

export interface DirectoryOptions {
  /** Owner of everything that is created below; the process's own user unless set. */
  readonly owner?: FileOwner | undefined
  /** Whether the last segment of the opened path may be a symbolic link. */
  readonly follow?: boolean | undefined
  /**
   * Addresses entries by their path. This is the only way on systems without /proc (macOS): links are still refused, but a
   * directory above that is exchanged between two steps is not noticed.
   */
  readonly byPath?: boolean | undefined
}

export interface FoundFile {
  readonly data: Buffer
  readonly mode: number
}

export type EntryKind = 'file' | 'directory' | 'link' | 'other'

export class Directory implements AsyncDisposable {
  /** The path it was opened by, for messages: the directory may have moved since. */
  readonly path: string
  readonly #handle: FileHandle
  readonly #options: DirectoryOptions

  private constructor(handle: FileHandle, path: string, options: DirectoryOptions) {
    this.path = path
    this.#handle = handle
    this.#options = options
  }

  /** Undefined where nothing has this name. Every segment but the last is trusted. */
  static async open(path: string, options: DirectoryOptions = {}): Promise<Directory | undefined> {
    try {
      return await Directory.#openAt(path, path, { byPath: !HAS_DESCRIPTOR_PATHS, ...options })
    } catch (error) {
      if (diskCode(error) === 'ENOENT') return undefined
      return refuseKind(error, 'read', path)
    }
  }

  /** Opens it, and makes it where it is missing, with the directories above. */
  static async make(path: string, mode: number, options: DirectoryOptions = {}): Promise<Directory> {
    try {
      // Directories above get the usual mode: they are not what was asked for.
      await mkdir(join(path, '..'), { recursive: true })
      return await Directory.#makeAt(path, path, mode, { byPath: !HAS_DESCRIPTOR_PATHS, ...options })
    } catch (error) {
      return refuseKind(error, 'make', path)
    }
  }

  static async #openAt(address: string, path: string, options: DirectoryOptions): Promise<Directory> {
    const flags = O_RDONLY | O_DIRECTORY | (options.follow ? 0 : O_NOFOLLOW)
    return new Directory(await open(address, flags), path, options)
  }

  static async #makeAt(address: string, path: string, mode: number, options: DirectoryOptions): Promise<Directory> {
    const isNew = await isMadeAt(address, mode)
    const directory = await Directory.#openAt(address, path, options)
    try {
      if (isNew && options.owner) await directory.setOwner(options.owner)
      return directory
    } catch (error) {
      await directory.close()
      throw error
    }
  }

  get fd(): number {
    return this.#handle.fd
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** The same directory with a descriptor of its own. */
  async reopen(): Promise<Directory> {
    const self = this.#options.byPath ? this.path : `/proc/self/fd/${this.fd}/.`
    return Directory.#openAt(self, this.path, this.#options).catch((error) => refuseDisk(error, 'read', this.path))
  }

  stat(): Promise<Stats> {
    return this.#handle.stat()
  }

  async setMode(mode: number): Promise<void> {
    await this.#handle.chmod(mode).catch((error) => refuseDisk(error, 'change the mode of', this.path))
  }

  async setOwner({ uid, gid }: FileOwner): Promise<void> {
    await this.#handle.chown(uid, gid).catch((error) => refuseDisk(error, 'change the owner of', this.path))
  }

  /** Where the kernel says that it is now. */
  async realPath(): Promise<string> {
    return this.#options.byPath ? realpath(this.path) : readlink(`/proc/self/fd/${this.fd}`)
  }

  /** Where a path below leads, with all its links: no more than a hint, which may be outdated at once. */
  async realPathOf(path: string): Promise<string> {
    return realpath(this.#options.byPath ? join(this.path, path) : `/proc/self/fd/${this.fd}/${path}`)
  }

  /** What has this name, itself and not what a link leads to; undefined where nothing has it. */
  async kindOf(name: string): Promise<EntryKind | undefined> {
    try {
      return kindOfEntry(await lstat(this.#address(name)))
    } catch (error) {
      return diskCode(error) === 'ENOENT' ? undefined : refuseDisk(error, 'read', this.#named(name))
    }
  }

  /** Where a link leads, as it is written; undefined where no link has this name. */
  async readLink(name: string): Promise<string | undefined> {
    try {
      return await readlink(this.#address(name))
    } catch (error) {
      const code = diskCode(error)
      return code === 'ENOENT' || code === 'EINVAL' ? undefined : refuseDisk(error, 'read', this.#named(name))
    }
  }

  /** Undefined where no directory has this name; a symbolic link is none. */
  async openDirectory(name: string): Promise<Directory | undefined> {
    try {
      return await Directory.#openAt(this.#address(name), this.#named(name), { ...this.#options, follow: false })
    } catch (error) {
      if (isOtherKind(error) || diskCode(error) === 'ENOENT') return undefined
      return refuseDisk(error, 'read', this.#named(name))
    }
  }

  /** Opens a directory below, by segments with slashes between; undefined as for `openDirectory`. */
  async openPath(path: string): Promise<Directory | undefined> {
    let at: Directory | undefined = await this.reopen()
    for (const name of segmentsOf(path)) {
      await using above: Directory | undefined = at
      at = await above?.openDirectory(name)
    }
    return at
  }

  /** The same, and makes those that are missing. */
  async makePath(path: string, mode = 0o755): Promise<Directory> {
    let at = await this.reopen()
    for (const name of segmentsOf(path)) {
      await using above = at
      at = await above.#makeChild(name, mode)
    }
    return at
  }

  /** Writes a file that is not there yet, and returns whether it did. A link in its place counts as there. */
  async createFile(name: string, data: string | Uint8Array, mode: number): Promise<boolean> {
    let isMade = false
    try {
      await using file = await open(this.#address(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode)
      isMade = true
      await this.#fill(file, data)
      return true
    } catch (error) {
      if (!isMade && diskCode(error) === 'EEXIST') return false
      // Half a file would count as there already the next time.
      if (isMade) await this.removeFile(name)
      return refuseDisk(error, 'write', this.#named(name))
    }
  }

  /** Replaces a file, or a link, by a file with this content. After it returns, the file survives a power cut. */
  async replaceFile(name: string, data: string | Uint8Array, mode: number): Promise<void> {
    const temporary = `.tmp-${randomBytes(8).toString('hex')}`
    try {
      await using file = await open(this.#address(temporary), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
      await this.#fill(file, data)
      // Not by the argument of open, which the umask narrows.
      await file.chmod(mode)
      await file.sync()
      await rename(this.#address(temporary), this.#address(name))
      await this.#handle.sync()
    } catch (error) {
      await this.removeFile(temporary)
      refuseDisk(error, 'write', this.#named(name))
    }
  }

  /** Opens a file to write at its end. */
  async appendFile(name: string, mode: number): Promise<FileHandle> {
    try {
      return await open(this.#address(name), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, mode)
    } catch (error) {
      return refuseDisk(error, 'write', this.#named(name))
    }
  }

  /** Opens a regular file to read. Undefined where nothing has this name; anything else is refused, unopened. */
  async openFile(name: string): Promise<FileHandle | undefined> {
    const kind = await this.kindOf(name)
    if (kind === undefined) return undefined
    // Not opened to find out: opening a device may do something.
    if (kind !== 'file') return this.#refuseFile(name, kind)
    const file = await this.#openToRead(name)
    try {
      const opened = await file?.stat()
      if (opened && !opened.isFile()) this.#refuseFile(name, kindOfEntry(opened))
      return file
    } catch (error) {
      await file?.close()
      throw error
    }
  }

  /** The bytes and the mode of a regular file of at most `maxBytes`; undefined where nothing has this name. */
  async readFile(name: string, maxBytes: number): Promise<FoundFile | undefined> {
    await using file = await this.openFile(name)
    if (!file) return undefined
    const { size, mode } = await file.stat()
    if (size > maxBytes) refuse('too_large', `cannot read ${this.#named(name)}: it is larger than ${maxBytes} bytes`)
    // By the size that was checked: the file may grow while it is read.
    const { bytesRead, buffer } = await file.read(Buffer.alloc(size), 0, size, 0)
    return { data: buffer.subarray(0, bytesRead), mode }
  }

  /** In the order of their names. */
  async entries(): Promise<Dirent[]> {
    try {
      const entries = await readdir(this.#options.byPath ? this.path : `/proc/self/fd/${this.fd}`, {
        withFileTypes: true,
      })
      return entries.sort((a, b) => (a.name < b.name ? -1 : 1))
    } catch (error) {
      return refuseDisk(error, 'read', this.path)
    }
  }

  /** Removes a file or a link; one that is not there is no fault. */
  async removeFile(name: string): Promise<void> {
    await unlink(this.#address(name)).catch((error) => {
      if (diskCode(error) !== 'ENOENT') refuseDisk(error, 'remove', this.#named(name))
    })
  }

  /** Removes an empty directory; one that is not there is no fault. */
  async removeDirectory(name: string): Promise<void> {
    await rmdir(this.#address(name)).catch((error) => {
      if (diskCode(error) !== 'ENOENT') refuseDisk(error, 'remove', this.#named(name))
    })
  }

  /** Of the entry itself, whatever kind it is; one that is not there is no fault. */
  async setOwnerOf(name: string, { uid, gid }: FileOwner): Promise<void> {
    await lchown(this.#address(name), uid, gid).catch((error) => {
      if (diskCode(error) !== 'ENOENT') refuseDisk(error, 'change the owner of', this.#named(name))
    })
  }

  /** The directory above, as long as it is the expected one: this directory may have been moved. */
  async openParent({ dev, ino }: { readonly dev: number; readonly ino: number }): Promise<Directory> {
    const path = dirname(this.path)
    const address = this.#options.byPath ? path : `/proc/self/fd/${this.fd}/..`
    const parent = await Directory.#openAt(address, path, this.#options).catch((error) =>
      refuseDisk(error, 'read', path),
    )
    const found = await parent.stat()
    if (found.dev === dev && found.ino === ino) return parent
    await parent.close()
    return refuse('conflict', `${this.path} was moved while it was in use`)
  }

  #address(name: string): string {
    if (name === '' || name === '.' || name === '..' || /[/\0]/.test(name))
      refuse('invalid', `${JSON.stringify(name.slice(0, 80))} is not the name of a file`)
    return this.#options.byPath ? join(this.path, name) : `/proc/self/fd/${this.fd}/${name}`
  }

  #named(name: string): string {
    return join(this.path, name)
  }

  async #makeChild(name: string, mode: number): Promise<Directory> {
    const path = this.#named(name)
    try {
      return await Directory.#makeAt(this.#address(name), path, mode, { ...this.#options, follow: false })
    } catch (error) {
      return refuseKind(error, 'make', path)
    }
  }

  async #fill(file: FileHandle, data: string | Uint8Array): Promise<void> {
    await file.writeFile(data)
    const { owner } = this.#options
    if (owner) await file.chown(owner.uid, owner.gid)
  }

  async #openToRead(name: string): Promise<FileHandle | undefined> {
    try {
      // O_NONBLOCK: opening a FIFO would wait for a writer.
      return await open(this.#address(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
    } catch (error) {
      const code = diskCode(error)
      if (code === 'ENOENT') return undefined
      return code === 'ELOOP' ? this.#refuseFile(name, 'link') : refuseDisk(error, 'read', this.#named(name))
    }
  }

  #refuseFile(name: string, kind: EntryKind): never {
    return refuse(
      'invalid',
      `cannot read ${this.#named(name)}: it is ${kind === 'link' ? 'a symbolic link' : 'not a regular file'}`,
    )
  }
}

/** "." is the directory itself, as `dirname` calls it. */
function segmentsOf(path: string): string[] {
  return path === '.' ? [] : path.split('/').filter(Boolean)
}

/** Whether it was made; false where something has this name already. */
async function isMadeAt(address: string, mode: number): Promise<boolean> {
  try {
    await mkdir(address, mode)
    return true
  } catch (error) {
    if (diskCode(error) === 'EEXIST') return false
    throw error
  }
}

/** With O_NOFOLLOW and O_DIRECTORY Linux reports ENOTDIR for a link, other systems ELOOP. */
function isOtherKind(error: unknown): boolean {
  const code = diskCode(error)
  return code === 'ENOTDIR' || code === 'ELOOP'
}

function refuseKind(error: unknown, doing: 'read' | 'make', path: string): never {
  // A dangling link is there for mkdir, and not there for open.
  if (isOtherKind(error) || (doing === 'make' && diskCode(error) === 'ENOENT'))
    refuse('conflict', `cannot ${doing} the directory ${path}: something else is there`)
  return refuseDisk(error, doing, path)
}

export function kindOfEntry(entry: Stats | Dirent): EntryKind {
  if (entry.isFile()) return 'file'
  if (entry.isDirectory()) return 'directory'
  return entry.isSymbolicLink() ? 'link' : 'other'
}
