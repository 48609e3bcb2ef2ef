// An open directory in a place where others may rename entries or plant symbolic links at any time. Entries are addressed
// through the open descriptor (/proc/self/fd/<n>/<name>), one name at a time and never through a link, so no operation can
// leave the directory.
import { randomBytes } from 'node:crypto'
import { constants, type Dirent, existsSync, type Stats } from 'node:fs'
import {
  chown,
  copyFile,
  type FileHandle,
  lchown,
  link,
  lstat,
  mkdir,
  open,
  opendir,
  readdir,
  readlink,
  realpath,
  rename,
  rmdir,
  unlink,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { refuse } from '../refusal.ts'
import { errnoCode, makeDirectory, refuseDisk, syncDirectory } from './atomic-file.ts'
import { type FileOwner, inheritOwner, ownerOfNew } from './owner.ts'

const {
  COPYFILE_FICLONE,
  O_APPEND,
  O_CREAT,
  O_DIRECTORY,
  O_EXCL,
  O_NOCTTY,
  O_NOFOLLOW,
  O_NONBLOCK,
  O_RDONLY,
  O_WRONLY,
} = constants

/** Refers to an entry of any kind without opening it. Node does not name this flag of Linux. */
const O_PATH = 0o10000000

/** Names that one call of `opendir`'s reader fetches. */
const NAMES_PER_READ = 256

const HAS_DESCRIPTOR_PATHS = existsSync('/proc/self/fd')

export interface DirectoryOptions {
  /** Owner of everything created below; by default the user of this process, and for root the owner of the directory. */
  readonly owner?: FileOwner | undefined
  /** Whether the last segment of the opened path may be a symbolic link. */
  readonly follow?: boolean | undefined
  /** Whether a directory that is created survives a power cut once it is open. */
  readonly isDurable?: boolean | undefined
  /**
   * Addresses entries by path, the only way on systems without /proc (macOS). Links are still refused, but a parent directory
   * that is swapped between two steps goes unnoticed.
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

  /** Undefined if nothing has this name. All segments but the last are trusted. */
  static async open(path: string, options: DirectoryOptions = {}): Promise<Directory | undefined> {
    try {
      return await Directory.#openAt(path, path, { byPath: !HAS_DESCRIPTOR_PATHS, ...options })
    } catch (error) {
      if (errnoCode(error) === 'ENOENT') return undefined
      return refuseKind(error, 'read', path)
    }
  }

  /** Opens it; creates it and its parents if missing. */
  static async make(path: string, mode: number, options: DirectoryOptions = {}): Promise<Directory> {
    try {
      await makeDirectory(join(path, '..'), 0o777)
      return await Directory.#makeAt(path, path, mode, { byPath: !HAS_DESCRIPTOR_PATHS, ...options })
    } catch (error) {
      return refuseKind(error, 'make', path)
    }
  }

  static async #openAt(address: string, path: string, options: DirectoryOptions): Promise<Directory> {
    const flags = O_RDONLY | O_DIRECTORY | (options.follow ? 0 : O_NOFOLLOW)
    const handle = await open(address, flags)
    if (process.getuid?.() !== 0 || options.owner) return new Directory(handle, path, options)
    return new Directory(handle, path, { ...options, owner: ownerOfNew(await handle.stat()) })
  }

  static async #makeAt(address: string, path: string, mode: number, options: DirectoryOptions): Promise<Directory> {
    const isNew = await isMadeAt(address, mode)
    if (isNew && !options.owner) inheritOwner(address)
    if (isNew && options.isDurable) await syncDirectory(dirname(address))
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

  /** The same directory with its own descriptor. */
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

  /** Its current path according to the kernel. */
  async realPath(): Promise<string> {
    return this.#options.byPath ? realpath(this.path) : readlink(`/proc/self/fd/${this.fd}`)
  }

  /** The kind of the entry itself, not of a link's target; undefined if nothing has this name. */
  async kindOf(name: string): Promise<EntryKind | undefined> {
    try {
      return kindOfEntry(await lstat(this.#address(name)))
    } catch (error) {
      return errnoCode(error) === 'ENOENT' ? undefined : refuseDisk(error, 'read', this.#named(name))
    }
  }

  /** The target of a link as written; undefined if no link has this name. */
  async readLink(name: string): Promise<string | undefined> {
    try {
      return await readlink(this.#address(name))
    } catch (error) {
      const code = errnoCode(error)
      return code === 'ENOENT' || code === 'EINVAL' ? undefined : refuseDisk(error, 'read', this.#named(name))
    }
  }

  /** Undefined if no directory has this name; symbolic links do not count. */
  async openDirectory(name: string): Promise<Directory | undefined> {
    try {
      return await Directory.#openAt(this.#address(name), this.#named(name), { ...this.#options, follow: false })
    } catch (error) {
      if (isOtherKind(error) || errnoCode(error) === 'ENOENT') return undefined
      return refuseDisk(error, 'read', this.#named(name))
    }
  }

  /** Opens a directory below, by path; undefined as for `openDirectory`. */
  async openPath(path: string): Promise<Directory | undefined> {
    let at: Directory | undefined = await this.reopen()
    for (const name of segmentsOf(path)) {
      await using above: Directory | undefined = at
      at = await above?.openDirectory(name)
    }
    return at
  }

  /** Like `openPath`, and creates missing directories. */
  async makePath(path: string, mode = 0o755): Promise<Directory> {
    let at = await this.reopen()
    for (const name of segmentsOf(path)) {
      await using above = at
      at = await above.#makeChild(name, mode)
    }
    return at
  }

  /** Creates a file and returns true, or false if the name is taken, also by a link. */
  async createFile(name: string, data: string | Uint8Array, mode: number): Promise<boolean> {
    let isMade = false
    try {
      await using file = await open(this.#address(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode)
      isMade = true
      await this.#fill(file, data)
      return true
    } catch (error) {
      if (!isMade && errnoCode(error) === 'EEXIST') return false
      // Remove it: half a file would count as existing next time.
      if (isMade) await this.removeFile(name)
      return refuseDisk(error, 'write', this.#named(name))
    }
  }

  /**
   * Like `createFile`, but the name never has half of the content, not even after a kill. A kill may leave a file that
   * `isTemporaryName` recognizes.
   */
  async createWholeFile(name: string, data: string | Uint8Array, mode: number): Promise<boolean> {
    const temporary = temporaryName()
    try {
      await using file = await open(this.#address(temporary), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode)
      await this.#fill(file, data)
      await link(this.#address(temporary), this.#address(name))
      return true
    } catch (error) {
      return errnoCode(error) === 'EEXIST' ? false : refuseDisk(error, 'write', this.#named(name))
    } finally {
      await this.removeFile(temporary)
    }
  }

  /**
   * Replaces a file or link by a file with this content. When it returns, the file survives a power cut. `check` runs last
   * before the replacement and may refuse it.
   */
  async replaceFile(name: string, data: string | Uint8Array, mode: number, check?: () => Promise<void>): Promise<void> {
    const temporary = temporaryName()
    try {
      await using file = await open(this.#address(temporary), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
      await this.#fill(file, data)
      // chmod instead of open's mode, which the umask would narrow.
      await file.chmod(mode)
      await file.sync()
      await check?.()
      await rename(this.#address(temporary), this.#address(name))
      await this.#handle.sync()
    } catch (error) {
      await this.removeFile(temporary)
      refuseDisk(error, 'write', this.#named(name))
    }
  }

  /** Creates a file and opens it for writing. */
  async createOpenFile(name: string, mode: number): Promise<FileHandle> {
    try {
      const file = await open(this.#address(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode)
      await this.#giveToOwner(file)
      return file
    } catch (error) {
      return refuseDisk(error, 'write', this.#named(name))
    }
  }

  /** Moves an entry to another directory of the same file system. When it returns, the move survives a power cut. */
  async moveEntry(name: string, to: Directory, newName: string): Promise<void> {
    try {
      await rename(this.#address(name), to.#address(newName))
      await to.#handle.sync()
    } catch (error) {
      refuseDisk(error, 'move', this.#named(name))
    }
  }

  /** Gives a file another name in this directory. When it returns, both names survive a power cut. */
  async linkFile(name: string, newName: string): Promise<void> {
    try {
      await link(this.#address(name), this.#address(newName))
      await this.#handle.sync()
    } catch (error) {
      refuseDisk(error, 'link', this.#named(name))
    }
  }

  /** Opens a file for appending. */
  async appendFile(name: string, mode: number): Promise<FileHandle> {
    try {
      const file = await open(this.#address(name), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, mode)
      await this.#giveToOwner(file)
      return file
    } catch (error) {
      return refuseDisk(error, 'write', this.#named(name))
    }
  }

  /** Opens a regular file for reading. Undefined if nothing has this name; other kinds are refused without opening them. */
  async openFile(name: string): Promise<FileHandle | undefined> {
    const kind = await this.kindOf(name)
    if (kind === undefined) return undefined
    // Check the kind first: opening a device may have side effects.
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

  /** Bytes and mode of a regular file of at most `maxBytes`; undefined if nothing has this name. */
  async readFile(name: string, maxBytes: number): Promise<FoundFile | undefined> {
    await using file = await this.openFile(name)
    if (!file) return undefined
    const { size, mode } = await file.stat()
    if (size > maxBytes) refuse('too_large', `cannot read ${this.#named(name)}: it is larger than ${maxBytes} bytes`)
    // Read no more than the checked size: the file may grow meanwhile.
    const { bytesRead, buffer } = await file.read(Buffer.alloc(size), 0, size, 0)
    return { data: buffer.subarray(0, bytesRead), mode }
  }

  /** Sorted by name. */
  async entries(): Promise<Dirent[]> {
    try {
      const entries = await readdir(this.#options.byPath ? this.path : `/proc/self/fd/${this.fd}`, {
        withFileTypes: true,
      })
      return entries.sort(byName)
    } catch (error) {
      return refuseDisk(error, 'read', this.path)
    }
  }

  /** Up to `max` entries in the order of the file system, sorted by name: the cost does not grow with the directory. */
  async firstEntries(max: number): Promise<{ readonly entries: Dirent[]; readonly isCut: boolean }> {
    const entries: Dirent[] = []
    let isCut = false
    try {
      const path = this.#options.byPath ? this.path : `/proc/self/fd/${this.fd}`
      await using directory = await opendir(path, { bufferSize: NAMES_PER_READ })
      for (let entry = await directory.read(); entry && !isCut; entry = await directory.read()) {
        if (entries.length < max) entries.push(entry)
        else isCut = true
      }
    } catch (error) {
      return refuseDisk(error, 'read', this.path)
    }
    return { entries: entries.sort(byName), isCut }
  }

  /** Removes a file or link if it exists. */
  async removeFile(name: string): Promise<void> {
    await unlink(this.#address(name)).catch((error) => {
      if (errnoCode(error) !== 'ENOENT') refuseDisk(error, 'remove', this.#named(name))
    })
  }

  /** Removes an empty directory if it exists. */
  async removeDirectory(name: string): Promise<void> {
    await rmdir(this.#address(name)).catch((error) => {
      if (errnoCode(error) !== 'ENOENT') refuseDisk(error, 'remove', this.#named(name))
    })
  }

  /** Of the entry itself, whatever its kind; undefined if nothing has this name. */
  async statOf(name: string): Promise<Stats | undefined> {
    try {
      return await lstat(this.#address(name))
    } catch (error) {
      return errnoCode(error) === 'ENOENT' ? undefined : refuseDisk(error, 'read', this.#named(name))
    }
  }

  /**
   * Changes the owner of the entry itself, whatever its kind, if it exists and `mayChange` agrees. The entry that is changed is
   * the one that `mayChange` saw, even if another gets its name meanwhile. Returns false if `mayChange` did not agree.
   */
  async setOwnerOf(
    name: string,
    { uid, gid }: FileOwner,
    mayChange: (entry: Stats) => boolean = () => true,
  ): Promise<boolean> {
    try {
      if (this.#options.byPath) {
        if (!mayChange(await lstat(this.#address(name)))) return false
        await lchown(this.#address(name), uid, gid)
        return true
      }
      await using entry = await open(this.#address(name), O_PATH | O_NOFOLLOW)
      const found = await entry.stat()
      if (!mayChange(found)) return false
      if (found.uid !== uid || found.gid !== gid) await chown(`/proc/self/fd/${entry.fd}`, uid, gid)
      return true
    } catch (error) {
      return errnoCode(error) === 'ENOENT' || refuseDisk(error, 'change the owner of', this.#named(name))
    }
  }

  /** Replaces a regular file, if it exists, by a copy with another owner. Other names of the file keep the original. */
  async replaceByCopy(name: string, { uid, gid }: FileOwner): Promise<void> {
    const temporary = temporaryName()
    try {
      await using file = await this.openFile(name)
      if (!file) return
      const { mode, atime, mtime } = await file.stat()
      await using copy = await open(this.#address(temporary), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
      const target = this.#options.byPath ? this.#address(temporary) : `/proc/self/fd/${copy.fd}`
      await copyFile(this.#options.byPath ? this.#address(name) : `/proc/self/fd/${file.fd}`, target, COPYFILE_FICLONE)
      await copy.chmod(mode & 0o777)
      await copy.utimes(atime, mtime)
      await copy.chown(uid, gid)
      await rename(this.#address(temporary), this.#address(name))
    } catch (error) {
      await this.removeFile(temporary)
      refuseDisk(error, 'copy', this.#named(name))
    }
  }

  /** The parent directory, if it is the expected one: this directory may have been moved. */
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
      refuse('invalid', `${JSON.stringify(name.slice(0, 80))} is not a file name`)
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
    await this.#giveToOwner(file)
  }

  async #giveToOwner(file: FileHandle): Promise<void> {
    const { owner } = this.#options
    if (owner) await file.chown(owner.uid, owner.gid)
  }

  async #openToRead(name: string): Promise<FileHandle | undefined> {
    try {
      // O_NONBLOCK, because opening a FIFO would wait for a writer.
      return await open(this.#address(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
    } catch (error) {
      const code = errnoCode(error)
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

function byName(a: Dirent, b: Dirent): number {
  return a.name < b.name ? -1 : 1
}

function temporaryName(): string {
  return `.tmp-${randomBytes(8).toString('hex')}`
}

/** Whether a file is one that a kill during a write may leave. */
export function isTemporaryName(name: string): boolean {
  return /^\.tmp-[0-9a-f]{16}$/.test(name)
}

/** "." is the directory itself, as `dirname` returns it. */
function segmentsOf(path: string): string[] {
  return path === '.' ? [] : path.split('/').filter(Boolean)
}

/** Returns false if the name is taken. */
async function isMadeAt(address: string, mode: number): Promise<boolean> {
  try {
    await mkdir(address, mode)
    return true
  } catch (error) {
    if (errnoCode(error) === 'EEXIST') return false
    throw error
  }
}

/** With O_NOFOLLOW and O_DIRECTORY, Linux reports ENOTDIR for a link, other systems ELOOP. */
function isOtherKind(error: unknown): boolean {
  const code = errnoCode(error)
  return code === 'ENOTDIR' || code === 'ELOOP'
}

function refuseKind(error: unknown, doing: 'read' | 'make', path: string): never {
  // mkdir sees a dangling link, open does not.
  if (isOtherKind(error) || (doing === 'make' && errnoCode(error) === 'ENOENT'))
    refuse('conflict', `cannot ${doing} the directory ${path}: something else is there`)
  return refuseDisk(error, doing, path)
}

export function kindOfEntry(entry: Stats | Dirent): EntryKind {
  if (entry.isFile()) return 'file'
  if (entry.isDirectory()) return 'directory'
  return entry.isSymbolicLink() ? 'link' : 'other'
}
