// The view of a workspace for a run below reach `all`: read-only but for the directories that it may write, without sessions
// and, for visitors, without traces of other conversations. Each entry is opened without following links, and bubblewrap mounts or copies the open file, because another run may replace entries at any time.
import { constants } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { isBlockedPath } from '../../core/groups/workspace-files.ts'
import { Directory, type EntryKind } from '../../lib/files/directory.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { ChatDirectory } from '../cell.ts'

/** What agents store about people, their work and received files; earlier versions used `logs`. */
const PRIVATE = new Set(['MEMORY.md', 'diary', 'episodes', 'logs', 'media', 'users', 'work.md'])
/** Settings and sessions of the agent's client. */
export const CLIENT_DIRECTORY = '.claude'
/** Sessions of the runtime `openai`. */
const SESSIONS_DIRECTORY = '.svc'
/** Visible parts of CLIENT_DIRECTORY. */
const INSTRUCTIONS = ['CLAUDE.md', 'agents', 'commands', 'output-styles', 'rules', 'skills']
/** They may contain keys. */
const SETTINGS = ['settings.json', 'settings.local.json']
/** Opened by name, before any other entry. */
const FIRST = ['PERSONA.md', 'SYSTEM.md', 'CLAUDE.md', 'facts', 'public']

/** The cost of a mount grows with their number: 64 take about 50 ms, 300 half a second. */
const MOUNTS_MAX = 64
/** Smaller files are copied, which takes a tenth of a mount. */
export const COPY_BYTES_MAX = 64 * 1024
const ENTRIES_MAX = 256
/** A workspace may have any number of entries: this many names are read, and half of them are opened. */
const NAMES_MAX = 1024
const OPENED_MAX = NAMES_MAX / 2
/** Memory for all copies, with room for files that grow while they are copied. */
const TMPFS_BYTES = 2 * ENTRIES_MAX * COPY_BYTES_MAX

const WORLD_READABLE = constants.S_IROTH
const EXECUTABLE = constants.S_IXUSR

export interface VisitorWorkspace {
  readonly entries: readonly VisibleEntry[]
  /** Arguments of bubblewrap; `pass` returns the number that a descriptor has in the new process. */
  mounts(at: string, pass: (fd: number) => string): string[]
  /** Number of entries that are hidden because there are too many; more if names were not read. */
  readonly omittedCount: number
  close(): Promise<void>
}

/** `path` is relative to the workspace. */
export type VisibleEntry =
  | { readonly path: string; readonly kind: 'link'; readonly target: string }
  | { readonly path: string; readonly kind: 'mount'; readonly file: OpenFile; readonly isWritable: boolean }
  | { readonly path: string; readonly kind: 'copy'; readonly file: OpenFile; readonly mode: '0444' | '0555' }

interface OpenFile {
  readonly fd: number
  close(): Promise<void>
}

export type WorkspaceView = Pick<ChatDirectory, 'children' | 'isVisitor' | 'writable'>

export async function openVisitorWorkspace(workspace: number, view: WorkspaceView): Promise<VisitorWorkspace> {
  await using home = await Directory.open(`/proc/self/fd/${workspace}/.`)
  await using client = await home?.openDirectory(CLIENT_DIRECTORY)
  const visible: VisibleEntry[] = []
  const close = async (): Promise<void> => {
    for (const entry of visible) await closeEntry(entry)
  }
  let [omittedCount, mounts, opened] = [0, 0, 0]
  const show = async (directory: Directory | undefined, name: string, path: string): Promise<void> => {
    opened++
    const entry = await openEntry(directory, name, directory === home && view.writable.has(name))
    if (entry?.kind === 'mount' && ++mounts > MOUNTS_MAX) {
      omittedCount++
      await closeEntry(entry)
    } else if (entry) visible.push({ ...entry, path })
  }
  try {
    const shown = view.isVisitor ? INSTRUCTIONS : [...INSTRUCTIONS, ...SETTINGS]
    if (client) for (const name of shown) await show(client, name, `${CLIENT_DIRECTORY}/${name}`)
    const first = [...new Set([...view.writable, ...FIRST])]
    for (const name of first) if (!isHidden(name, view)) await show(home, name, name)
    const { entries, isCut } = (await home?.firstEntries(NAMES_MAX)) ?? { entries: [], isCut: false }
    if (isCut) omittedCount++
    for (const entry of entries.filter(({ name }) => !isHidden(name, view) && !first.includes(name))) {
      const isFull = visible.length >= ENTRIES_MAX || opened >= OPENED_MAX
      if (isFull || (mounts >= MOUNTS_MAX && entry.isDirectory())) omittedCount++
      else await show(home, entry.name, entry.name)
    }
    return { entries: visible, mounts: (at, pass) => argumentsFor(visible, at, pass), omittedCount, close }
  } catch (error) {
    await close()
    throw error
  }
}

function isHidden(name: string, { children, isVisitor }: WorkspaceView): boolean {
  if (name === CLIENT_DIRECTORY || name === SESSIONS_DIRECTORY || children.has(name)) return true
  return isVisitor && (name.startsWith('.') || PRIVATE.has(name) || isBlockedPath([name]))
}

async function closeEntry(entry: VisibleEntry): Promise<void> {
  if (entry.kind !== 'link') await entry.file.close()
}

/** Undefined if the entry was removed, cannot be opened, or is not a file, directory or link. */
async function openEntry(
  directory: Directory | undefined,
  name: string,
  isWritable: boolean,
): Promise<VisibleEntry | undefined> {
  try {
    const kind = await directory?.kindOf(name)
    return directory && kind && (await openKind(directory, name, kind, isWritable))
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

async function openKind(
  directory: Directory,
  path: string,
  kind: EntryKind,
  isWritable: boolean,
): Promise<VisibleEntry | undefined> {
  // The link is resolved inside the sandbox, so it reaches only visible files.
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
  // A directory with client settings is the workspace of a removed group, unless runs may create them.
  if (isWritable || (await file.kindOf(CLIENT_DIRECTORY)) === undefined)
    return { path, kind: 'mount', file, isWritable }
  await file.close()
  return undefined
}

async function fileEntry(path: string, file: FileHandle): Promise<VisibleEntry> {
  const { size, mode } = await file.stat()
  // For a mounted file the kernel checks whether the agents' user may read it.
  if (size > COPY_BYTES_MAX || (mode & WORLD_READABLE) === 0) return { path, kind: 'mount', file, isWritable: false }
  return { path, kind: 'copy', file, mode: mode & EXECUTABLE ? '0555' : '0444' }
}

function argumentsFor(visible: readonly VisibleEntry[], at: string, pass: (fd: number) => string): string[] {
  return [
    ...[
      '--size',
      String(TMPFS_BYTES),
      '--perms',
      '0755',
      '--tmpfs',
      at,
      '--perms',
      '0755',
      '--dir',
      `${at}/${CLIENT_DIRECTORY}`,
    ],
    // Links last, so that no mount point is created through a link.
    ...visible.filter(({ kind }) => kind !== 'link').flatMap((entry) => entryArguments(entry, at, pass)),
    ...visible.filter(({ kind }) => kind === 'link').flatMap((entry) => entryArguments(entry, at, pass)),
    ...['--remount-ro', at],
  ]
}

function entryArguments(entry: VisibleEntry, at: string, pass: (fd: number) => string): string[] {
  const path = `${at}/${entry.path}`
  if (entry.kind === 'link') return ['--symlink', entry.target, path]
  if (entry.kind === 'mount') return [entry.isWritable ? '--bind-fd' : '--ro-bind-fd', pass(entry.file.fd), path]
  return ['--perms', entry.mode, '--file', pass(entry.file.fd), path]
}
