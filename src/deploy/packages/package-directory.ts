// Reads a package from a directory, without following links below it.

import { PACKAGE_FILE_MAX_BYTES } from '../../core/groups/package-skills.ts'
import { Directory, kindOfEntry } from '../../lib/files/directory.ts'
import { refuse } from '../../lib/refusal.ts'
import { contentRevision, isIgnoredEntry, type PackageFile, type PackageTree, TreeLimits } from './package-tree.ts'

/** Nested directories are read only up to here, so that a deep tree is refused and not followed. */
const LEVELS_MAX = 16

/** `source` is recorded; it is not the path for bundled packages. */
export async function readPackageDirectory(path: string, source: string): Promise<PackageTree> {
  await using top = await Directory.open(path, { follow: true })
  if (!top) return refuse('not_found', `there is no directory ${path}`)
  const files = new Map<string, PackageFile>()
  await readEntries(top, '', { files, limits: new TreeLimits(source) })
  return { source, revision: contentRevision(files), files }
}

interface Collected {
  readonly files: Map<string, PackageFile>
  readonly limits: TreeLimits
}

async function readEntries(directory: Directory, above: string, collected: Collected): Promise<void> {
  const { files, limits } = collected
  for (const entry of await directory.entries()) {
    const { name } = entry
    if (above === '' && isIgnoredEntry(name)) continue
    const path = `${above}${name}`
    const kind = kindOfEntry(entry)
    if (kind === 'directory' && path.split('/').length < LEVELS_MAX) {
      await using child = await directory.openDirectory(name)
      if (child) await readEntries(child, `${path}/`, collected)
      continue
    }
    if (kind !== 'file') limits.check({ path, kind: kind === 'link' ? 'link' : 'other', size: 0 })
    const found = await directory.readFile(name, PACKAGE_FILE_MAX_BYTES)
    limits.check({ path, kind: 'file', size: found?.data.length ?? 0 })
    if (found) files.set(path, { data: found.data, isExecutable: (found.mode & 0o100) !== 0 })
  }
}
