// The texts of small files of a workspace, read synchronously: the start of a turn waits for them, and a thread pool takes far
// longer than the few system calls. Judged as by `openInWorkspace`.
import type { SyncDirectory } from '../lib/directory-sync.ts'
import { Refusal } from '../lib/refusal.ts'
import { openHomeSync } from './home.ts'
import type { Layout } from './layout.ts'
import { isBlocked, segmentsInside } from './workspace.ts'

/** Of each of these names; undefined where there is no plain file, or none of at most so many bytes. */
export function workspaceTexts(
  layout: Layout,
  folder: string,
  names: readonly string[],
  maxBytes: number,
): (string | undefined)[] {
  using home = openHomeSync(layout, folder)
  return names.map((name) => (home ? textIn(home, name, maxBytes) : undefined))
}

function textIn(home: SyncDirectory, name: string, maxBytes: number): string | undefined {
  // Almost always: a plain file directly in the workspace.
  if (!name.includes('/') && !home.isLink(name)) return isBlocked([name]) ? undefined : home.readText(name, maxBytes)
  const segments = resolve(home, name)
  const file = segments?.pop()
  if (segments === undefined || file === undefined) return undefined
  using directory = openBelow(home, segments)
  return (directory ?? (segments.length === 0 ? home : undefined))?.readText(file, maxBytes)
}

/** Where the name leads within the workspace, without links; undefined where that is nowhere. */
function resolve(home: SyncDirectory, name: string): string[] | undefined {
  const real = home.realPathOf(name)
  if (real === undefined) return undefined
  try {
    return segmentsInside(home.realPath(), real, name)
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

function openBelow(home: SyncDirectory, segments: readonly string[]): SyncDirectory | undefined {
  let at: SyncDirectory | undefined
  for (const [index, name] of segments.entries()) {
    using above = at
    at = (index === 0 ? home : above)?.openDirectory(name)
  }
  return at
}
