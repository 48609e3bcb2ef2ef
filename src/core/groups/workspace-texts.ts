// Reads small text files of a workspace with the checks of `openWorkspaceFile`. Synchronous, because the start of a turn waits
// for them and the thread pool takes far longer than the few system calls.
import { relative, sep } from 'node:path'
import type { SyncDirectory } from '../../lib/files/directory-sync.ts'
import type { Layout } from '../layout.ts'
import { isBlockedPath } from './workspace-files.ts'
import { openHomeSync } from './workspace-home.ts'

/** One entry per name; undefined if it is not a regular file or larger than `maxBytes`. */
export function readWorkspaceTexts(
  layout: Layout,
  folder: string,
  names: readonly string[],
  maxBytes: number,
): (string | undefined)[] {
  using home = openHomeSync(layout, folder)
  return names.map((name) => (home ? readText(home, name, maxBytes) : undefined))
}

function readText(home: SyncDirectory, name: string, maxBytes: number): string | undefined {
  // The usual case: a regular file directly in the workspace.
  if (!name.includes('/') && !home.isLink(name))
    return isBlockedPath([name]) ? undefined : home.readText(name, maxBytes)
  const segments = resolvePath(home, name)
  const file = segments?.pop()
  if (segments === undefined || file === undefined) return undefined
  using directory = openBelow(home, segments)
  return (directory ?? (segments.length === 0 ? home : undefined))?.readText(file, maxBytes)
}

/** The path relative to the workspace, with links resolved; undefined if it leads outside. */
function resolvePath(home: SyncDirectory, name: string): string[] | undefined {
  const real = home.realPathOf(name)
  if (real === undefined) return undefined
  const segments = relative(home.realPath(), real).split(sep)
  return segments[0] === '' || segments[0] === '..' || isBlockedPath(segments) ? undefined : segments
}

function openBelow(home: SyncDirectory, segments: readonly string[]): SyncDirectory | undefined {
  let directory: SyncDirectory | undefined
  for (const [index, name] of segments.entries()) {
    using parent = directory
    directory = (index === 0 ? home : parent)?.openDirectory(name)
  }
  return directory
}
