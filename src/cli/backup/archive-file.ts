// Reads and writes backup files: compressed with zstd, and renamed to their final name when complete.
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, link, lstat, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createZstdCompress, createZstdDecompress, constants as zlib } from 'node:zlib'
import { errnoCode, refuseDisk } from '../../lib/files/atomic-file.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'

/** A partial file that has not changed for this long was left by a killed process. */
const STALE_MS = 3_600_000
const CHUNK_BYTES = 256 * 1024

/** Called before the backup starts, and again when a file system without hard links needs a rename. */
export async function mustBeWritable(path: string, isForced: boolean): Promise<void> {
  const stats = await lstat(path).catch((error) =>
    errnoCode(error) === 'ENOENT' ? undefined : refuseDisk(error, 'write', path),
  )
  if (!stats) return
  if (!stats.isFile()) refuse('invalid', `cannot write ${path}: it is not a regular file`)
  if (!isForced) refuseExisting(path)
}

function refuseExisting(path: string): never {
  return refuse('conflict', `${path} already exists; nothing was changed`, 'choose another name, or add --force')
}

/** Returns the size of the file in bytes. */
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

/** Writes to stdout and returns the number of bytes. */
export async function streamArchive(
  write: (chunk: Uint8Array) => Promise<void>,
  bytes: AsyncIterable<Uint8Array>,
): Promise<number> {
  let length = 0
  const send = async (chunk: Uint8Array): Promise<void> => {
    length += chunk.length
    await write(chunk).catch((error) =>
      errnoCode(error) === 'EPIPE'
        ? refuse('unavailable', 'stdout was closed before the archive was complete')
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

/** Uses a hard link, because a rename would replace a file that another process has written meanwhile. */
async function publishFile(partial: string, path: string, isForced: boolean): Promise<void> {
  if (isForced) return rename(partial, path)
  try {
    await link(partial, path)
  } catch (error) {
    if (errnoCode(error) === 'EEXIST') refuseExisting(path)
    // Some file systems have no hard links.
    await mustBeWritable(path, false)
    await rename(partial, path)
  }
}

async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, constants.O_RDONLY)
  await directory.sync()
}

/** Opened once and read twice, so that the verified bytes are the restored ones. */
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

  /** Copies `source` to an unlinked file in `folder`, so that it can be read twice and vanishes with the process. */
  static async spool(source: AsyncIterable<Uint8Array>, folder: string): Promise<ArchiveFile> {
    const path = join(folder, `.restoring-${randomBytes(8).toString('hex')}`)
    let file: FileHandle | undefined
    try {
      file = await open(path, 'wx+', 0o600)
      await rm(path)
      for await (const chunk of source) await file.writeFile(chunk)
      return new ArchiveFile('stdin', file)
    } catch (error) {
      await file?.close()
      return refuseDisk(error, 'keep stdin in', folder)
    }
  }

  async *bytes(): AsyncGenerator<Uint8Array> {
    const decompress = createZstdDecompress()
    const source = Readable.from(this.#chunks())
    // `pipe` does not forward errors of the source.
    source.on('error', (error) => decompress.destroy(error))
    try {
      yield* source.pipe(decompress)
    } catch (error) {
      const code = errnoCode(error) ?? ''
      if (code === 'Z_BUF_ERROR') refuse('invalid', `${this.path} is cut short or empty`)
      if (code === 'ZSTD_error_prefix_unknown') refuse('invalid', `${this.path} is not a backup of svc`)
      if (code.startsWith('ZSTD_')) refuse('invalid', `${this.path} is damaged`)
      refuseDisk(error, 'read', this.path)
    } finally {
      source.destroy()
      decompress.destroy()
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
