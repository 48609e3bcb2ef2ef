// What a run of reach `chat` sees of its folder's workspace: a read-only directory of its cell, with those entries that are no
// traces of other conversations. Each entry is opened without following a link, and bubblewrap mounts or copies what is open:
// another run of the folder may exchange entries at any moment. The mount points lie in a directory of the cell itself.
import { constants, type Dirent } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { isBlocked } from '../core/workspace.ts'
import { Directory, type EntryKind } from '../lib/directory.ts'
import { Refusal } from '../lib/refusal.ts'

/** Where agents keep what they know of people, do and have received; `logs` is of earlier versions. */
const PRIVATE = new Set(['MEMORY.md', 'diary', 'episodes', 'logs', 'media', 'users', 'work.md'])
/** Settings of the agent's client. Its sessions lie there, too. */
const CLIENT = '.claude'
/** Instructions alone: `settings.json` may hold keys. */
const INSTRUCTIONS = new Set(['CLAUDE.md', 'agents', 'commands', 'output-styles', 'rules', 'skills'])
/** Shown before all others, where there are more entries than can be shown. */
const FIRST = ['PERSONA.md', 'SYSTEM.md', 'CLAUDE.md', 'facts', 'public']

/** Bubblewrap reads all mounts again for each: 64 take about 50 ms, 300 half a second. */
const MOUNTS_MAX = 64
/** A small file is copied, which takes a tenth of a mount. */
const COPY_BYTES_MAX = 64 * 1024
const ENTRIES_MAX = 256
/** Of the memory of all copies: a file may grow while it is copied. */
const SIZE = 2 * ENTRIES_MAX * COPY_BYTES_MAX

const WORLD_READABLE = constants.S_IROTH
const EXECUTABLE = constants.S_IXUSR

export interface VisitorWorkspace {
  /** Arguments of bubblewrap; `pass` answers with the number of a descriptor in the new process. */
  mounts(at: string, pass: (fd: number) => string): string[]
  /** Entries that could be shown, and are not because they are too many. */
  readonly leftOut: number
  close(): Promise<void>
}

type Shown =
  | { readonly path: string; readonly kind: 'link'; readonly target: string }
  | { readonly path: string; readonly kind: 'mount'; readonly file: Opened }
  | { readonly path: string; readonly kind: 'copy'; readonly file: Opened; readonly mode: '0444' | '0555' }

interface Opened {
  readonly fd: number
  close(): Promise<void>
}

/** `children` are names of directories in which groups below this folder have their workspaces. */
export async function openVisitorWorkspace(
  workspace: number,
  children: ReadonlySet<string>,
): Promise<VisitorWorkspace> {
  await using home = await Directory.open(`/proc/self/fd/${workspace}/.`)
  await using client = await home?.openDirectory(CLIENT)
  const shown: Shown[] = []
  const close = async (): Promise<void> => {
    for (const entry of shown) await closeEntry(entry)
  }
  let [leftOut, mounts] = [0, 0]
  const show = async (directory: Directory | undefined, { name }: Dirent, path: string): Promise<void> => {
    const entry = await openEntry(directory, name)
    if (entry?.kind === 'mount' && ++mounts > MOUNTS_MAX) {
      leftOut++
      await closeEntry(entry)
    } else if (entry) shown.push({ ...entry, path })
  }
  try {
    for (const entry of (await client?.entries()) ?? [])
      if (INSTRUCTIONS.has(entry.name)) await show(client, entry, `${CLIENT}/${entry.name}`)
    const entries = (await home?.entries()) ?? []
    for (const entry of entries.filter(({ name }) => !isHidden(name, children)).sort(byImportance)) {
      // Not opened to find out: a workspace may have any number of them.
      const isFull = shown.length >= ENTRIES_MAX || (mounts >= MOUNTS_MAX && entry.isDirectory())
      if (isFull) leftOut++
      else await show(home, entry, entry.name)
    }
    return { mounts: (at, pass) => argumentsFor(shown, at, pass), leftOut, close }
  } catch (error) {
    await close()
    throw error
  }
}

function isHidden(name: string, children: ReadonlySet<string>): boolean {
  return name.startsWith('.') || PRIVATE.has(name) || children.has(name) || isBlocked([name])
}

async function closeEntry(entry: Shown): Promise<void> {
  if (entry.kind !== 'link') await entry.file.close()
}

function byImportance(a: Dirent, b: Dirent): number {
  const rank = ({ name }: Dirent): number => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length)
  return rank(a) - rank(b)
}

/** Undefined for what is gone meanwhile, cannot be opened, or is no file, directory or link. */
async function openEntry(directory: Directory | undefined, name: string): Promise<Shown | undefined> {
  try {
    const kind = await directory?.kindOf(name)
    return directory && kind && (await openKind(directory, name, kind))
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

async function openKind(directory: Directory, path: string, kind: EntryKind): Promise<Shown | undefined> {
  // Followed in the cell, by its own paths, and so to nothing that is not shown.
  if (kind === 'link') {
    const target = await directory.readLink(path)
    return target === undefined ? undefined : { path, kind, target }
  }
  if (kind === 'file') {
    const file = await directory.openFile(path)
    return file && (await fileEntry(path, file))
  }
  const file = kind === 'directory' ? await directory.openDirectory(path) : undefined
  if (!file) return undefined
  // The workspace of a group that was removed, whose files stay.
  if ((await file.kindOf(CLIENT)) === undefined) return { path, kind: 'mount', file }
  await file.close()
  return undefined
}

async function fileEntry(path: string, file: FileHandle): Promise<Shown> {
  const { size, mode } = await file.stat()
  // Of a file that is mounted, the kernel decides whether the agents' user may read it.
  if (size > COPY_BYTES_MAX || (mode & WORLD_READABLE) === 0) return { path, kind: 'mount', file }
  return { path, kind: 'copy', file, mode: mode & EXECUTABLE ? '0555' : '0444' }
}

function argumentsFor(shown: readonly Shown[], at: string, pass: (fd: number) => string): string[] {
  return [
    ...['--size', String(SIZE), '--perms', '0755', '--tmpfs', at, '--perms', '0755', '--dir', `${at}/${CLIENT}`],
    // Links come last, so that no mount point is reached through one.
    ...shown.filter(({ kind }) => kind !== 'link').flatMap((entry) => entryArguments(entry, at, pass)),
    ...shown.filter(({ kind }) => kind === 'link').flatMap((entry) => entryArguments(entry, at, pass)),
    ...['--remount-ro', at],
  ]
}

function entryArguments(entry: Shown, at: string, pass: (fd: number) => string): string[] {
  const path = `${at}/${entry.path}`
  if (entry.kind === 'link') return ['--symlink', entry.target, path]
  if (entry.kind === 'mount') return ['--ro-bind-fd', pass(entry.file.fd), path]
  return ['--perms', entry.mode, '--file', pass(entry.file.fd), path]
}
