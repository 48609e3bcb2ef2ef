// The work file of a group: what its agent is at. It lies in the workspace, where the agent may also write it by hand.
import { refuse } from '../lib/refusal.ts'
import { inHome, openHome } from './home.ts'
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
  await using home = await openHome(layout, folder)
  if (!home) return { content: '', exists: false }
  const found = await inHome(home, () => home.readFile(NAME, WORK_MAX_BYTES))
  return { content: found?.data.toString() ?? '', exists: found !== undefined }
}

/** Whole or not at all. A link in its place is replaced, not followed. */
export async function writeWork(layout: Layout, folder: string, content: string): Promise<void> {
  await using home = (await openHome(layout, folder)) ?? (await makeAndOpen(layout, folder))
  await inHome(home, () => home.replaceFile(NAME, content, 0o644))
}

async function makeAndOpen(layout: Layout, folder: string) {
  await setUpFolder(layout, folder)
  return (await openHome(layout, folder)) ?? refuse('unavailable', `${folder} has no workspace`)
}
