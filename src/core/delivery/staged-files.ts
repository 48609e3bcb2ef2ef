// Staged copies of files to send. Channels open only the copy, in a directory that agents cannot write to: an agent could
// change its own file, or replace it with a symbolic link.
import { createWriteStream } from 'node:fs'
import { type FileHandle, open, readdir, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Clock, type Random, uuidv7 } from '../../lib/clock.ts'
import { makeDirectory, refuseDisk } from '../../lib/files/atomic-file.ts'
import { inheritOwner } from '../../lib/files/owner.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Layout } from '../layout.ts'

/** Largest file that can be sent. */
export const FILE_BYTES_MAX = 50 * 1024 * 1024
/** Directory of the copies, below the data directory. */
const STAGING_DIR = 'outbox'
/** Longer than the outbox retries; older copies were left by processes that died. */
const KEPT_MS = 2 * 24 * 3_600_000

interface StagingContext {
  readonly clock: Clock
  readonly random: Random
}

/**
 * Returns the path of the copy relative to the data directory, so that it stays valid after a restore or move. The copy
 * keeps the file extension of `name`.
 */
export async function stageFile(
  layout: Layout,
  { clock, random }: StagingContext,
  file: FileHandle,
  name: string,
): Promise<string> {
  const dir = dirOf(layout)
  await makeDirectory(dir, 0o700)
  await sweep(dir, clock.now() - KEPT_MS)
  const copy = `${uuidv7(clock, random)}${/\.[A-Za-z0-9]{1,10}$/.exec(name)?.[0] ?? ''}`
  const path = join(dir, copy)
  try {
    const source = file.createReadStream({ autoClose: false, start: 0 })
    await pipeline(source, atMost(FILE_BYTES_MAX), createWriteStream(path, { flags: 'wx', mode: 0o600 }))
    inheritOwner(path)
  } catch (error) {
    await rm(path, { force: true })
    refuseDisk(error, 'copy', name)
  }
  return join(STAGING_DIR, copy)
}

/** Stages a file that no agent can write to. */
export async function stageTrustedFile(layout: Layout, context: StagingContext, path: string): Promise<string> {
  await using file = await openTrustedFile(path)
  return await stageFile(layout, context, file, path)
}

/** Opens a file that no agent can write to. */
export function openTrustedFile(path: string): Promise<FileHandle> {
  return open(path).catch((error) => refuseDisk(error, 'read', basename(path)))
}

/** The absolute path of a copy. Old rows have absolute paths, possibly below a data directory from before a restore. */
export function stagedPath(layout: Layout, path: string): string {
  return isStaged(path) ? join(dirOf(layout), basename(path)) : path
}

/** Removes staged copies and skips all other paths. */
export async function removeStagedFiles(layout: Layout, paths: readonly string[]): Promise<void> {
  for (const path of paths) if (isStaged(path)) await rm(stagedPath(layout, path), { force: true })
}

function isStaged(path: string): boolean {
  return basename(dirname(path)) === STAGING_DIR
}

function dirOf({ root }: Layout): string {
  return join(root, STAGING_DIR)
}

/** Counts the bytes read, because the file may grow while it is copied. */
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

/** Names are UUIDv7, so they sort by creation time. */
async function sweep(dir: string, before: number): Promise<void> {
  const limit = uuidv7({ now: () => before }, { bytes: (count) => new Uint8Array(count) })
  for (const name of await readdir(dir)) if (name < limit) await rm(join(dir, name), { force: true })
}
