// Who owns new files and directories. What root makes belongs to the owner of the directory that it is in, so that a command
// of root never leaves files in an instance of an ordinary user that this user cannot write.
import { closeSync, fchownSync, lchownSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

export interface FileOwner {
  readonly uid: number
  readonly gid: number
}

/** The owner that a new entry of this directory must be given; undefined if it has the right one. */
export function ownerOfNew({ uid, gid }: FileOwner): FileOwner | undefined {
  return process.getuid?.() === 0 && uid !== 0 ? { uid, gid } : undefined
}

/** For what this process has just made. `fd`: its descriptor, so that no other file can take its place. */
export function inheritOwner(path: string, fd?: number): void {
  if (process.getuid?.() !== 0) return
  const owner = ownerOfNew(statSync(dirname(path)))
  if (!owner) return
  if (fd === undefined) lchownSync(path, owner.uid, owner.gid)
  else fchownSync(fd, owner.uid, owner.gid)
}

/** Creates an empty private file, which must not exist. */
export function makeFileSync(path: string): void {
  const fd = openSync(path, 'wx', 0o600)
  try {
    inheritOwner(path, fd)
  } finally {
    closeSync(fd)
  }
}

/** Creates a directory and its parents unless they exist. */
export function makeDirectorySync(path: string, mode?: number): void {
  const first = mkdirSync(path, { recursive: true, mode })
  if (first === undefined) return
  for (const made of [path, ...parentsUpTo(path, first)].reverse()) inheritOwner(made)
}

function parentsUpTo(path: string, first: string): string[] {
  return path === first ? [] : [dirname(path), ...parentsUpTo(dirname(path), first)]
}
