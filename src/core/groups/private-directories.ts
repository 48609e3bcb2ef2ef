// Directories of an instance that other users must not enter: workspaces, files of chats, logs, sockets, private
// pages and the store.
import { dirname } from 'node:path'
import { Directory } from '../../lib/files/directory.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { AgentUsers } from '../agent-user.ts'
import type { Layout } from '../layout.ts'

const FOR_OTHERS = 0o077
/** The agents' group may enter, but not list, mounted directories: bubblewrap runs as their user and opens paths there. */
const GROUP_EXECUTE = 0o010

export function privateDirectories(layout: Layout): readonly string[] {
  const { logs, ipc, cells, store, webPriv } = layout
  return [...mountedDirectories(layout), logs, ipc, cells, dirname(store), webPriv]
}

/** Parents of the directories that cells mount. */
function mountedDirectories({ groups, chats, files }: Layout): readonly string[] {
  return [groups, chats, files]
}

/** Undefined if the directory does not exist. */
export async function isOpenToOthers(layout: Layout, path: string): Promise<boolean | undefined> {
  await using directory = await Directory.open(path, { follow: true })
  if (!directory) return undefined
  const { mode, gid } = await directory.stat()
  const isOwnGroup = mountedDirectories(layout).includes(path) && gid === layout.agents?.gid
  return (mode & FOR_OTHERS & ~(isOwnGroup ? GROUP_EXECUTE : 0)) !== 0
}

/**
 * Removes access for other users, and creates the directories of workspaces, chats and logs, unless this process may be in a
 * container that does not mount them.
 */
export async function securePrivateDirectories(layout: Layout, isContained = false): Promise<void> {
  const required = isContained ? [] : [...mountedDirectories(layout), layout.logs]
  for (const path of privateDirectories(layout)) await secure(path, required.includes(path))
  if (layout.agents) for (const path of mountedDirectories(layout)) await allowAgentGroup(layout.agents, path)
}

async function allowAgentGroup({ gid }: AgentUsers, path: string): Promise<void> {
  await using directory = await Directory.open(path, { follow: true })
  const { uid, mode } = (await directory?.stat()) ?? {}
  if (!directory || uid === undefined || mode === undefined) return
  await directory.setOwner({ uid, gid })
  await directory.setMode((mode & 0o700) | GROUP_EXECUTE)
}

async function secure(path: string, isRequired: boolean): Promise<void> {
  try {
    await using directory = isRequired
      ? await Directory.make(path, 0o700, { follow: true })
      : await Directory.open(path, { follow: true })
    const mode = directory && (await directory.stat()).mode & 0o777
    if (mode !== undefined && (mode & FOR_OTHERS) !== 0) await directory?.setMode(mode & ~FOR_OTHERS)
  } catch (error) {
    // Another user owns it, or the disk is read-only: `svc doctor` reports it.
    if (!(error instanceof Refusal)) throw error
  }
}
