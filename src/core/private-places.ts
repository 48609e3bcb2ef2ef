// Directories of an instance that only svc's own user may enter: workspaces, logs, sockets, pages behind a login, the store.
import { dirname } from 'node:path'
import { Directory } from '../lib/directory.ts'
import { Refusal } from '../lib/refusal.ts'
import type { Layout } from './layout.ts'

const FOR_OTHERS = 0o077
/** The agents' own group may enter `groups/`, not list it: bubblewrap runs as their user and finds workspaces by their path. */
const ENTERED_BY_GROUP = 0o010

export function privatePlaces({ groups, logs, ipc, store, webPriv }: Layout): readonly string[] {
  return [groups, logs, ipc, dirname(store), webPriv]
}

/** Whether other users of the machine may enter or list it; undefined where it is missing. */
export async function isOpenToOthers(layout: Layout, path: string): Promise<boolean | undefined> {
  await using directory = await Directory.open(path, { follow: true })
  if (!directory) return undefined
  const { mode, gid } = await directory.stat()
  const isOwnGroup = path === layout.groups && gid === layout.agent?.gid
  return (mode & FOR_OTHERS & ~(isOwnGroup ? ENTERED_BY_GROUP : 0)) !== 0
}

/** Closes to other users those that exist, and makes the directories of workspaces and of logs. */
export async function securePlaces(layout: Layout): Promise<void> {
  for (const path of privatePlaces(layout)) await secure(path, path === layout.groups || path === layout.logs)
  const { agent, groups } = layout
  if (!agent) return
  await using directory = await Directory.open(groups, { follow: true })
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
