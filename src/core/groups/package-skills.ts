// Skills of packages. They are in <data>/skills, and every workspace has a copy. The file `.package` in the directory of a
// skill names its package: a skill of the same name without it is the agent's own and stays as it is.
import { hash } from 'node:crypto'
import { basename, dirname, join } from 'node:path'
import { Directory, isTemporaryName, kindOfEntry } from '../../lib/files/directory.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Layout } from '../layout.ts'

export const PACKAGE_MARK = '.package'
export const PACKAGE_FILE_MAX_BYTES = 4 * 1024 * 1024
/** Of directories below a skill's. */
const DEPTH_MAX = 16
const WORKSPACE_SKILLS = join('.claude', 'skills')

export function packageMark(name: string): string {
  return `${name}\n`
}

/** `sha256:<hex>` of a file, as recorded for installed packages. */
export function contentHash(data: string | Uint8Array): string {
  return `sha256:${hash('sha256', data, 'hex')}`
}

/** Hashes by path below the data directory. */
export type AssetHashes = Readonly<Record<string, string>>

/** Copies the skills of all packages into a workspace, without the files that exist. */
export async function copyPackageSkills({ packageSkills }: Layout, home: Directory): Promise<void> {
  await using all = await Directory.open(packageSkills, { follow: true })
  for (const { name } of (await all?.entries()) ?? []) {
    await using skill = await all?.openDirectory(name)
    const mark = await skill?.readFile(PACKAGE_MARK, PACKAGE_FILE_MAX_BYTES)
    if (!skill || !mark) continue
    await using parent = await home.makePath(WORKSPACE_SKILLS)
    if ((await ownerOf(parent, name, mark.data.toString())) !== 'other') await copySkill(skill, parent, name)
  }
}

/** Whether an entry is a copy of this package. An interrupted copy may be empty. */
async function ownerOf(parent: Directory, name: string, mark: string): Promise<'none' | 'package' | 'other'> {
  if ((await parent.kindOf(name)) === undefined) return 'none'
  await using found = await parent.openDirectory(name)
  if (!found) return 'other'
  if ((await readOrUndefined(found, PACKAGE_MARK))?.toString() === mark) return 'package'
  const entries = await found.entries()
  return entries.every((entry) => isTemporaryName(entry.name)) ? 'package' : 'other'
}

async function copySkill(from: Directory, parent: Directory, name: string): Promise<void> {
  const mark = await from.readFile(PACKAGE_MARK, PACKAGE_FILE_MAX_BYTES)
  await using copy = await parent.makePath(name)
  // First, so that an interrupted copy is known as one.
  if (mark) await copy.createWholeFile(PACKAGE_MARK, mark.data, 0o644)
  await copyMissingFiles(from, copy, DEPTH_MAX)
}

async function copyMissingFiles(from: Directory, to: Directory, depthLeft: number): Promise<void> {
  for (const { name } of await to.entries()) if (isTemporaryName(name)) await to.removeFile(name)
  for (const entry of await from.entries()) {
    const kind = kindOfEntry(entry)
    if (kind === 'file') {
      const found = await from.readFile(entry.name, PACKAGE_FILE_MAX_BYTES)
      if (found) await to.createWholeFile(entry.name, found.data, found.mode & 0o100 ? 0o755 : 0o644)
    } else if (kind === 'directory' && depthLeft > 0) {
      await using child = await from.openDirectory(entry.name)
      if (!child) continue
      await using target = await to.makePath(entry.name)
      await copyMissingFiles(child, target, depthLeft - 1)
    }
  }
}

export interface SkillCopyChange {
  /** The package. */
  readonly name: string
  /** Recorded before the change. Empty if it was not installed. */
  readonly before: AssetHashes
  /** Recorded now. Empty if it was removed. */
  readonly after: AssetHashes
}

/**
 * Brings the copies in one workspace up to date with <data>/skills. Safe to repeat. Returns the paths that it leaves alone:
 * files that the agent has changed, and skills of its own.
 */
export async function updateSkillCopies(
  { packageSkills }: Layout,
  home: Directory,
  { name, before, after }: SkillCopyChange,
): Promise<string[]> {
  const kept: string[] = []
  const now = skillsOf(after)
  await using parent = await home.openPath(WORKSPACE_SKILLS)
  for (const skill of new Set([...skillsOf(before), ...now])) {
    const owner = parent ? await ownerOf(parent, skill, packageMark(name)) : 'none'
    if (owner === 'other') {
      if (now.has(skill)) kept.push(join(WORKSPACE_SKILLS, skill))
      continue
    }
    await using existing = await parent?.openDirectory(skill)
    const change = { old: filesOf(before, skill), now: filesOf(after, skill) }
    if (existing) {
      for (const path of await removeOutdated(existing, change)) kept.push(join(WORKSPACE_SKILLS, skill, path))
      await removeEmptyDirectories(existing, change.old.keys())
    }
    if (now.has(skill)) {
      await using from = await Directory.open(join(packageSkills, skill))
      await using target = await home.makePath(WORKSPACE_SKILLS)
      if (from) await copySkill(from, target, skill)
    } else if (parent && existing) {
      // Last, so that an interrupted removal is known as one.
      await existing.removeFile(PACKAGE_MARK)
      await removeIfEmpty(parent, skill)
    }
  }
  return kept
}

function skillsOf(hashes: AssetHashes): Set<string> {
  return new Set(Object.keys(hashes).flatMap((path) => /^skills\/([^/]+)\//.exec(path)?.[1] ?? []))
}

/** Paths below the skill's directory, without the mark. */
function filesOf(hashes: AssetHashes, skill: string): Map<string, string> {
  const prefix = `skills/${skill}/`
  const files = Object.entries(hashes).filter(([path]) => path.startsWith(prefix))
  return new Map(
    files.map(([path, hash]) => [path.slice(prefix.length), hash] as const).filter(([path]) => path !== PACKAGE_MARK),
  )
}

/** Removes copies that are outdated, so that they are copied again. Returns those that the agent has changed. */
async function removeOutdated(
  skill: Directory,
  { old, now }: { readonly old: ReadonlyMap<string, string>; readonly now: ReadonlyMap<string, string> },
): Promise<string[]> {
  const kept: string[] = []
  for (const [path, recorded] of old) {
    await using parent = await skill.openPath(dirname(path))
    const file = basename(path)
    if ((await parent?.kindOf(file)) === undefined) continue
    const data = parent && (await readOrUndefined(parent, file))
    const found = data && contentHash(data)
    if (found === now.get(path) && found !== undefined) continue
    if (found === recorded) await parent?.removeFile(file)
    else kept.push(path)
  }
  return kept
}

/** Undefined for what is not a regular file of the allowed size: agents can put anything there. */
async function readOrUndefined(directory: Directory, name: string): Promise<Buffer | undefined> {
  try {
    return (await directory.readFile(name, PACKAGE_FILE_MAX_BYTES))?.data
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

async function removeEmptyDirectories(top: Directory, paths: Iterable<string>): Promise<void> {
  for (const path of parentDirectories(paths)) {
    await using parent = await top.openPath(dirname(path))
    if (parent) await removeIfEmpty(parent, basename(path))
  }
}

/** All directories above the paths, the deepest first. */
export function parentDirectories(paths: Iterable<string>): string[] {
  const found = new Set<string>()
  for (const path of paths) for (let at = dirname(path); at !== '.'; at = dirname(at)) found.add(at)
  return [...found].sort((a, b) => b.split('/').length - a.split('/').length || (a < b ? -1 : 1))
}

async function removeIfEmpty(parent: Directory, name: string): Promise<void> {
  try {
    await parent.removeDirectory(name)
  } catch (error) {
    // It has files of the agent, or is not a directory any more.
    if (!(error instanceof Refusal)) throw error
  }
}
