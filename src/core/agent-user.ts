// The Unix users that agents run as. They are never root. The agents of each world (the first segment of a folder) have a user
// of their own, because the kernel counts many limits per user and lets a user's processes signal and inspect each other.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { refuse } from '../lib/refusal.ts'

export interface AgentUser {
  readonly uid: number
  readonly gid: number
}

/** The first of `count` users with consecutive numbers. They share a group, which may enter the directory of the workspaces. */
export interface AgentUsers extends AgentUser {
  readonly count: number
}

interface AgentUserSettings {
  readonly AGENT_UID?: number | undefined
  readonly AGENT_UIDS: number
}

/** The directory of the workspaces in the data directory. */
export const WORKSPACES = 'groups'

/** Fixed, so workspaces keep their owner when an instance moves to another machine. */
const DEFAULT_UID = 60_000
/** The user "nobody", to which the kernel maps unknown users. */
const NOBODY_UID = 65_534
/** The kernel reserves this value and the next one. */
const UID_LIMIT = 4_294_967_294

/**
 * Undefined if svc does not run as root: agents then run as svc's user. If an ordinary user owns the data directory, or the
 * workspaces in it (as after `svc generate`), agents are that user, also in a command that root types.
 */
export function agentUsers(
  settings: AgentUserSettings,
  root: string | undefined,
  isRoot: boolean = process.getuid?.() === 0,
): AgentUsers | undefined {
  const { AGENT_UID: uid = DEFAULT_UID, AGENT_UIDS } = settings
  if (uid === 0)
    refuse('invalid', 'AGENT_UID must not be 0: agents never run as root', 'remove it, or set AGENT_UID=60000')
  if (uid >= UID_LIMIT) refuse('invalid', `AGENT_UID must be below ${UID_LIMIT}`)
  if (AGENT_UIDS === 0) refuse('invalid', 'AGENT_UIDS must be at least 1')
  if (!isRoot) return undefined
  for (const path of root === undefined ? [] : [root, join(root, WORKSPACES)]) {
    const owner = statSync(path, { throwIfNoEntry: false })
    if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid, count: 1 }
  }
  const limit = uid < NOBODY_UID ? NOBODY_UID : UID_LIMIT
  return { uid, gid: uid, count: Math.min(AGENT_UIDS, limit - uid) }
}

/** The user of a world by its number in the store. More worlds than users share them. */
export function userOfWorld({ uid, gid, count }: AgentUsers, ordinal: number): AgentUser {
  return { uid: uid + (ordinal % count), gid }
}
