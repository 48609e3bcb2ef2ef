// The work file `work.md` in a group's workspace: the agent's current work. The agent may also edit it directly.
import { refuse } from '../../lib/refusal.ts'
import type { Layout } from '../layout.ts'
import { setUpFolder } from './products.ts'
import { openHome, withAgentPaths } from './workspace-home.ts'

const NAME = 'work.md'
export const WORK_MAX_BYTES = 256 * 1024

interface WorkFile {
  readonly content: string
  readonly exists: boolean
}

/** Does not follow symbolic links. */
export async function readWork(layout: Layout, folder: string): Promise<WorkFile> {
  await using home = await openHome(layout, folder)
  if (!home) return { content: '', exists: false }
  const found = await withAgentPaths(home, () => home.readFile(NAME, WORK_MAX_BYTES))
  return { content: found?.data.toString() ?? '', exists: found !== undefined }
}

/** Atomic. Replaces a symbolic link instead of following it. */
export async function writeWork(layout: Layout, folder: string, content: string): Promise<void> {
  await using home = (await openHome(layout, folder)) ?? (await createHome(layout, folder))
  await withAgentPaths(home, () => home.replaceFile(NAME, content, 0o644))
}

async function createHome(layout: Layout, folder: string) {
  await setUpFolder(layout, folder)
  return (await openHome(layout, folder)) ?? refuse('unavailable', `${folder} has no workspace`)
}
