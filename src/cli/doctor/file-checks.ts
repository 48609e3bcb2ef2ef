// Checks of `svc doctor` for the files of an instance besides its store: missing directories, and what crashed processes left.

import { constants } from 'node:fs'
import { lstat, open, readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { securePrivateDirectories } from '../../core/groups/private-directories.ts'
import type { Layout } from '../../core/layout.ts'
import { asNote, type DoctorFinding, type DoctorFix, makeFinding } from '../../daemons/doctor/findings.ts'
import { staleProcessSockets } from '../../daemons/process/presence.ts'
import { errnoCode, refuseDisk } from '../../lib/files/atomic-file.ts'
import { Directory } from '../../lib/files/directory.ts'
import { chownTree } from '../../lib/files/directory-tree.ts'
import type { FileOwner } from '../../lib/files/owner.ts'
import type { InstanceLocation } from '../instance/instance.ts'

/** Writing a file takes less, so an older temporary file has no writer. */
const UNFINISHED_MS = 3_600_000
const UNFINISHED = /^(?:\.tmp-|\.env\.new-)[0-9a-f]{16}$/
/** A restore can take hours. */
const RESTORING_MS = 7 * 86_400_000

export function envModeFix(path: string): DoctorFix {
  return {
    detail: `set the mode of ${path} to 600`,
    isRemoval: false,
    apply: async () => {
      try {
        // The file itself: a link may lead anywhere.
        await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
        await file.chmod(0o600)
      } catch (error) {
        refuseDisk(error, 'change the mode of', path)
      }
    },
  }
}

export function privacyFix(layout: Layout, paths: readonly string[]): DoctorFix {
  return {
    detail: `let only the owner enter ${paths.join(' and ')}`,
    isRemoval: false,
    apply: () => securePrivateDirectories(layout),
  }
}

export async function checkDirectories(layout: Layout): Promise<DoctorFinding> {
  const missing: string[] = []
  for (const path of [layout.groups, layout.chats, layout.files, layout.logs])
    if (!(await exists(path))) missing.push(path)
  const faults = missing.map((path) => `${path} does not exist`)
  const finding = makeFinding('directories', faults, 'all exist', `mkdir -m 700 ${missing.join(' ')}`)
  if (missing.length === 0) return finding
  const fix = {
    detail: `create ${missing.join(' and ')}`,
    isRemoval: false,
    apply: () => securePrivateDirectories(layout),
  }
  return { ...finding, fix }
}

/** Files that no process uses any more. They do no harm, so they are a note. */
export async function checkLeftoverFiles({ name, layout }: InstanceLocation, now: number): Promise<DoctorFinding> {
  const { root, ipc, daemonEnvs, lastBackup } = layout
  const restoring = new RegExp(`^\\.svc_${name}\\.restoring-`)
  const found = [
    ...(await listOlder(root, UNFINISHED, now - UNFINISHED_MS)),
    ...(await listOlder(dirname(lastBackup), UNFINISHED, now - UNFINISHED_MS)),
    ...(await listOlder(daemonEnvs, UNFINISHED, now - UNFINISHED_MS)),
    ...(await listOlder(dirname(root), restoring, now - RESTORING_MS)),
    ...((await exists(ipc)) ? await staleProcessSockets(ipc) : []),
  ]
  const faults = found.map((path) => `${path} was left by a process that ended`)
  const finding = asNote(
    makeFinding('files', faults, 'nothing was left by crashed processes', `rm -r ${found.join(' ')}`),
  )
  if (found.length === 0) return finding
  const fix = { detail: `remove ${found.join(' and ')}`, isRemoval: true, apply: () => removeAll(found) }
  return { ...finding, fix }
}

/** What root has put into an instance of an ordinary user, who then cannot write it. Workspaces have a check of their own. */
export async function checkRootFiles({ name, layout: { root, groups } }: InstanceLocation): Promise<DoctorFinding> {
  const owner = await stat(root)
  const found = owner.uid === 0 ? [] : await listRootFiles(root, (path) => path !== groups)
  const finding = makeFinding(
    'root files',
    found.map((path) => `${path} belongs to root, and the instance to uid ${owner.uid}`),
    'root has left none',
    `sudo svc doctor ${name} --fix`,
  )
  if (found.length === 0 || process.getuid?.() !== 0) return finding
  const detail = `give ${found.join(' and ')} to uid ${owner.uid}`
  return { ...finding, fix: { detail, isRemoval: false, apply: () => giveTo(owner, found) } }
}

/** Down to the directories of folders and chats. */
async function listRootFiles(directory: string, isEntered: (path: string) => boolean, depth = 3): Promise<string[]> {
  const entries = depth === 0 ? [] : await readdir(directory, { withFileTypes: true }).catch(() => [])
  const found = entries.map(async (entry) => {
    const path = join(directory, entry.name)
    const uid = await lstat(path).then(
      (stats) => stats.uid,
      () => undefined,
    )
    if (uid === 0) return [path]
    return entry.isDirectory() && isEntered(path) ? listRootFiles(path, isEntered, depth - 1) : []
  })
  return (await Promise.all(found)).flat().sort()
}

async function giveTo(owner: FileOwner, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    await using parent = await Directory.open(dirname(path))
    if ((await parent?.kindOf(basename(path))) !== 'directory') {
      // A file with a second name may be one from elsewhere.
      await parent?.setOwnerOf(basename(path), owner, ({ nlink }) => nlink === 1)
      continue
    }
    await using top = await parent?.openDirectory(basename(path))
    if (top) await chownTree(top, { owner, mayCopy: () => false })
  }
}

async function listOlder(directory: string, pattern: RegExp, before: number): Promise<string[]> {
  const names = await readdir(directory).catch((): string[] => [])
  const paths = names.filter((name) => pattern.test(name)).map((name) => join(directory, name))
  const isOlder = async (path: string): Promise<boolean> =>
    lstat(path).then(
      ({ mtimeMs }) => mtimeMs < before,
      () => false,
    )
  const older: string[] = []
  for (const path of paths) if (await isOlder(path)) older.push(path)
  return older
}

async function removeAll(paths: readonly string[]): Promise<void> {
  for (const path of paths)
    await rm(path, { recursive: true, force: true }).catch((error) => refuseDisk(error, 'remove', path))
}

function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    (error) => errnoCode(error) !== 'ENOENT',
  )
}
