// A change of a package's files that survives a kill at any point. New files are staged in <data>/packages/<name>, then a
// journal is written, then the rows are committed, and then the files are moved into place. The record in the store decides
// what to do with a journal that is found later: if it is the one that the change would write, the change is completed,
// otherwise it is undone. Agents cannot write in any of these directories.
import { lstat, open, readdir, rename, rm, rmdir, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import {
  type AssetHashes,
  contentHash,
  PACKAGE_FILE_MAX_BYTES,
  parentDirectories,
} from '../../core/groups/package-skills.ts'
import type { Layout } from '../../core/layout.ts'
import {
  errnoCode,
  makeDirectory,
  readFileBytes,
  readText,
  refuseDisk,
  writeAtomic,
} from '../../lib/files/atomic-file.ts'
import { inheritOwner } from '../../lib/files/owner.ts'
import { Refusal } from '../../lib/refusal.ts'
import { parseJson } from '../../lib/text/json.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import type { PackageFile } from './package-tree.ts'

const JOURNAL_MAX_BYTES = 4 * 1024 * 1024
const JOURNAL = 'journal.json'
const STAGED = 'new'

const PackageState = z.strictObject({ revision: z.string(), hashes: z.record(z.string(), z.string()) })

const Journal = z.strictObject({
  name: z.string(),
  /** The record before the change. Absent: it was not installed. */
  before: PackageState.optional(),
  /** The record after the change. Absent: it was removed. */
  after: PackageState.optional(),
  /** Whether to replace or remove files that were changed since. */
  force: z.boolean(),
})

export type PackageJournal = z.output<typeof Journal>
export type PackageState = z.output<typeof PackageState>

export function hashesOf(state: PackageState | undefined): AssetHashes {
  return state?.hashes ?? {}
}

export async function stageChange(
  { packageChanges }: Layout,
  journal: PackageJournal,
  assets: ReadonlyMap<string, PackageFile>,
): Promise<void> {
  const top = join(packageChanges, journal.name)
  await removeAll(top)
  try {
    await makeDirectory(join(top, STAGED), 0o700)
    for (const [path, file] of assets) await writeStaged(join(top, STAGED, path), file)
    await writeAtomic(join(top, JOURNAL), JSON.stringify(journal), 0o600)
  } catch (error) {
    // The disk may be full; without a journal nothing refers to these files.
    await discardChange({ packageChanges }, journal.name)
    throw error
  }
}

async function writeStaged(path: string, { data, isExecutable }: PackageFile): Promise<void> {
  await makeDirectory(dirname(path), 0o700)
  try {
    await using file = await open(path, 'wx', 0o600)
    await file.writeFile(data)
    // chmod instead of open's mode, which the umask would narrow.
    await file.chmod(isExecutable ? 0o755 : 0o644)
    await file.sync()
    inheritOwner(path, file.fd)
  } catch (error) {
    refuseDisk(error, 'write', path)
  }
}

/** Changes that a kill has interrupted. Removes what was staged without a journal. */
export async function findJournals({ packageChanges }: Layout): Promise<PackageJournal[]> {
  const names = await readdir(packageChanges).catch((error) =>
    errnoCode(error) === 'ENOENT' ? [] : refuseDisk(error, 'read', packageChanges),
  )
  const found: PackageJournal[] = []
  for (const name of names.sort()) {
    const journal = await readJournal(join(packageChanges, name, JOURNAL))
    if (journal) found.push(journal)
    else await discardChange({ packageChanges }, name)
  }
  if (found.length === 0) await removeEmpty(packageChanges)
  return found
}

async function readJournal(path: string): Promise<PackageJournal | undefined> {
  try {
    return parse(Journal, parseJson(await readText(path, JOURNAL_MAX_BYTES)), path)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_found') return undefined
    throw error
  }
}

/** Moves the staged files into place and removes outdated ones. Safe to repeat. Returns the paths that it keeps. */
export async function moveFiles(layout: Layout, journal: PackageJournal): Promise<string[]> {
  const { root, packageChanges } = layout
  const [before, after] = [hashesOf(journal.before), hashesOf(journal.after)]
  const kept: string[] = []
  for (const path of Object.keys(after))
    await moveStaged(join(packageChanges, journal.name, STAGED, path), join(root, path))
  for (const [path, recorded] of Object.entries(before)) {
    if (Object.hasOwn(after, path)) continue
    const state = await compareFile(join(root, path), recorded)
    if (state === 'same' || (journal.force && state === 'changed')) await removeFile(join(root, path))
    else if (state === 'changed') kept.push(path)
  }
  const directories = parentDirectories([...Object.keys(before), ...Object.keys(after)])
  // `skills` belongs to the instance: containers mount it even if it is empty.
  for (const path of directories) if (join(root, path) !== layout.packageSkills) await removeEmpty(join(root, path))
  for (const path of [...directories, '.']) await syncIfExists(join(root, path))
  return kept
}

/** The end of a change: without a journal, nothing is left to complete. */
export async function discardChange({ packageChanges }: Pick<Layout, 'packageChanges'>, name: string): Promise<void> {
  const top = join(packageChanges, name)
  // First, because files without a journal are removed later, but a journal without files could not be completed.
  await removeFile(join(top, JOURNAL))
  await removeAll(top)
  await removeEmpty(packageChanges)
}

export async function compareFile(path: string, recorded: string): Promise<'same' | 'changed' | 'missing'> {
  try {
    if (!(await lstat(path)).isFile()) return 'changed'
    return contentHash(await readFileBytes(path, PACKAGE_FILE_MAX_BYTES)) === recorded ? 'same' : 'changed'
  } catch (error) {
    const code = errnoCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return 'missing'
    if (error instanceof Refusal && error.code === 'too_large') return 'changed'
    return refuseDisk(error, 'read', path)
  }
}

export async function isPathTaken(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return true
  } catch (error) {
    return errnoCode(error) === 'ENOENT' ? false : refuseDisk(error, 'read', path)
  }
}

async function moveStaged(from: string, to: string): Promise<void> {
  if (!(await isPathTaken(from))) return
  // Containers run as other users, so they must be able to enter it.
  await makeDirectory(dirname(to), 0o755)
  await rename(from, to).catch((error) => refuseDisk(error, 'write', to))
}

async function removeFile(path: string): Promise<void> {
  await unlink(path).catch((error) => {
    if (errnoCode(error) !== 'ENOENT') refuseDisk(error, 'remove', path)
  })
}

async function removeAll(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true }).catch((error) => refuseDisk(error, 'remove', path))
}

async function removeEmpty(path: string): Promise<void> {
  await rmdir(path).catch((error) => {
    if (!['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(errnoCode(error) ?? ''))
      refuseDisk(error, 'remove', path)
  })
}

async function syncIfExists(path: string): Promise<void> {
  try {
    await using directory = await open(path, 'r')
    await directory.sync()
  } catch (error) {
    if (errnoCode(error) !== 'ENOENT') refuseDisk(error, 'write', path)
  }
}
