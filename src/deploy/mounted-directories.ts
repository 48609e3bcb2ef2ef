// The directories of an instance that containers mount, and their owner.
import { join } from 'node:path'
import type { Layout } from '../core/layout.ts'
import { Directory } from '../lib/files/directory.ts'
import { chownTree } from '../lib/files/directory-tree.ts'
import type { FileOwner } from '../lib/files/owner.ts'
import { MOUNTED_DIRECTORIES } from './daemon-needs.ts'

/** Files of the PostgreSQL service; its socket is for commands on this machine. */
export const POSTGRES_DIRECTORY = 'postgres'
export const POSTGRES_SOCKET_DIRECTORY = 'postgres-socket'

/** Workspaces can have millions of files; of the others, commands of root may have created some. */
const LARGE_DIRECTORIES: readonly string[] = ['groups', 'chats', 'files', 'logs', POSTGRES_DIRECTORY]

/**
 * Directories that containers mount: an engine would create a missing one for root. If root calls it, they are given to `owner`
 * with everything in them; commands of root keep working. Returns whether a directory had another owner.
 */
export async function makeMountedDirectories(
  { root }: Layout,
  owner: FileOwner | undefined,
  hasPostgres = false,
): Promise<boolean> {
  let isChanged = false
  const postgres = hasPostgres ? [POSTGRES_DIRECTORY, POSTGRES_SOCKET_DIRECTORY] : []
  for (const name of [...MOUNTED_DIRECTORIES, ...postgres]) {
    const mode = name === 'web' ? 0o755 : 0o700
    await using directory = await Directory.make(join(root, name), mode, { follow: true, owner })
    if (!owner) continue
    const isOther = (await directory.stat()).uid !== owner.uid
    isChanged ||= isOther
    if (isOther || !LARGE_DIRECTORIES.includes(name))
      await chownTree(directory, { owner, mayCopy: ({ uid }) => uid !== 0 })
  }
  return isChanged
}
