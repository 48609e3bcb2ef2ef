// Copies of files that are about to be sent. What an agent may still change, or put a symbolic link in the place of, is
// never opened by a channel: it is given the copy, which lies where agents do not write.
import { createWriteStream } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Clock, type Random, uuidv7 } from '../../lib/clock.ts'
import { refuseDisk } from '../../lib/files/atomic-file.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Layout } from '../layout.ts'

/** The largest file that is sent. */
export const FILE_BYTES_MAX = 50 * 1024 * 1024
/** The directory of the copies, below the data directory. */
const PLACE = 'outbox'
/** Longer than the outbox tries. What is older was left behind by a process that died. */
const KEPT_MS = 2 * 24 * 3_600_000

export interface StagingContext {
  readonly clock: Clock
  readonly random: Random
}

/**
 * The path of the copy below the data directory, so that it still holds where the instance is restored or moved to. `name` only gives it
 * an ending that tells its kind.
 */
export async function stageFile(
  layout: Layout,
  world: StagingContext,
  file: FileHandle,
  name: string,
): Promise<string> {
  const dir = dirOf(layout)
  await mkdir(dir, { recursive: true, mode: 0o700 }).catch((error) => refuseDisk(error, 'make', dir))
  await sweep(dir, world.clock.now() - KEPT_MS)
  const copy = `${uuidv7(world.clock, world.random)}${/\.[A-Za-z0-9]{1,10}$/.exec(name)?.[0] ?? ''}`
  const path = join(dir, copy)
  try {
    const source = file.createReadStream({ autoClose: false, start: 0 })
    await pipeline(source, atMost(FILE_BYTES_MAX), createWriteStream(path, { flags: 'wx', mode: 0o600 }))
  } catch (error) {
    await rm(path, { force: true })
    refuseDisk(error, 'copy', name)
  }
  return join(PLACE, copy)
}

/** The same of a file that no agent can write to. */
export async function stageTrustedFile(layout: Layout, world: StagingContext, path: string): Promise<string> {
  await using file = await open(path).catch((error) => refuseDisk(error, 'read', basename(path)))
  return await stageFile(layout, world, file, path)
}

/** Where the copy lies now. Older rows have absolute paths, possibly of the data directory that the instance had before it was restored. */
export function stagedPath(layout: Layout, path: string): string {
  return isStaged(path) ? join(dirOf(layout), basename(path)) : path
}

/** Removes copies that were sent; any other file stays. */
export async function removeStagedFiles(layout: Layout, paths: readonly string[]): Promise<void> {
  for (const path of paths) if (isStaged(path)) await rm(stagedPath(layout, path), { force: true })
}

function isStaged(path: string): boolean {
  return basename(dirname(path)) === PLACE
}

function dirOf({ root }: Layout): string {
  return join(root, PLACE)
}

/** By the bytes that come: the file may grow while it is read. */
function atMost(max: number): Transform {
  let bytes = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      if (bytes <= max) return done(null, chunk)
      try {
        refuseSize(max)
      } catch (error) {
        done(error instanceof Error ? error : null)
      }
    },
  })
}

export function refuseSize(max: number): never {
  return refuse('too_large', `the file is larger than ${max / 1024 / 1024} MiB`)
}

/** The names begin with the time at which they were made. */
async function sweep(dir: string, before: number): Promise<void> {
  const limit = uuidv7({ now: () => before }, { bytes: (count) => new Uint8Array(count) })
  for (const name of await readdir(dir)) if (name < limit) await rm(join(dir, name), { force: true })
}
