// Directories of an instance that only svc's own user may enter: workspaces, files of visitors' chats, logs, sockets, pages
// behind a login, the store.
import { dirname } from 'node:path'
import { Directory } from '../lib/directory.ts'
import { Refusal } from '../lib/refusal.ts'
import type { AgentUser } from './agent-user.ts'
import type { Layout } from './layout.ts'

const FOR_OTHERS = 0o077
/** The agents' own group may enter, not list, what cells mount: bubblewrap runs as their user and finds it by its path. */
const ENTERED_BY_GROUP = 0o010

export function privatePlaces(layout: Layout): readonly string[] {
  const { logs, ipc, store, webPriv } = layout
  return [...mountedPlaces(layout), logs, ipc, dirname(store), webPriv]
}

/** Directories below which cells mount what a run writes. */
export function mountedPlaces({ groups, chats }: Layout): readonly string[] {
  return [groups, chats]
}

/** Whether other users of the machine may enter or list it; undefined where it is missing. */
export async function isOpenToOthers(layout: Layout, path: string): Promise<boolean | undefined> {
  await using directory = await Directory.open(path, { follow: true })
  if (!directory) return undefined
  const { mode, gid } = await directory.stat()
  const isOwnGroup = mountedPlaces(layout).includes(path) && gid === layout.agent?.gid
  return (mode & FOR_OTHERS & ~(isOwnGroup ? ENTERED_BY_GROUP : 0)) !== 0
}

/** Closes to other users those that exist, and makes the directories of workspaces, of visitors' chats and of logs. */
export async function securePlaces(layout: Layout): Promise<void> {
  const made = [...mountedPlaces(layout), layout.logs]
  for (const path of privatePlaces(layout)) await secure(path, made.includes(path))
  if (layout.agent) for (const path of mountedPlaces(layout)) await letIn(layout.agent, path)
}

async function letIn(agent: AgentUser, path: string): Promise<void> {
  await using directory = await Directory.open(path, { follow: true })
  const { uid, mode } = (await directory?.stat()) ?? {}
  if (!directory || uid === undefined || mode === undefined) return
  await directory.setOwner({ uid, gid: agent.gid })
  await directory.setMode((mode & 0o700) | ENTERED_BY_GROUP)
}

async function secure(path: string, isMade: boolean): Promise<void> {
  try {
    await using directory = isMade
      ? await Directory.make(path, 0o700, { follow: true })
      : await Directory.open(path, { follow: true })
    const mode = directory && (await directory.stat()).mode & 0o777
    if (mode !== undefined && (mode & FOR_OTHERS) !== 0) await directory?.setMode(mode & ~FOR_OTHERS)
  } catch (error) {
    // It belongs to another user, or the disk is read-only: `svc doctor` reports it.
    if (!(error instanceof Refusal)) throw error
  }
}
