// The mounts of one run. The engine opens their sources by path, as root and through links, and agents may replace a path at
// any time. So svc opens each directory itself, and the first process of the container reports what was mounted.
import { fstatSync, readlinkSync } from 'node:fs'
import { CHAT_HOME } from '../../core/chats/chat-home.ts'
import { FILES_HOME } from '../../core/files/chat-files-directory.ts'
import { refuse } from '../../lib/refusal.ts'
import { openVisitorWorkspace, type VisibleEntry, type VisitorWorkspace } from '../bubblewrap/visitor-workspace.ts'
import type { CellResources, OpenDirectory } from '../cell.ts'
import { INNER_HOME } from '../cell-paths.ts'

export interface PlannedMount {
  /** Path on this machine as this process sees it. */
  readonly source: string
  readonly target: string
  readonly isReadOnly: boolean
  /** Device and inode of the open directory or file. */
  readonly identity: string
}

export interface MountPlan {
  /** Runs with the same key may use one container, one after another. */
  readonly key: string
  readonly kind: 'own' | 'chat'
  readonly mounts: readonly PlannedMount[]
  /** Entries of the workspace that are shown below reach `all`. */
  readonly entries: readonly VisibleEntry[]
  close(): Promise<void>
}

export async function openMountPlan({ folder, openHome, chat, files }: CellResources): Promise<MountPlan> {
  const opened: { close(): Promise<void> }[] = []
  const close = async (): Promise<void> => {
    for (const each of opened.splice(0)) await each.close()
  }
  const mount = async (
    opening: Promise<OpenDirectory>,
    target: string,
    isReadOnly = false,
  ): Promise<PlannedMount & { fd: number }> => {
    const directory = await opening
    opened.push(directory)
    return { ...mountOf(folder, directory.fd, target, isReadOnly), fd: directory.fd }
  }
  try {
    const home = await mount(openHome(), INNER_HOME)
    const shown = files ? [await mount(files.open(), FILES_HOME, true)] : []
    if (!chat)
      return { key: keyOf(folder, [home, ...shown]), kind: 'own', mounts: [home, ...shown], entries: [], close }
    const workspace = await openVisitorWorkspace(home.fd, chat)
    opened.push(workspace)
    if (workspace.omittedCount > 0) chat.onOmitted?.(workspace.omittedCount)
    const own = await mount(chat.open(), CHAT_HOME)
    const mounts = [own, ...shown, ...visitorMounts(folder, workspace)]
    // Another workspace of the same folder has other entries.
    const key = keyOf(folder, [home, ...mounts], workspace.entries.map(describeEntry))
    return { key, kind: 'chat', mounts, entries: workspace.entries, close }
  } catch (error) {
    await close()
    throw error
  }
}

export function isDirectoryEntry(entry: VisibleEntry): boolean {
  return entry.kind === 'mount' && fstatSync(entry.file.fd).isDirectory()
}

function visitorMounts(folder: string, { entries }: VisitorWorkspace): PlannedMount[] {
  return entries.flatMap((entry) =>
    entry.kind === 'mount' ? [mountOf(folder, entry.file.fd, `${INNER_HOME}/${entry.path}`, !entry.isWritable)] : [],
  )
}

function mountOf(folder: string, fd: number, target: string, isReadOnly: boolean): PlannedMount {
  const source = readlinkSync(`/proc/self/fd/${fd}`)
  if (!source.startsWith('/') || source.endsWith(' (deleted)'))
    refuse('conflict', `the workspace of ${folder} was removed`)
  return { source, target, isReadOnly, identity: identityOf(fd) }
}

function identityOf(fd: number): string {
  const { dev, ino } = fstatSync(fd, { bigint: true })
  return `${dev}:${ino}`
}

/** Changes with the content of a copy. */
function describeEntry(entry: VisibleEntry): string {
  if (entry.kind === 'link') return `${entry.path} -> ${entry.target}`
  if (entry.kind === 'mount') return `${entry.path}${entry.isWritable ? ' writable' : ''}`
  const { dev, ino, size, mtimeNs, ctimeNs } = fstatSync(entry.file.fd, { bigint: true })
  return [entry.path, entry.mode, dev, ino, size, mtimeNs, ctimeNs].join(' ')
}

function keyOf(folder: string, mounts: readonly PlannedMount[], entries: readonly string[] = []): string {
  return JSON.stringify([folder, mounts.map(({ target, identity }) => [target, identity]), entries])
}
