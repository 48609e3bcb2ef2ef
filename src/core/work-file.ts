// The work file of a group: what its agent is at. It lies in the workspace, where the agent may also write it by hand.
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { diskCode, refuseDisk, writeAtomic } from '../lib/atomic-file.ts'
import { refuse } from '../lib/refusal.ts'
import { inHome, realHome } from './home.ts'
import type { Layout } from './layout.ts'
import { setUpFolder } from './products.ts'

const NAME = 'work.md'
export const WORK_MAX_BYTES = 256 * 1024

export interface WorkFile {
  readonly content: string
  readonly exists: boolean
}

/** A link is not followed: what it leads to is not the agent's. */
export async function readWork(layout: Layout, folder: string): Promise<WorkFile> {
  const home = await realHome(layout, folder)
  if (home === undefined) return { content: '', exists: false }
  return inHome(home, async () => {
    const bytes = await read(join(home, NAME))
    return { content: bytes?.toString() ?? '', exists: bytes !== undefined }
  })
}

async function read(path: string): Promise<Buffer | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants
  try {
    await using file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
    if (!(await file.stat()).isFile()) refuse('invalid', `cannot read ${path}: it is not a regular file`)
    const { bytesRead, buffer } = await file.read(Buffer.alloc(WORK_MAX_BYTES + 1), 0, WORK_MAX_BYTES + 1, 0)
    if (bytesRead > WORK_MAX_BYTES)
      refuse('too_large', `cannot read ${path}: it is larger than ${WORK_MAX_BYTES} bytes`)
    return buffer.subarray(0, bytesRead)
  } catch (error) {
    const code = diskCode(error)
    if (code === 'ENOENT') return undefined
    if (code === 'ELOOP') refuse('invalid', `cannot read ${path}: it is a symbolic link`)
    return refuseDisk(error, 'read', path)
  }
}

/** Whole or not at all. A link in its place is replaced, not followed. */
export async function writeWork(layout: Layout, folder: string, content: string): Promise<void> {
  if ((await realHome(layout, folder)) === undefined) await setUpFolder(layout, folder)
  const home = (await realHome(layout, folder)) ?? refuse('unavailable', `${folder} has no workspace`)
  await inHome(home, () => writeAtomic(join(home, NAME), content, 0o644))
}
