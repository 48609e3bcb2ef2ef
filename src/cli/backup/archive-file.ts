// The file of a backup: compressed with zstd, and under its name only when it is whole.
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, link, lstat, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createZstdCompress, createZstdDecompress, constants as zlib } from 'node:zlib'
import { errnoCode, refuseDisk } from '../../lib/files/atomic-file.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'

/** A part of a file that has not grown for so long was left by a process that was killed. */
const STALE_MS = 3_600_000
const CHUNK_BYTES = 256 * 1024

/** Asked before the long work, and again when the file gets its name. */
export async function mustBeWritable(path: string, isForced: boolean): Promise<void> {
  const there = await lstat(path).catch((error) =>
    errnoCode(error) === 'ENOENT' ? undefined : refuseDisk(error, 'write', path),
  )
  if (!there) return
  if (!there.isFile()) refuse('invalid', `cannot write ${path}: it is not a regular file`)
  if (!isForced) refuseTaken(path)
}

function refuseTaken(path: string): never {
  return refuse('conflict', `${path} is there already; nothing was changed`, 'choose another name, or add --force')
}

/** How many bytes the file has. */
export async function writeArchive(path: string, bytes: AsyncIterable<Uint8Array>, isForced: boolean): Promise<number> {
  const partial = `${path}.partial-${randomBytes(8).toString('hex')}`
  try {
    await removeStale(path)
    await using file = await open(partial, 'wx', 0o600)
    await compress(bytes, (chunk) => file.writeFile(chunk))
    await file.sync()
    await publishFile(partial, path, isForced)
    await syncDirectory(dirname(path))
    return (await file.stat()).size
  } catch (error) {
    if (error instanceof Refusal) throw error
    return refuseDisk(error, 'write', path)
  } finally {
    await rm(partial, { force: true })
  }
}

/** To stdout or another sink that has no name; how many bytes. */
export async function streamArchive(
  write: (chunk: Uint8Array) => Promise<void>,
  bytes: AsyncIterable<Uint8Array>,
): Promise<number> {
  let length = 0
  const send = async (chunk: Uint8Array): Promise<void> => {
    length += chunk.length
    await write(chunk).catch((error) =>
      errnoCode(error) === 'EPIPE'
        ? refuse('unavailable', 'stdout was closed before the archive was whole')
        : refuseDisk(error, 'write to', 'stdout'),
    )
  }
  await compress(bytes, send)
  return length
}

async function compress(bytes: AsyncIterable<Uint8Array>, write: (chunk: Buffer) => Promise<void>): Promise<void> {
  const params = { [zlib.ZSTD_c_checksumFlag]: 1 }
  await pipeline(Readable.from(bytes), createZstdCompress({ params }), async (packed: AsyncIterable<Buffer>) => {
    for await (const chunk of packed) await write(chunk)
  })
}

async function removeStale(path: string): Promise<void> {
  const [folder, start] = [dirname(path), `${basename(path)}.partial-`]
  for (const name of await readdir(folder)) {
    if (!name.startsWith(start) || !/^[0-9a-f]{16}$/.test(name.slice(start.length))) continue
    const stats = await stat(join(folder, name)).catch(() => undefined)
    if (stats && Date.now() - stats.mtimeMs > STALE_MS) await rm(join(folder, name), { force: true })
  }
}

/** A link, unlike a rename, does not replace what another process has written meanwhile. */
async function publishFile(partial: string, path: string, isForced: boolean): Promise<void> {
  if (isForced) return rename(partial, path)
  try {
    await link(partial, path)
  } catch (error) {
    if (errnoCode(error) === 'EEXIST') refuseTaken(path)
    // Some file systems have no hard links.
    await mustBeWritable(path, false)
    await rename(partial, path)
  }
}

async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, constants.O_RDONLY)
  await directory.sync()
}

/** Opened once and read twice: what was verified is what is restored. */
export class ArchiveFile implements AsyncDisposable {
  readonly path: string
  readonly #file: FileHandle

  private constructor(path: string, file: FileHandle) {
    this.path = path
    this.#file = file
  }

  static async open(path: string): Promise<ArchiveFile> {
    try {
      const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
      if ((await file.stat()).isFile()) return new ArchiveFile(path, file)
      await file.close()
    } catch (error) {
      refuseDisk(error, 'read', path)
    }
    return refuse('invalid', `cannot read ${path}: it is not a regular file`)
  }

  /** Keeps what comes in a file without a name in this directory, so that it can be read twice: nothing of it stays, however the process ends. */
  static async spool(source: AsyncIterable<Uint8Array>, folder: string): Promise<ArchiveFile> {
    const place = join(folder, `.restoring-${randomBytes(8).toString('hex')}`)
    let file: FileHandle | undefined
    try {
      file = await open(place, 'wx+', 0o600)
      await rm(place)
      for await (const chunk of source) await file.writeFile(chunk)
      return new ArchiveFile('stdin', file)
    } catch (error) {
      await file?.close()
      return refuseDisk(error, 'keep stdin in', folder)
    }
  }

  async *bytes(): AsyncGenerator<Uint8Array> {
    const unpacking = createZstdDecompress()
    const source = Readable.from(this.#chunks())
    // What fails on either side comes out of the loop.
    source.on('error', (error) => unpacking.destroy(error))
    try {
      yield* source.pipe(unpacking)
    } catch (error) {
      const code = errnoCode(error) ?? ''
      if (code === 'Z_BUF_ERROR') refuse('invalid', `${this.path} is cut short, or empty`)
      if (code === 'ZSTD_error_prefix_unknown') refuse('invalid', `${this.path} is not a backup that svc has written`)
      if (code.startsWith('ZSTD_')) refuse('invalid', `${this.path} is damaged`)
      refuseDisk(error, 'read', this.path)
    } finally {
      source.destroy()
      unpacking.destroy()
    }
  }

  async *#chunks(): AsyncGenerator<Buffer> {
    for (let at = 0; ; ) {
      const { bytesRead, buffer } = await this.#file.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, at)
      if (bytesRead === 0) return
      at += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close()
  }
}
